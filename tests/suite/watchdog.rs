//! Kept alive: the watchdog.

mod batches;
mod bounds;
mod busy;
mod crowd;
mod kept;
mod races;

use std::{
    thread,
    time::{Duration, Instant},
};

use lockson::{Client, ErrorKind, LockGuard, ReentrantLock};
use redis::Commands;

use crate::support::{Ground, Server, Told, connect_with, eventually};

/// A client whose watchdog renews at a third of this, and whatever it tells.
fn watching(ground: &Ground, timeout: Duration) -> (Client, Told) {
    let told = Told::default();
    let client = connect_with(ground, |builder| {
        builder
            .lock_watchdog_timeout(timeout)
            .on_event(told.handler())
    });
    (client, told)
}

#[track_caller]
fn taken(lock: &ReentrantLock) -> LockGuard {
    lock.try_lock().expect("answered").expect("free")
}

#[track_caller]
fn leased(lock: &ReentrantLock, lease: Duration) -> LockGuard {
    let taken = lock.try_lock_with_lease(lease);
    taken.expect("answered").expect("free")
}

/// The TTL of a key in milliseconds, as Redis says it.
#[track_caller]
fn pttl(redis: &mut redis::Connection, key: &str) -> i64 {
    redis.pttl(key).expect("PTTL is answered")
}

/// Waits until the watchdog has sent so many scripts more. Nobody else may send any meanwhile.
#[track_caller]
fn pass_renewals(server: &Server, more: u64) {
    let before = server.script_calls();
    eventually(BOUND, "the watchdog goes on renewing", || {
        server.script_calls() >= before + more
    });
}

/// Looks at a hold for so long, and says what was the lowest TTL; it must be there all the time.
#[track_caller]
fn lowest_ttl(server: &Server, guard: &LockGuard, time: Duration) -> i64 {
    let mut spy = server.connection();
    let start = Instant::now();
    let mut lowest = i64::MAX;
    while start.elapsed() < time {
        lowest = lowest.min(pttl(&mut spy, guard.name()));
        assert!(lowest > 0, "gone after {:?}", start.elapsed());
        assert!(guard.is_held(), "lost after {:?}", start.elapsed());
        thread::sleep(millis(5));
    }
    lowest
}

/// Waits until a hold is renewed: its end moves on, while its time only runs down.
#[track_caller]
pub(crate) fn is_renewed(guard: &LockGuard) {
    let end = || Instant::now() + guard.remaining();
    let before = end();
    assert!(guard.is_held(), "{} is lost", guard.name());
    eventually(BOUND, "it is renewed", || end() > before + millis(20));
}

/// Watches a TTL that nobody lengthens: it must never rise by more than the way to Redis may take,
/// and come to its end.
#[track_caller]
fn runs_out(server: &Server, key: &str) {
    let mut spy = server.connection();
    let mut last = pttl(&mut spy, key);
    eventually(BOUND, "the key runs out", || {
        let left = pttl(&mut spy, key);
        assert!(left <= last + 100, "from {last} ms to {left} ms");
        last = left;
        left < 0
    });
}

#[track_caller]
fn is_not_held(unlocked: lockson::Result<()>) {
    let error = unlocked.expect_err("it is gone");
    assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// For facts that come soon, on a machine that is busy with other things.
const BOUND: Duration = secs(15);
