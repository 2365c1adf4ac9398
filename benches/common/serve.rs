//! The orders of a side, and how this crate follows them.
//!
//! ```text
//! run WORKLOAD SECONDS NAME   does it            {"counts":[…],"seconds":…,"held_us":…,"p50_us":…,"p99_us":…,"max_us":…}
//! take NAME                   waits for a lock   {"at":…}, nanoseconds of the system's clock when it had it
//! release                     releases it        {"at":…}, just before it began to
//! held COUNT SECONDS          holds many names   what that costs, see crowd.rs
//! waiting COUNT               many threads wait  what that costs, see crowd.rs
//! ```
//!
//! What fails answers `{"error":…}`.

use std::{
    env,
    io::{self, BufRead},
    process,
    sync::{atomic::Ordering, mpsc},
    thread,
    time::{Duration, SystemTime},
};

use lockson::LockGuard;
use serde_json::{Value, json};

use super::{Outcome, contend, crowd, ours::Ours, plain};

/// Names the role and the servers, where a program is started as a side.
pub(crate) const ROLE: &str = "LOCKSON_BENCH_ROLE";

/// The role of who sends the two scripts and nothing else; all others are this crate.
pub(crate) const PLAIN: &str = "plain redis::Connection";

/// Whether this process is a side; if so, it ends with its input and this returns only on errors.
pub(crate) fn was_side() -> Outcome<bool> {
    let Ok(role) = env::var(ROLE) else {
        return Ok(false);
    };
    let (role, urls) = role.rsplit_once(' ').ok_or("role and URLs expected")?;
    let urls: Vec<String> = urls.split(',').map(str::to_owned).collect();
    contend::QUIET.store(true, Ordering::Relaxed);
    let (sender, orders) = mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
        // Whatever is under way: nobody is there any more to hear of it.
        process::exit(0);
    });
    let mut actor = Actor {
        is_plain: role == PLAIN,
        ours: Ours::on(&urls),
        urls,
        guard: None,
    };
    println!("ready");
    for order in orders {
        let words: Vec<&str> = order.split(' ').collect();
        let answer = actor.follow(&words);
        println!(
            "{}",
            answer.unwrap_or_else(|error| json!({"error": error.to_string()}))
        );
    }
    Ok(true)
}

struct Actor {
    is_plain: bool,
    ours: Ours,
    urls: Vec<String>,
    guard: Option<LockGuard>,
}

impl Actor {
    fn follow(&mut self, order: &[&str]) -> Outcome<Value> {
        match *order {
            ["run", workload, seconds, name] => {
                let (workload, time) = (workload.parse()?, span(seconds)?);
                let contest = match self.is_plain {
                    true => plain::run(&self.urls[0], workload, name, time)?,
                    false => self.ours.run(workload, name, time)?,
                };
                Ok(contest.outturn().to_json())
            }
            ["take", name] => {
                let guard = self.ours.client(0)?.reentrant_lock(name).lock()?;
                let at = now()?;
                self.guard = Some(guard);
                Ok(at)
            }
            ["release"] => {
                let guard = self.guard.take().ok_or("nothing was taken")?;
                let at = now()?;
                guard.unlock()?;
                Ok(at)
            }
            ["held", count, seconds] => crowd::held(&self.urls[0], count.parse()?, span(seconds)?),
            ["waiting", count] => crowd::waiting(&self.urls[0], count.parse()?),
            _ => Err(format!("no order: {order:?}").into()),
        }
    }
}

fn span(seconds: &str) -> Outcome<Duration> {
    Ok(Duration::try_from_secs_f64(seconds.parse()?)?)
}

fn now() -> Outcome<Value> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(json!({"at": u64::try_from(now.as_nanos())?}))
}
