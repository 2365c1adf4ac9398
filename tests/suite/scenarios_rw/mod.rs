//! The scenarios of Redisson's own tests of the read-write lock.

mod as_the_lock;
mod dead;
mod leases;
mod sharing;

use std::{
    ops::Range,
    thread,
    time::{Duration, Instant},
};

use lockson::{Lock, ReadWriteLock, Ttl};
use redis::Commands;

use crate::support::{Ground, Server, connect};

#[track_caller]
fn taken<L: Lock>(lock: &L) -> L::Guard {
    lock.try_lock().expect("answered").expect("free")
}

fn refused<L: Lock>(lock: &L) -> bool {
    lock.try_lock().expect("answered").is_none()
}

fn other_thread<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(body).join().expect("the thread ends well"))
}

/// The same lock, of a client of its own.
fn of_another_client(ground: &Ground, lock: &ReadWriteLock) -> ReadWriteLock {
    connect(ground).read_write_lock(lock.name())
}

/// Whether somebody reads, and whether somebody writes.
fn locked(lock: &ReadWriteLock) -> (bool, bool) {
    let (read, write) = (lock.read_lock(), lock.write_lock());
    let reads = read.is_locked().expect("answered");
    (reads, write.is_locked().expect("answered"))
}

/// The key of a reader's slot.
fn slot(lock: &ReadWriteLock, reader: &str, number: u32) -> String {
    format!("{{{}}}:{reader}:rwlock_timeout:{number}", lock.name())
}

/// What is left of a key in ms, as `PTTL` counts.
fn left(server: &Server, key: &str) -> i64 {
    server.connection().pttl(key).expect("PTTL is answered")
}

/// Takes away what a reader leaves that was sent away by force: its slot ends by itself only.
fn forget_slot(server: &Server, lock: &ReadWriteLock, reader: &str) {
    let gone: u64 = redis::from_redis_value(server.cli(&["DEL", &slot(lock, reader, 1)]))
        .expect("a number of keys");
    assert_eq!(gone, 1, "a slot stays until its time is over");
}

#[track_caller]
fn passed_since(start: Instant, bounds: Range<Duration>) {
    let passed = start.elapsed();
    assert!(bounds.contains(&passed), "{passed:?}, not in {bounds:?}");
}

fn is_free(lock: &ReadWriteLock) -> bool {
    lock.inspect().expect("answered").ttl == Ttl::Free
}

fn is_long() -> bool {
    std::env::var_os("LOCKSON_LONG").is_some()
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// For facts that are due at once, on a machine that is busy with other things.
const SOON: Duration = secs(10);

/// What a lease may seem shorter on our clock than on the server's.
const SKEW: Duration = millis(10);
