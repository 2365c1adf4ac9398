//! The scenarios of Redisson's own tests of the fair lock.

mod as_the_lock;
mod drift;
mod order;

use std::{thread, time::Duration};

use lockson::{FairLock, LockGuard};
use redis::Commands;

use crate::support::{Ground, eventually};

fn taken(lock: &FairLock) -> LockGuard {
    lock.try_lock().expect("answered").expect("free")
}

fn leased(lock: &FairLock, lease: Duration) -> LockGuard {
    let taken = lock.try_lock_with_lease(lease);
    taken.expect("answered").expect("free")
}

fn other_thread<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(body).join().expect("the thread ends well"))
}

/// Everybody in the queue, and for how many milliseconds from now none may pass it.
fn queue(ground: &Ground, name: &str) -> Vec<(String, i64)> {
    let mut redis = ground.server().connection();
    let (seconds, micros): (i64, i64) = redis::cmd("TIME").query(&mut redis).expect("TIME");
    let now = seconds * 1000 + micros / 1000;
    let key = format!("redisson_lock_timeout:{{{name}}}");
    let waiters: Vec<String> = redis
        .lrange(format!("redisson_lock_queue:{{{name}}}"), 0, -1)
        .expect("the queue is a list");
    let timed = waiters.into_iter().map(|waiter| {
        let score: Option<i64> = redis.zscore(&key, &waiter).expect("a sorted set");
        let left = score.map_or(i64::MIN, |score| score - now);
        (waiter, left)
    });
    timed.collect()
}

#[track_caller]
fn wait_for_queue(ground: &Ground, name: &str, length: usize) {
    let what = format!("{length} stand in the queue");
    eventually(SOON, &what, || queue(ground, name).len() == length);
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
