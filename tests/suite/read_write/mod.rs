//! The read-write lock: readers share, a writer is alone, and no reader is forgotten.

mod basics;
mod faults;
mod handing_over;
mod late;
mod leases;
mod limits;
mod nested;
mod outages;
mod random;

use std::{collections::BTreeMap, thread, time::Duration};

use lockson::ReadWriteLock;
use redis::Commands;

use crate::support::Server;

fn other_thread<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(body).join().expect("the thread ends well"))
}

/// The fields of the lock's hash.
fn fields(server: &Server, lock: &ReadWriteLock) -> BTreeMap<String, String> {
    let mut redis = server.connection();
    redis.hgetall(lock.name()).expect("the lock is a hash")
}

/// What is left of a slot of a reader in ms, as `PTTL` counts.
fn slot(server: &Server, lock: &ReadWriteLock, reader: &str, number: u32) -> i64 {
    let key = format!("{{{}}}:{reader}:rwlock_timeout:{number}", lock.name());
    server.connection().pttl(key).expect("PTTL")
}

fn ttl(server: &Server, lock: &ReadWriteLock) -> i64 {
    server.connection().pttl(lock.name()).expect("PTTL")
}

/// What Redis must say at least, in ms, that was asked before the guard was: it counts in whole
/// milliseconds, by a clock of its own.
fn believed(remaining: Duration) -> i64 {
    i64::try_from(remaining.as_millis()).expect("it is short") - 3
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// For facts that are due at once, on a machine that is busy with other things.
const SOON: Duration = secs(10);
