//! Redisson's tests of how long readers and writers stay.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{
    SKEW, SOON, is_free, left, millis, of_another_client, other_thread, passed_since, refused,
    secs, slot, taken,
};
use crate::support::{Ground, connect, connect_with, eventually};

/// `RedissonReadWriteLockTest.testReadLockExpiration`
#[test]
fn test_read_lock_expiration() {
    let ground = Ground::alone();
    let lock = connect(&ground).read_write_lock(ground.name("L"));
    let read = lock.read_lock();
    let start = Instant::now();
    let long = read.lock_owned_with_lease(secs(2)).expect("free");
    let short = read.lock_owned_with_lease(millis(600)).expect("shared");
    thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let guard = lock.write_with_lease(SOON).expect("let in");
            passed_since(start, secs(2) - SKEW..millis(2_900));
            guard.unlock().expect("held");
        });
        eventually(SOON, "half of the short one is over", || {
            short.remaining() < millis(300)
        });
        short.unlock().expect("held");
        writing.join().expect("it enters in time");
    });
    drop(long);
}

/// `RedissonReadWriteLockTest.testReadLockExpirationRenewal`
#[test]
fn test_read_lock_expiration_renewal() {
    const TIMEOUT: Duration = millis(900);
    let ground = Ground::new();
    let client = connect_with(&ground, |plain| plain.lock_watchdog_timeout(TIMEOUT));
    let lock = client.read_write_lock(ground.name("L"));
    thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let guard = lock.read().expect("shared");
                    thread::sleep(TIMEOUT + millis(200));
                    guard.unlock().expect("held all the time");
                }
            });
        }
    });
    assert!(is_free(&lock));
}

/// `RedissonReadWriteLockTest.testWriteLockExpiration`
#[test]
fn test_write_lock_expiration() {
    let ground = Ground::alone();
    let lock = connect(&ground).read_write_lock(ground.name("L"));
    let rival = of_another_client(&ground, &lock);
    let start = Instant::now();
    let guards = [1, 1].map(|lease| {
        let taken = lock.try_write_for_with_lease(secs(1), secs(lease));
        taken.expect("answered").expect("its own")
    });
    let refused = rival.try_write_until(start + millis(1_600));
    assert!(refused.expect("answered").is_none(), "the leases add up");
    let taken = rival.try_write_for(SOON).expect("answered");
    passed_since(start, secs(2) - SKEW..millis(3_500));
    taken.expect("both are over").unlock().expect("held");
    drop(guards);
}

/// `RedissonReadWriteLockTest.testReadLockLeaseTimeoutDiffThreadsWRR`
#[test]
fn test_read_lock_lease_timeout_diff_threads_wrr() {
    let ground = Ground::alone();
    let client = connect(&ground);
    let lock = client.read_write_lock(ground.name("L"));
    let start = Instant::now();
    let writing = lock.try_write_for_with_lease(secs(1), secs(1));
    let writing = writing.expect("answered").expect("free");
    thread::scope(|scope| {
        let readers = [(), ()].map(|()| {
            scope.spawn(|| {
                let guard = lock.read_lock().lock_owned().expect("let in");
                passed_since(start, secs(1) - SKEW..millis(2_500));
                guard
            })
        });
        eventually(SOON, "both wait", || client.state().waiters == 2);
        let inside = readers.map(|reader| reader.join().expect("it enters in time"));
        for guard in inside {
            guard.unlock().expect("held");
        }
    });
    drop(writing);
}

/// `RedissonReadWriteLockTest.testReadLockLeaseTimeoutDiffThreadsRRW`
#[test]
fn test_read_lock_lease_timeout_diff_threads_rrw() {
    let ground = Ground::alone();
    let lock = connect(&ground).read_write_lock(ground.name("L"));
    let start = Instant::now();
    let first = lock.read_with_lease(secs(2)).expect("free");
    eventually(SOON, "half of it is over", || first.remaining() < secs(1));
    other_thread(|| {
        let second = lock.try_read_for_with_lease(secs(1), SOON);
        let second = second.expect("answered").expect("shared");
        second.unlock().expect("held");
    });
    other_thread(|| {
        let writing = lock.try_write_for_with_lease(SOON, SOON);
        passed_since(start, secs(2) - SKEW..millis(3_500));
        let writing = writing.expect("answered").expect("let in");
        writing.unlock().expect("held");
    });
    drop(first);
}

/// `RedissonReadWriteLockTest.testReadLockLeaseTimeout`
#[test]
fn test_read_lock_lease_timeout() {
    let ground = Ground::alone();
    let lock = connect(&ground).read_write_lock(ground.name("L"));
    let start = Instant::now();
    let first = lock.read_with_lease(millis(800)).expect("free");
    eventually(SOON, "half of it is over", || {
        first.remaining() < millis(400)
    });
    let second = lock.read_with_lease(SOON).expect("its own");
    second.unlock().expect("held");
    eventually(SOON, "the first lease ends", || is_free(&lock));
    passed_since(start, millis(700)..secs(3));
    taken(&lock.write_lock()).unlock().expect("held");
    assert!(!first.is_held());
}

/// `RedissonReadWriteLockTest.testReadWriteTTL`
#[test]
fn test_read_write_ttl() {
    const TIMEOUT: Duration = millis(1_500);
    let ground = Ground::alone();
    let server = ground.server();
    let client = connect_with(&ground, |plain| plain.lock_watchdog_timeout(TIMEOUT));
    let lock = client.read_write_lock(ground.name("L"));
    let writing = lock.write().expect("free");
    let reading = lock.read().expect("its own");
    let slot = slot(&lock, reading.holder(), 1);
    // Renewed each 500 ms, nothing should come below 1,000.
    let stays = || {
        let start = Instant::now();
        while start.elapsed() < 2 * TIMEOUT {
            for key in [lock.name(), &slot] {
                let left = left(&server, key);
                assert!(left > 300, "{key}: {left} ms");
            }
            thread::sleep(millis(5));
        }
    };
    stays();
    writing.unlock().expect("held");
    stays();
    reading.unlock().expect("held");
}

/// `RedissonReadWriteLockTest.testExpireRead`
#[test]
fn test_expire_read() {
    let ground = Ground::alone();
    let lock = connect(&ground).read_write_lock(ground.name("L"));
    let first = lock.read_with_lease(secs(2)).expect("free");
    let start = Instant::now();
    other_thread(|| {
        let second = lock.read().expect("shared");
        passed_since(start, secs(0)..secs(1));
        second.unlock().expect("held");
    });
    first.unlock().expect("held");
}

/// `RedissonReadWriteLockTest.testExpireWrite`
#[test]
fn test_expire_write() {
    let ground = Ground::alone();
    let lock = connect(&ground).read_write_lock(ground.name("L"));
    let start = Instant::now();
    let late = lock.write_with_lease(secs(2)).expect("free");
    other_thread(|| {
        assert!(refused(&lock.write_lock()));
        let next = lock.write().expect("its time is over");
        passed_since(start, secs(2) - SKEW..millis(2_200));
        next.unlock().expect("held");
    });
    let error = late.unlock().expect_err("its time is over");
    assert_eq!(error.kind(), lockson::ErrorKind::NotHeld);
}
