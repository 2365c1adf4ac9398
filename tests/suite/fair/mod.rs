//! The fair lock: who came first is first, and nobody is forgotten.

mod closing;
mod crowds;
mod faults;
mod mixed;
mod moments;
mod places;
mod random;
mod turns;

use std::{
    thread,
    time::{Duration, Instant},
};

use lockson::{Client, FairLock, LockGuard};
use redis::Commands;

use crate::support::{Server, eventually};

/// Waits for the lock in a thread of its own, and gives what `then` makes of the guard.
fn waiter<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    lock: &FairLock,
    then: impl FnOnce(LockGuard) -> T + Send + 'scope,
) -> thread::ScopedJoinHandle<'scope, T> {
    let lock = lock.clone();
    scope.spawn(move || then(lock.lock().expect("its turn comes")))
}

/// What stands in Redis' queue, in order.
fn queue(server: &Server, lock: &FairLock) -> Vec<String> {
    let mut redis = server.connection();
    redis.lrange(queue_key(lock), 0, -1).expect("a list")
}

fn queue_key(lock: &FairLock) -> String {
    format!("redisson_lock_queue:{{{}}}", lock.name())
}

fn times_key(lock: &FairLock) -> String {
    format!("redisson_lock_timeout:{{{}}}", lock.name())
}

/// Puts somebody into the queue who will never answer.
fn enqueue_dead(server: &Server, lock: &FairLock, holder: &str, silent_for: Option<Duration>) {
    let mut redis = server.connection();
    let _: u64 = redis.rpush(queue_key(lock), holder).expect("a list");
    if let Some(silent_for) = silent_for {
        let until = server_now(server) + silent_for.as_millis() as u64;
        let _: u64 = redis.zadd(times_key(lock), holder, until).expect("a zset");
    }
}

/// In ms, by the clock of the server.
fn server_now(server: &Server) -> u64 {
    let (seconds, micros): (u64, u64) = redis::cmd("TIME")
        .query(&mut server.connection())
        .expect("TIME is answered");
    seconds * 1000 + micros / 1000
}

/// How long others must leave this waiter its place, in ms.
fn left(server: &Server, lock: &FairLock, holder: &str) -> i64 {
    let time: Option<u64> = server
        .connection()
        .zscore(times_key(lock), holder)
        .expect("a zset");
    time.map_or(i64::MIN, |time| time as i64 - server_now(server) as i64)
}

#[track_caller]
fn wait_for_queue(server: &Server, lock: &FairLock, length: usize) {
    let what = format!("{length} stand in the queue");
    eventually(SOON, &what, || queue(server, lock).len() == length);
}

/// Waits until whoever is in the queue hears its messages.
#[track_caller]
fn wait_for_ears(server: &Server, lock: &FairLock) {
    for holder in queue(server, lock) {
        let channel = format!("redisson_lock__channel:{{{}}}:{holder}", lock.name());
        wait_for_ear(server, &channel);
    }
}

#[track_caller]
fn wait_for_ear(server: &Server, channel: &str) {
    eventually(SOON, "somebody listens", || {
        let (_, count): (String, u64) = redis::cmd("PUBSUB")
            .arg("NUMSUB")
            .arg(channel)
            .query(&mut server.connection())
            .expect("PUBSUB NUMSUB is answered");
        count > 0
    });
}

#[track_caller]
fn nobody_waits(server: &Server, clients: &[&Client], lock: &FairLock) {
    let mut redis = server.connection();
    let left: u64 = redis
        .exists(&[queue_key(lock), times_key(lock)])
        .expect("EXISTS is answered");
    assert_eq!(left, 0, "queue and times are gone");
    for client in clients {
        assert_eq!(client.state().waiters, 0);
    }
}

fn timed<T>(body: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = body();
    (result, start.elapsed())
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// For facts that are due at once, on a machine that is busy with other things.
const SOON: Duration = secs(10);
