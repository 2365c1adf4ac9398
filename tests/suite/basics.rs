//! The reentrant lock as one client sees it, and as several do.

mod bad_input;
mod calls;
mod guards;
mod loss;
mod options;
mod questions;
mod releases;

use std::{thread, time::Duration};

use lockson::{LockGuard, OwnedLockGuard, ReentrantLock, Ttl};

use crate::support::eventually;

fn taken(lock: &ReentrantLock) -> LockGuard {
    lock.try_lock().expect("answered").expect("free")
}

fn leased(lock: &ReentrantLock, lease: Duration) -> LockGuard {
    let taken = lock.try_lock_with_lease(lease);
    taken.expect("answered").expect("free")
}

fn owned(lock: &ReentrantLock) -> OwnedLockGuard {
    lock.try_lock_owned().expect("answered").expect("free")
}

fn is_refused(lock: &ReentrantLock) -> bool {
    lock.try_lock().expect("answered").is_none()
}

fn other_thread<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(body).join().expect("the thread ends well"))
}

/// The TTL in Redis, in whole seconds, rounded up: what a test may assert without a race.
#[track_caller]
fn seconds_left(lock: &ReentrantLock) -> u64 {
    match lock.remaining_ttl().expect("answered") {
        Ttl::Left(left) => left.as_millis().div_ceil(1000).try_into().expect("small"),
        other => panic!("the lock has {other:?}"),
    }
}

fn number(holder: &str) -> u64 {
    let (_, number) = holder.rsplit_once(':').expect("a holder is uuid:number");
    number.parse().expect("a holder is uuid:number")
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// For facts that are due at once, on a machine that is busy with other things.
const SOON: Duration = secs(10);

/// Waits until a hold that lasts so long lasts longer: it was renewed.
#[track_caller]
fn eventually_longer(guard: &LockGuard, than: Duration) {
    let mut least = than;
    eventually(SOON, "the hold is renewed", || {
        let now = guard.remaining();
        let renewed = now > least;
        least = now;
        renewed
    });
}
