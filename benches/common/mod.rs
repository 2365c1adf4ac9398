//! What every bench needs: a server and its counters, the workloads, processes beside, a report.

// Each bench uses its own part of this.
#![allow(dead_code, unreachable_pub)]

pub(crate) mod allocations;
pub(crate) mod contend;
pub(crate) mod crowd;
pub(crate) mod drawing;
pub(crate) mod ours;
pub(crate) mod page;
pub(crate) mod plain;
#[path = "../../examples/tour/private_server.rs"]
pub(crate) mod private_server;
pub(crate) mod report;
pub(crate) mod samples;
pub(crate) mod serve;
pub(crate) mod server;
pub(crate) mod side;
pub(crate) mod wake;
pub(crate) mod workload;

use std::{env, error::Error, time::Duration};

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// How long a workload runs: `--seconds N` or `LOCKSON_BENCH_SECONDS`, else a few seconds.
///
/// `cargo bench` says `--bench`; who does not only wants to see that the program works.
pub(crate) fn time_of_a_workload() -> Outcome<Duration> {
    let asked = match argument("--seconds")? {
        None => env::var("LOCKSON_BENCH_SECONDS").ok(),
        asked => asked,
    };
    match asked {
        Some(asked) => {
            let seconds: f64 = asked
                .parse()
                .map_err(|_| format!("no number of seconds: {asked:?}"))?;
            let time = Duration::try_from_secs_f64(seconds)?;
            match time.is_zero() {
                true => Err("a workload needs some time".into()),
                false => Ok(time),
            }
        }
        None if is_bench() => Ok(Duration::from_secs(2)),
        None => Ok(Duration::from_millis(100)),
    }
}

/// Whether numbers are wanted; else only that the program works.
pub(crate) fn is_bench() -> bool {
    let is_said = |word: &str| env::args().any(|one| one == word);
    is_said("--bench") && !is_said("--test")
}

/// What follows this word on the command line.
pub(crate) fn argument(word: &str) -> Outcome<Option<String>> {
    let mut words = env::args().skip_while(|one| one != word);
    match (words.next(), words.next()) {
        (None, _) => Ok(None),
        (Some(_), None) => Err(format!("{word} wants something behind it").into()),
        (_, value) => Ok(value),
    }
}

/// What takes longer than this is an error: no bench hangs.
pub(crate) const BOUND: Duration = Duration::from_secs(30);
