//! Tortures the locks: many processes and threads on a few names, under random faults, and checkers
//! that read afterwards what each of them believed.
//!
//! ```text
//! cargo run --release --example torture -- --seconds 60 --seed 7
//! ```
//!
//! It starts a redis-server that writes all to its disk, a proxy for each worker, and the workers,
//! which are processes of this same program. What goes wrong and when depends on the seed alone. It
//! ends with a list of what must not have happened, and fails if that is not empty.

#[path = "../tests/support/mod.rs"]
mod support;

#[path = "torture/actor.rs"]
mod actor;
#[path = "torture/clock.rs"]
mod clock;
#[path = "torture/crew.rs"]
mod crew;
#[path = "torture/dice.rs"]
mod dice;
#[path = "torture/driver.rs"]
mod driver;
#[path = "torture/evil.rs"]
mod evil;
#[path = "torture/history/mod.rs"]
mod history;
#[path = "torture/pen.rs"]
mod pen;
#[path = "torture/register.rs"]
mod register;
#[path = "torture/report.rs"]
mod report;
#[path = "torture/schedule.rs"]
mod schedule;
#[path = "torture/worker.rs"]
mod worker;

use std::{
    env,
    path::Path,
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

fn main() -> ExitCode {
    if let Some(orders) = worker::orders() {
        worker::run(&orders);
    }
    let words: Vec<String> = env::args().skip(1).collect();
    match parse(&words) {
        Some(Task::Check(dir)) => check(&dir),
        Some(Task::Torture(options)) => driver::run(&options),
        None => {
            eprintln!("{USAGE}");
            ExitCode::FAILURE
        }
    }
}

enum Task {
    Check(String),
    Torture(driver::Options),
}

fn parse(words: &[String]) -> Option<Task> {
    let mut options = driver::Options {
        length: Duration::from_secs(30),
        seed: some_seed(),
        workers: 4,
        threads: 4,
        flush: false,
        red: false,
        keep: false,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut number = || words.next()?.parse::<u64>().ok();
        match &**word {
            "--seconds" => options.length = Duration::from_secs(number()?),
            "--seed" => options.seed = number()?,
            "--workers" => options.workers = number()?.max(1),
            "--threads" => options.threads = number()?.max(1),
            "--flush" => options.flush = true,
            "--red" => options.red = true,
            "--keep" => options.keep = true,
            "--check" => return Some(Task::Check(words.next()?.clone())),
            _ => return None,
        }
    }
    Some(Task::Torture(options))
}

/// Has the checkers look once more at what an earlier run wrote down.
fn check(dir: &str) -> ExitCode {
    match history::History::load(Path::new(dir)) {
        Ok(history) if report::findings(&history, None, &[]) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{dir}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn some_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(1, |since| u64::from(since.subsec_nanos()))
}

const USAGE: &str = "\
usage: torture [--seconds N] [--seed N] [--workers N] [--threads N] [--red] [--flush] [--keep]
       torture --check DIRECTORY

  --red    RedLocks too, on three more servers
  --flush  the keys are destroyed now and then: whoever held must be told
  --keep   leave the histories where they are, also when nothing was found";
