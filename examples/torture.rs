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
#[path = "torture/deeds.rs"]
mod deeds;
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
#[path = "torture/plan.rs"]
mod plan;
#[path = "torture/register.rs"]
mod register;
#[path = "torture/report.rs"]
mod report;
#[path = "torture/schedule.rs"]
mod schedule;
#[path = "torture/soak.rs"]
mod soak;
#[path = "torture/watch.rs"]
mod watch;
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
        Some(Task::Soak(options)) => soak::run(&options),
        Some(Task::Torture(options)) => driver::run(&options),
        None => {
            eprintln!("{USAGE}");
            ExitCode::FAILURE
        }
    }
}

enum Task {
    Check(String),
    Soak(soak::Options),
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
    let (mut soaks, mut names, mut cycles) = (false, 10_000, 100_000);
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
            "--soak" => soaks = true,
            "--names" => names = number()?.max(soak::HOT),
            "--cycles" => cycles = number()?,
            "--check" => return Some(Task::Check(words.next()?.clone())),
            _ => return None,
        }
    }
    Some(if soaks {
        Task::Soak(soak::Options {
            names,
            held_for: options.length,
            cycles,
            seed: options.seed,
        })
    } else {
        Task::Torture(options)
    })
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
       torture --soak [--seconds N] [--names N] [--cycles N]
       torture --check DIRECTORY

  --red    RedLocks too, on three more servers
  --flush  the keys are destroyed now and then: whoever held must be told
  --soak   no faults: very many names, held for so long, then taken and released so often
  --keep   leave the histories where they are, also when nothing was found";
