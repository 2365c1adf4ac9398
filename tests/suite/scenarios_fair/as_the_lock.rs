//! What Redisson tests of the fair lock as of the plain one.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Instant,
};

use lockson::{Client, ErrorKind, FairLock};

use super::{SOON, is_long, leased, millis, other_thread, queue, secs, taken};
use crate::{
    interop::processes::rust_peer,
    support::{Ground, connect, connect_with, eventually},
};

/// `RedissonFairLockTest.testTryLockNonDelayed`
#[test]
fn test_try_lock_non_delayed() {
    let ground = Ground::new();
    let name = ground.name("delayed");
    let lock = connect(&ground).fair_lock(&name);
    let guard = taken(&lock);
    let rival = connect(&ground).fair_lock(&name);
    let waited = other_thread(|| rival.try_lock_for(millis(200)).expect("answered").is_some());
    assert!(!waited);
    guard.unlock().expect("held");
    taken(&lock).unlock().expect("held");
    taken(&rival).unlock().expect("held");
}

/// `RedissonFairLockTest.testTryLockWait`
#[test]
fn test_try_lock_wait() {
    let ground = Ground::alone();
    let name = ground.name("wait");
    let guard = taken(&connect(&ground).fair_lock(&name));
    let lock = connect(&ground).fair_lock(&name);
    let start = Instant::now();
    assert!(lock.try_lock_for(secs(3)).expect("answered").is_none());
    let passed = start.elapsed().as_millis();
    assert!((2_990..=3_350).contains(&passed), "{passed} ms");
    guard.unlock().expect("held");
}

/// `RedissonFairLockTest.testForceUnlock`
#[test]
fn test_force_unlock() {
    let ground = Ground::new();
    let client = connect(&ground);
    let name = ground.name("force");
    let lock = client.fair_lock(&name);
    let guard = taken(&lock);
    assert!(lock.force_unlock().expect("answered"));
    for handle in [client.fair_lock(&name), connect(&ground).fair_lock(&name)] {
        assert!(!handle.is_locked().expect("answered"));
    }
    assert!(!guard.is_held());
    assert!(!lock.force_unlock().expect("answered"), "it is free");
}

/// `RedissonFairLockTest.testExpire`
///
/// Java's fair lock says nothing when it unlocks what is gone; here the caller is told.
#[test]
fn test_expire() {
    let ground = Ground::alone();
    let client = connect(&ground);
    let lock = client.fair_lock(ground.name("expire"));
    let start = Instant::now();
    let guard = leased(&lock, secs(2));
    let passed = other_thread(|| {
        let guard = lock.lock().expect("its time is over");
        let passed = start.elapsed();
        guard.unlock().expect("held");
        passed.as_millis()
    });
    assert!((1_990..=2_200).contains(&passed), "{passed} ms");
    let error = guard.unlock().expect_err("its time is over");
    assert_eq!(error.kind(), ErrorKind::NotHeld);
}

/// `RedissonFairLockTest.testAutoExpire`
#[test]
fn test_auto_expire() {
    let ground = Ground::new();
    let name = ground.name("auto");
    let lock = connect(&ground).fair_lock(&name);
    let peer = rust_peer();
    let url = ground.server().url();
    peer.call(&format!("client A single {url} 1500"))
        .expect("a client");
    let taken = peer.call(&format!("A t1 tryLock fair {name}"));
    assert_eq!(taken.as_deref(), Ok("true"));
    peer.kill();
    let killed = Instant::now();
    eventually(SOON, "the dead holder's time is over", || {
        !lock.is_locked().expect("answered")
    });
    assert!(killed.elapsed() < secs(4), "{:?}", killed.elapsed());
}

/// `RedissonFairLockTest.testGetHoldCount`
#[test]
fn test_get_hold_count() {
    let ground = Ground::new();
    let lock = connect(&ground).fair_lock(ground.name("count"));
    let count = || lock.hold_count().expect("answered");
    assert_eq!(count(), 0);
    let first = taken(&lock);
    assert_eq!(count(), 1);
    let second = taken(&lock);
    assert_eq!(count(), 2);
    second.unlock().expect("held");
    assert_eq!(count(), 1);
    first.unlock().expect("held");
    assert_eq!(count(), 0);
}

/// `RedissonFairLockTest.testIsHeldByCurrentThread`,
/// `RedissonFairLockTest.testIsHeldByCurrentThreadOtherThread`
#[test]
fn test_is_held_by_current_thread() {
    let ground = Ground::new();
    let lock = connect(&ground).fair_lock(ground.name("held"));
    let held = || lock.is_held_by_current_thread().expect("answered");
    assert!(!held());
    let guard = taken(&lock);
    assert!(held());
    assert!(!other_thread(held));
    guard.unlock().expect("held");
    assert!(!held());
    assert!(!other_thread(held));
}

