//! The scenarios of Redisson's own tests.

use std::{thread, time::Duration};

use lockson::{Client, ErrorKind, LockGuard, ReentrantLock, Ttl};

use crate::{basics::connect, support::Ground};

/// `RedissonLockTest.testRemainTimeToLive2`
#[test]
fn test_remain_time_to_live2() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("ttl"));
    let mut guards: Vec<LockGuard> = (0..3).map(|_| leased(&lock, 10_000)).collect();
    for _ in 0..2 {
        let guard = guards.pop().expect("three were taken");
        guard.unlock().expect("held");
    }
    assert!((9_000..=10_000).contains(&millis_left(&lock)));
}

/// `RedissonLockTest.testForceUnlock`
#[test]
fn test_force_unlock() {
    let ground = Ground::new();
    let client = connect(&ground);
    let name = ground.name("force");
    let lock = client.reentrant_lock(&name);
    let guard = taken(&lock);
    assert!(lock.force_unlock().expect("answered"));
    for handle in [
        lock.clone(),
        client.reentrant_lock(&name),
        connect(&ground).reentrant_lock(&name),
    ] {
        assert!(!handle.is_locked().expect("answered"));
    }
    assert!(!guard.is_held());
    assert!(!lock.force_unlock().expect("answered"), "it is free");
}

/// `RedissonLockTest.testRemainTimeToLive`
#[test]
fn test_remain_time_to_live() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("ttl"));

    let guard = leased(&lock, 60_000);
    let left = millis_left(&lock);
    assert!((59_000..=60_000).contains(&left), "{left} ms");
    guard.unlock().expect("held");
    assert_eq!(lock.remaining_ttl().expect("answered"), Ttl::Free);

    let guard = taken(&lock);
    let left = millis_left(&lock);
    assert!((29_000..=30_000).contains(&left), "{left} ms");
    guard.unlock().expect("held");
    assert_eq!(lock.remaining_ttl().expect("answered"), Ttl::Free);
}

/// `RedissonLockTest.testGetHoldCount`
#[test]
fn test_get_hold_count() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("count"));
    let count = || lock.hold_count().expect("answered");

    assert_eq!(count(), 0);
    let guard = taken(&lock);
    assert_eq!(count(), 1);
    guard.unlock().expect("held");
    assert_eq!(count(), 0);

    let first = taken(&lock);
    let second = taken(&lock);
    assert_eq!(count(), 2);
    second.unlock().expect("held");
    assert_eq!(count(), 1);
    first.unlock().expect("held");
    assert_eq!(count(), 0);
}

/// `RedissonLockTest.testIsHeldByCurrentThreadOtherThread`
#[test]
fn test_is_held_by_current_thread_other_thread() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("held"));
    let elsewhere = || other_thread(|| lock.is_held_by_current_thread().expect("answered"));

    let guard = taken(&lock);
    assert!(!elsewhere());
    guard.unlock().expect("held");
    assert!(!elsewhere());
}

/// `RedissonLockTest.testIsHeldByCurrentThread`
#[test]
fn test_is_held_by_current_thread() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("held"));
    let held = || lock.is_held_by_current_thread().expect("answered");

    assert!(!held());
    let guard = taken(&lock);
    assert!(held());
    guard.unlock().expect("held");
    assert!(!held());
}

/// `RedissonLockTest.testIsLockedOtherThread`
#[test]
fn test_is_locked_other_thread() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("locked"));
    let seen = || other_thread(|| lock.is_locked().expect("answered"));

    let guard = taken(&lock);
    assert!(seen());
    guard.unlock().expect("held");
    assert!(!seen());
}

/// `RedissonLockTest.testIsLocked`
#[test]
fn test_is_locked() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("locked"));
    let locked = || lock.is_locked().expect("answered");

    assert!(!locked());
    let guard = taken(&lock);
    assert!(locked());
    guard.unlock().expect("held");
    assert!(!locked());
}

/// `RedissonLockTest.testUnlockFail`
///
/// Only the holder has a guard, so the stranger here is one whose hold was taken away by force.
#[test]
fn test_unlock_fail() {
    let ground = Ground::new();
    let name = ground.name("fail");
    let lock = connect(&ground).reentrant_lock(&name);
    let rival = connect(&ground).reentrant_lock(&name);

    let stranger = taken(&lock);
    assert!(rival.force_unlock().expect("answered"));
    let owner = taken(&rival);

    let error = stranger.unlock().expect_err("another holds it");
    assert_eq!(error.kind(), ErrorKind::NotHeld);
    assert_eq!(error.name(), Some(&*name));
    owner.verify().expect("untouched");
    owner.unlock().expect("held");
}

/// `RedissonLockTest.testLockUnlock`
#[test]
fn test_lock_unlock() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("again"));
    for _ in 0..2 {
        taken(&lock).unlock().expect("held");
    }
    assert!(!lock.is_locked().expect("answered"));
}

/// `RedissonLockTest.testReentrancy`
#[test]
fn test_reentrancy() {
    let ground = Ground::new();
    let client = connect(&ground);
    let name = ground.name("reentrant");
    let lock = client.reentrant_lock(&name);
    let refused = |client: &Client| {
        let lock = client.reentrant_lock(&name);
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

fn taken(lock: &ReentrantLock) -> LockGuard {
    lock.try_lock().expect("answered").expect("free")
}

fn leased(lock: &ReentrantLock, millis: u64) -> LockGuard {
    lock.try_lock_with_lease(Duration::from_millis(millis))
        .expect("answered")
        .expect("free")
}

fn millis_left(lock: &ReentrantLock) -> u128 {
    match lock.remaining_ttl().expect("answered") {
        Ttl::Left(left) => left.as_millis(),
        other => panic!("the lock has {other:?}"),
    }
}

fn other_thread<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(body).join().expect("the thread ends well"))
}
