//! What every bench needs: a server and its counters, threads that contend, a process beside, a report.

// Each bench uses its own part of this.
#![allow(dead_code, unreachable_pub)]

pub(crate) mod beside;
pub(crate) mod contend;
#[path = "../../examples/tour/private_server.rs"]
pub(crate) mod private_server;
pub(crate) mod report;
pub(crate) mod samples;
pub(crate) mod server;

use std::{env, error::Error, time::Duration};

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// How long a workload runs: `--seconds N` or `LOCKSON_BENCH_SECONDS`, else a few seconds.
///
/// `cargo bench` says `--bench`; who does not only wants to see that the program works.
pub(crate) fn time_of_a_workload() -> Outcome<Duration> {
    let words: Vec<String> = env::args().collect();
    let after = |word: &str| words.iter().skip_while(|one| *one != word).nth(1).cloned();
    let asked = match words.iter().any(|one| one == "--seconds") {
        true => Some(after("--seconds").ok_or("--seconds wants a number")?),
        false => env::var("LOCKSON_BENCH_SECONDS").ok(),
    };
    let is_bench = words.iter().any(|one| one == "--bench");
    let is_test = words.iter().any(|one| one == "--test");
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
        None if is_bench && !is_test => Ok(Duration::from_secs(5)),
        None => Ok(Duration::from_millis(100)),
    }
}

/// What takes longer than this is an error: no bench hangs.
pub(crate) const BOUND: Duration = Duration::from_secs(30);