/// `RedissonFairLockTest.testIsLocked`, `RedissonFairLockTest.testIsLockedOtherThread`
#[test]
fn test_is_locked() {
    let ground = Ground::new();
    let lock = connect(&ground).fair_lock(ground.name("locked"));
    let locked = || lock.is_locked().expect("answered");
    assert!(!locked());
    let guard = taken(&lock);
    assert!(locked());
    assert!(other_thread(locked));
    guard.unlock().expect("held");
    assert!(!locked());
    assert!(!other_thread(locked));
}

/// `RedissonFairLockTest.testUnlockFail`
///
/// Only the holder has a guard, so the stranger here is one whose hold was taken away by force.
#[test]
fn test_unlock_fail() {
    let ground = Ground::new();
    let name = ground.name("fail");
    let lock = connect(&ground).fair_lock(&name);
    let rival = connect(&ground).fair_lock(&name);
    let stranger = taken(&lock);
    assert!(rival.force_unlock().expect("answered"));
    let owner = taken(&rival);
    let error = stranger.unlock().expect_err("another holds it");
    assert_eq!(error.kind(), ErrorKind::NotHeld);
    owner.verify().expect("untouched");
    owner.unlock().expect("held");
}

/// `RedissonFairLockTest.testLockUnlock`
#[test]
fn test_lock_unlock() {
    let ground = Ground::new();
    let lock = connect(&ground).fair_lock(ground.name("again"));
    for _ in 0..2 {
        lock.lock().expect("free").unlock().expect("held");
    }
    assert!(!lock.is_locked().expect("answered"));
}

/// `RedissonFairLockTest.testReentrancy`
#[test]
fn test_reentrancy() {
    let ground = Ground::new();
    let client = connect(&ground);
    let name = ground.name("reentrant");
    let lock = client.fair_lock(&name);
    let refused = |client: &Client| {
        let lock = client.fair_lock(&name);
        other_thread(|| lock.try_lock().expect("answered").is_none())
    };
    let first = taken(&lock);
    let second = taken(&lock);
    assert!(refused(&client));
    second.unlock().expect("held");
    assert!(refused(&client), "held once");
    assert!(refused(&connect(&ground)), "held once");
    first.unlock().expect("held");
    assert!(!refused(&client));
}

/// `RedissonFairLockTest.testConcurrency_SingleInstance`
#[test]
fn test_concurrency_single_instance() {
    let ground = Ground::new();
    let lock = connect(&ground).fair_lock(ground.name("single"));
    assert_eq!(count_inside(&vec![lock; 15], 1), 15);
}

/// `RedissonFairLockTest.testConcurrencyLoop_MultiInstance`
#[test]
fn test_concurrency_loop_multi_instance() {
    let ground = Ground::new();
    let rounds = if is_long() { 100 } else { 20 };
    let locks = locks_of_clients(&ground, 16);
    assert_eq!(count_inside(&locks, rounds), 16 * rounds);
}

/// `RedissonFairLockTest.testConcurrency_MultiInstance`
#[test]
fn test_concurrency_multi_instance() {
    let ground = Ground::new();
    let clients = if is_long() { 100 } else { 30 };
    let locks = locks_of_clients(&ground, clients);
    assert_eq!(count_inside(&locks, 1), clients);
}

/// `RedissonFairLockTest.testNameMapper`
#[test]
fn test_name_mapper() {
    let ground = Ground::new();
    let client = connect_with(&ground, |plain| {
        plain.name_mapper(|name| format!("{name}:suffix"))
    });
    let name = ground.name("mapped");
    let mapped = format!("{name}:suffix");
    let lock = client.fair_lock(&name);
    let guard = taken(&lock);
    thread::scope(|scope| {
        scope.spawn(|| lock.lock().expect("woken").unlock().expect("held"));
        eventually(SOON, "the mapped queue has it", || {
            queue(&ground, &mapped).len() == 1
        });
        assert!(queue(&ground, &name).is_empty());
        guard.unlock().expect("held");
    });
    assert_eq!(lock.name(), name);
    assert!(queue(&ground, &mapped).is_empty());
}

fn locks_of_clients(ground: &Ground, clients: u64) -> Vec<FairLock> {
    let name = ground.name("multi");
    (0..clients)
        .map(|_| connect(ground).fair_lock(&name))
        .collect()
}

/// A thread for each handle counts in two steps under the lock.
fn count_inside(locks: &[FairLock], rounds: u64) -> u64 {
    let counter = AtomicU64::new(0);
    thread::scope(|scope| {
        for lock in locks {
            scope.spawn(|| {
                for _ in 0..rounds {
                    let guard = lock.lock().expect("answered");
                    let now = counter.load(Ordering::Relaxed);
                    thread::yield_now();
                    counter.store(now + 1, Ordering::Relaxed);
                    guard.unlock().expect("held");
                }
            });
        }
    });
    counter.into_inner()
}
