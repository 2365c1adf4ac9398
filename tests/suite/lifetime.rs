//! The life of a client: shutdown, last drop, fork, exit.

mod last;
mod processes;
mod shutdown;

use std::time::Duration;

use lockson::{Client, ErrorKind, LockGuard, OwnedLockGuard, ReentrantLock};

use crate::support::{Server, eventually, threads};

#[track_caller]
fn taken(lock: &ReentrantLock) -> LockGuard {
    lock.try_lock().expect("answered").expect("free")
}

#[track_caller]
fn owned(lock: &ReentrantLock) -> OwnedLockGuard {
    lock.try_lock_owned().expect("answered").expect("free")
}

#[track_caller]
fn is_closed<T: std::fmt::Debug>(result: lockson::Result<T>) {
    let error = result.expect_err("the client is closed");
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
}

/// Threads of the client with this id.
fn threads_of(id: &str) -> Vec<String> {
    threads()
        .into_iter()
        .filter(|name| name.starts_with("lockson-") && name.ends_with(&id[..5]))
        .collect()
}

/// Waits until the server has nobody left but the one that asks. Others may see a socket close
/// later than its owner.
#[track_caller]
fn nobody_connected(server: &Server) {
    eventually(BOUND, "the connections are closed", || {
        server.clients().is_empty()
    });
}

#[track_caller]
fn exists(server: &Server, key: &str) -> bool {
    redis::Commands::exists(&mut server.connection(), key).expect("EXISTS is answered")
}

/// Every call that a handle has.
#[track_caller]
fn all_calls_are_closed(client: &Client, name: &str) {
    let lock = client.reentrant_lock(name);
    is_closed(lock.try_lock());
    is_closed(lock.try_lock_with_lease(secs(1)));
    is_closed(lock.try_lock_owned());
    is_closed(lock.try_lock_owned_with_lease(secs(1)));
    is_closed(lock.options().wait(Duration::ZERO).acquire());
    is_closed(lock.is_locked());
    is_closed(lock.is_held_by_current_thread());
    is_closed(lock.hold_count());
    is_closed(lock.remaining_ttl());
    is_closed(lock.inspect());
    is_closed(lock.force_unlock());
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const BOUND: Duration = secs(15);
