//! Waiting for a lock: who gets it, when, and what is left of those who give up.

mod cancelling;
mod crowds;
mod giving_up;
mod handing_over;
mod missed;
mod moments;
mod woken;

use std::{
    thread,
    time::{Duration, Instant},
};

use lockson::{Client, LockGuard, ReentrantLock};

use crate::support::{Ground, Server, eventually};

fn taken(lock: &ReentrantLock) -> LockGuard {
    lock.try_lock().expect("answered").expect("free")
}

fn leased(lock: &ReentrantLock, lease: Duration) -> LockGuard {
    let taken = lock.try_lock_with_lease(lease);
    taken.expect("answered").expect("free")
}

fn other_thread<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(body).join().expect("the thread ends well"))
}

fn timed<T>(body: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = body();
    (result, start.elapsed())
}

#[track_caller]
fn wait_for_waiters(client: &Client, count: usize) {
    let what = format!("{count} wait");
    eventually(SOON, &what, || client.state().waiters == count);
}

/// A waiter of another client is only woken by messages once its subscription stands.
#[track_caller]
fn wait_for_listener(server: &Server, lock: &ReentrantLock) {
    eventually(SOON, "the waiter listens", || listeners(server, lock) > 0);
}

fn listeners(server: &Server, lock: &ReentrantLock) -> u64 {
    let channel = channel(lock);
    let (_, count): (String, u64) = redis::cmd("PUBSUB")
        .arg("NUMSUB")
        .arg(channel)
        .query(&mut server.connection())
        .expect("PUBSUB NUMSUB is answered");
    count
}

fn channel(lock: &ReentrantLock) -> String {
    format!("redisson_lock__channel:{{{}}}", lock.name())
}

fn channels(server: &Server) -> Vec<String> {
    redis::cmd("PUBSUB")
        .arg("CHANNELS")
        .query(&mut server.connection())
        .expect("PUBSUB CHANNELS is answered")
}

/// Nobody holds it, nobody waits for it, nobody listens.
#[track_caller]
fn nothing_left(ground: &Ground, clients: &[&Client], lock: &ReentrantLock) {
    for client in clients {
        let state = client.state();
        assert_eq!((state.waiters, state.holds, state.renewals), (0, 0, 0));
    }
    // What was acquired by somebody who gave up is released by the watchdog.
    eventually(SOON, "the key is free", || {
        !lock.is_locked().expect("answered")
    });
    let server = ground.server();
    eventually(SOON, "nobody listens", || listeners(&server, lock) == 0);
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// For facts that are due at once, on a machine that is busy with other things.
const SOON: Duration = secs(10);
