//! Told when it is lost.

mod clock;
mod events;
mod replies;
mod signals;

use std::time::Duration;

use lockson::{Client, ErrorKind, LockGuard, ReentrantLock};

use crate::support::{Ground, Told, connect_with};

/// A client that renews so seldom that a test is over before.
fn listening(ground: &Ground) -> (Client, Told) {
    let told = Told::default();
    let client = connect_with(ground, |builder| builder.on_event(told.handler()));
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

#[track_caller]
fn fails<T: std::fmt::Debug>(result: lockson::Result<T>, kind: ErrorKind) {
    let error = result.expect_err("it fails");
    assert_eq!(error.kind(), kind, "{error}");
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const BOUND: Duration = secs(15);
