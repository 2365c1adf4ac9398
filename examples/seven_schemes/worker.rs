//! A worker in a process of its own that takes a lock and is killed: this program once more.

use std::{
    env,
    io::{BufRead, BufReader, Read},
    process::{self, Child, Command, Stdio},
};

use crate::{Outcome, WATCHDOG};

/// The worker; killed when this is dropped.
pub(crate) struct Worker(Child);

impl Worker {
    /// Starts it, and returns when it has come to the point at which it shall be killed.
    pub(crate) fn stopped_in(what: &str, url: &str, name: &str) -> Outcome<Self> {
        let child = Command::new(env::current_exe()?)
            .args([ROLE, what, url, name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut worker = Self(child);
        let mut said = String::new();
        let pipe = worker.0.stdout.take().expect("a pipe was asked for");
        BufReader::new(pipe).read_line(&mut said)?;
        if said.trim() == what {
            Ok(worker)
        } else {
            Err(format!("{what}: {said:?}").into())
        }
    }

    /// Kills it, by a signal that it cannot see.
    pub(crate) fn kill(mut self) -> Outcome<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Between the two commands of the first recipe.
pub(crate) const AFTER_SETNX: &str = "after SETNX";
/// Just when it has a lock of this crate.
pub(crate) const AFTER_LOCK: &str = "after lock";

/// Does the part of the worker and ends, if this is the worker.
pub(crate) fn unless_first() {
    let words: Vec<String> = env::args().skip(1).collect();
    if let [role, what, url, name] = &*words
        && role == ROLE
    {
        if let Err(error) = work(what, url, name) {
            eprintln!("the worker: {error}");
        }
        process::exit(1);
    }
}

fn work(what: &str, url: &str, name: &str) -> Outcome<()> {
    if what == AFTER_SETNX {
        let mut redis = redis::Client::open(url)?.get_connection()?;
        let _: bool = redis::cmd("SETNX").arg(name).arg(1).query(&mut redis)?;
        println!("{what}");
        wait_for_the_end();
        let _: bool = redis::cmd("EXPIRE").arg(name).arg(300).query(&mut redis)?;
    } else {
        let client = lockson::Client::builder()
            .lock_watchdog_timeout(WATCHDOG)
            .connect(url)?;
        let _guard = client.reentrant_lock(name).lock()?;
        println!("{what}");
        wait_for_the_end();
    }
    Ok(())
}

/// Until it is killed, or the one who would kill it has gone.
fn wait_for_the_end() {
    let _ = std::io::stdin().read(&mut [0]);
}

const ROLE: &str = "worker";
