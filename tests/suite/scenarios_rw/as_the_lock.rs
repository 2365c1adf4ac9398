//! What Redisson tests of the read-write lock as of the plain one.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use lockson::{ErrorKind, Guard, Lock, ReadWriteLock};

use super::{is_free, is_long, locked, of_another_client, other_thread, refused, taken};
use crate::support::{Ground, connect};

/// `RedissonReadWriteLockTest.testHoldCount`
#[test]
fn test_hold_count() {
    let ground = Ground::new();
    let lock = connect(&ground).read_write_lock(ground.name("L"));
    let (read, write) = (lock.read_lock(), lock.write_lock());
    counts(&read, || read.hold_count());
    counts(&write, || write.hold_count());
}

fn counts<L: Lock>(lock: &L, count: impl Fn() -> lockson::Result<u64>) {
    let count = || count().expect("answered");
    assert_eq!(count(), 0);
    let guard = lock.lock().expect("free");
    assert_eq!(count(), 1);
    guard.unlock().expect("held");
    assert_eq!(count(), 0);

    let first = lock.lock().expect("free");
    let second = lock.lock().expect("its own");
    assert_eq!(count(), 2);
    second.unlock().expect("held");
    assert_eq!(count(), 1);
    first.unlock().expect("held");
    assert_eq!(count(), 0);
}

/// `RedissonReadWriteLockTest.testIsHeldByCurrentThread`,
/// `RedissonReadWriteLockTest.testIsHeldByCurrentThreadOtherThread`
#[test]
fn test_is_held_by_current_thread() {
    let ground = Ground::new();
    let read = connect(&ground)
        .read_write_lock(ground.name("L"))
        .read_lock();
    let held = || read.is_held_by_current_thread().expect("answered");
    assert!(!held());
    let guard = read.lock().expect("free");
    assert!(held());
    assert!(!other_thread(held));
    guard.unlock().expect("held");
    assert!(!held());
    assert!(!other_thread(held));
}

/// `RedissonReadWriteLockTest.testIsLocked`, `RedissonReadWriteLockTest.testIsLockedOtherThread`
#[test]
fn test_is_locked() {
    let ground = Ground::new();
    let lock = connect(&ground).read_write_lock(ground.name("L"));
    let elsewhere = || other_thread(|| locked(&lock));
    assert_eq!(locked(&lock), (false, false));
    let guard = lock.read().expect("free");
    assert_eq!(locked(&lock), (true, false));
    assert_eq!(elsewhere(), (true, false));
    guard.unlock().expect("held");
    assert_eq!(locked(&lock), (false, false));
    assert_eq!(elsewhere(), (false, false));
}

/// `RedissonReadWriteLockTest.testUnlockFail`
///
/// Only the holder has a guard, so the stranger here is one whose hold was taken away by force.
#[test]
fn test_unlock_fail() {
    let ground = Ground::new();
    let lock = connect(&ground).read_write_lock(ground.name("L"));
    let rival = of_another_client(&ground, &lock);
    let stranger = lock.read().expect("free");
    assert!(rival.read_lock().force_unlock().expect("answered"));
    let owner = rival.read().expect("free");
    let error = stranger.unlock().expect_err("another holds it");
    assert_eq!(error.kind(), ErrorKind::NotHeld);
    owner.verify().expect("untouched");
    owner.unlock().expect("held");
}

/// `RedissonReadWriteLockTest.testLockUnlock`
#[test]
fn test_lock_unlock() {
    let ground = Ground::new();
    let lock = connect(&ground).read_write_lock(ground.name("L"));
    for _ in 0..2 {
        lock.read().expect("free").unlock().expect("held");
    }
    assert!(is_free(&lock));
}

/// `RedissonReadWriteLockTest.testReentrancy`
#[test]
fn test_reentrancy() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.read_write_lock(ground.name("L"));
    let first = taken(&lock.read_lock());
    let second = taken(&lock.read_lock());
    second.unlock().expect("held");
    let rival = of_another_client(&ground, &lock);
    assert!(refused(&rival.write_lock()), "held once");
    // Another lock is another's affair.
    let other = client.read_write_lock(ground.name("M"));
    other_thread(|| taken(&other.read_lock()).unlock().expect("held"));
    first.unlock().expect("held");
    taken(&rival.write_lock()).unlock().expect("held");
}

/// `RedissonReadWriteLockTest.testConcurrency_SingleInstance`
#[test]
fn test_concurrency_single_instance() {
    let ground = Ground::new();
    let lock = connect(&ground).read_write_lock(ground.name("L"));
    assert_eq!(count_inside(&vec![lock; 15], 1), 15);
}

/// `RedissonReadWriteLockTest.testConcurrencyLoop_MultiInstance`
#[test]
fn test_concurrency_loop_multi_instance() {
    let ground = Ground::new();
    let rounds = if is_long() { 100 } else { 20 };
    let locks = locks_of_clients(&ground, 16);
    assert_eq!(count_inside(&locks, rounds), 16 * rounds);
}

/// `RedissonReadWriteLockTest.testConcurrency_MultiInstance`
#[test]
fn test_concurrency_multi_instance() {
    let ground = Ground::new();
    let clients = if is_long() { 100 } else { 30 };
    let locks = locks_of_clients(&ground, clients);
    assert_eq!(count_inside(&locks, 1), clients);
}

fn locks_of_clients(ground: &Ground, clients: u64) -> Vec<ReadWriteLock> {
    let name = ground.name("L");
    (0..clients)
        .map(|_| connect(ground).read_write_lock(&name))
        .collect()
}

/// A thread for each handle: about half of the times it writes, and counts that in two steps, else
/// it reads. How often anybody got in.
fn count_inside(locks: &[ReadWriteLock], rounds: u64) -> u64 {
    let (read, written) = (AtomicU64::new(0), AtomicU64::new(0));
    let writing = AtomicBool::new(false);
    thread::scope(|scope| {
        for (thread, lock) in locks.iter().enumerate() {
            let (read, written, writing) = (&read, &written, &writing);
            scope.spawn(move || {
                for round in 0..rounds as usize {
                    if (7 * thread + 3 * round) % 5 < 2 {
                        let guard = lock.write().expect("answered");
                        assert!(!writing.swap(true, Ordering::Relaxed), "two write");
                        let now = written.load(Ordering::Relaxed);
                        thread::yield_now();
                        written.store(now + 1, Ordering::Relaxed);
                        writing.store(false, Ordering::Relaxed);
                        guard.unlock().expect("held");
                    } else {
                        let guard = lock.read().expect("answered");
                        let before = written.load(Ordering::Relaxed);
                        read.fetch_add(1, Ordering::Relaxed);
                        thread::yield_now();
                        assert!(!writing.load(Ordering::Relaxed), "one writes");
                        assert_eq!(written.load(Ordering::Relaxed), before);
                        guard.unlock().expect("held");
                    }
                }
            });
        }
    });
    read.into_inner() + written.into_inner()
}
