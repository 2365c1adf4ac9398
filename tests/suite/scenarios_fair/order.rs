//! Redisson's tests of who enters when.

use std::{
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use super::{SOON, leased, millis, queue, secs, taken, wait_for_queue};
use crate::support::{Ground, connect, connect_with, eventually};

/// `RedissonFairLockTest.testLeaseTimeout`
///
/// Nobody unlocks: each enters when the lease of the one before it is over.
#[test]
fn test_lease_timeout() {
    let ground = Ground::alone();
    let name = ground.name("leases");
    let lease = millis(300);
    let order = Mutex::new(Vec::new());
    let began = Instant::now();
    let first = leased(&connect(&ground).fair_lock(&name), secs(1));
    let guards = thread::scope(|scope| {
        let order = &order;
        let waiting: Vec<_> = (0..8)
            .map(|number| {
                let lock = connect(&ground).fair_lock(&name);
                let waiting = scope.spawn(move || {
                    let options = lock.options().wait(secs(30)).lease(lease);
                    let taken = options.acquire_owned().expect("answered");
                    order.lock().expect("no panic").push(number);
                    taken.expect("its turn comes")
                });
                wait_for_queue(&ground, &name, number + 1);
                waiting
            })
            .collect();
        let ended = waiting
            .into_iter()
            .map(|one| one.join().expect("it enters"));
        ended.collect::<Vec<_>>()
    });
    assert_eq!(
        order.into_inner().expect("no panic"),
        (0..8).collect::<Vec<_>>()
    );
    let passed = began.elapsed();
    assert!(passed >= secs(1) + lease * 7, "{passed:?}");
    // Long before each would look by itself.
    assert!(passed < secs(8), "{passed:?}");
    let lock = connect(&ground).fair_lock(&name);
    eventually(SOON, "the last lease ends", || {
        !lock.is_locked().expect("answered")
    });
    drop((first, guards));
}

/// `RedissonFairLockTest.testMultipleLocks`
#[test]
fn test_multiple_locks() {
    let ground = Ground::new();
    let client = connect(&ground);
    let name = ground.name("crowd");
    let lock = client.fair_lock(&name);
    let entered = Mutex::new(0);
    let began = Instant::now();
    thread::scope(|scope| {
        for _ in 0..500 {
            scope.spawn(|| {
                let guard = lock.lock().expect("its turn comes");
                *entered.lock().expect("no panic") += 1;
                thread::sleep(millis(1));
                guard.unlock().expect("held");
            });
        }
    });
    assert_eq!(entered.into_inner().expect("no panic"), 500);
    assert!(began.elapsed() < secs(180), "{:?}", began.elapsed());
    assert!(queue(&ground, &name).is_empty());
}

/// `RedissonFairLockTest.testConcurrency_MultiInstance_Ordering`
#[test]
fn test_concurrency_multi_instance_ordering() {
    let ground = Ground::new();
    let name = ground.name("ordered");
    let clients: Vec<_> = (0..4).map(|_| connect(&ground)).collect();
    let holder = taken(&clients[0].fair_lock(&name));
    let order = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for number in 0..24 {
            let lock = clients[number % 4].fair_lock(&name);
            let order = &order;
            scope.spawn(move || {
                let guard = lock.lock().expect("its turn comes");
                order.lock().expect("no panic").push(number);
                guard.unlock().expect("held");
            });
            wait_for_queue(&ground, &name, number + 1);
        }
        holder.unlock().expect("held");
    });
    assert_eq!(
        order.into_inner().expect("no panic"),
        (0..24).collect::<Vec<_>>()
    );
}

/// `RedissonFairLockTest.testAcquireFailedNotCalledOnRedisTimeout`
#[test]
fn test_acquire_failed_not_called_on_redis_timeout() {
    const PAUSE: Duration = secs(4);
    let ground = Ground::alone();
    let server = ground.server();
    let name = ground.name("paused");
    let client = connect_with(&ground, |plain| plain.response_timeout(millis(500)));
    let holder = leased(&connect(&ground).fair_lock(&name), secs(2));
    let lock = client.fair_lock(&name);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let guard = lock.lock().expect("a pause is no reason to give up");
            guard.unlock().expect("held");
        });
        wait_for_queue(&ground, &name, 1);
        let pause = PAUSE.as_millis().to_string();
        server.cli(&["CLIENT", "PAUSE", &pause, "WRITE"]);
        let paused = Instant::now();
        waiting.join().expect("it saw no error");
        assert!(paused.elapsed() + millis(100) >= PAUSE, "it was paused");
    });
    drop(holder);
    assert!(queue(&ground, &name).is_empty());
    eventually(SOON, "it is free", || !lock.is_locked().expect("answered"));
}
