//! The scenarios of Redisson's own tests.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use lockson::{CancelToken, Client, ErrorKind, LockGuard, ReentrantLock, Ttl};

use crate::support::{Ground, connect, connect_with, eventually};

/// `RedissonLockTest.testSubscriptionsPerConnection`
///
/// There is one connection for all channels, so nothing has to be configured.
#[test]
fn test_subscriptions_per_connection() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let names: Vec<String> = (0..5).map(|_| ground.name("crowded")).collect();
    let most = thread::scope(|scope| {
        let threads: Vec<_> = (0..32)
            .map(|thread| {
                let locks: Vec<ReentrantLock> = (0..5)
                    .map(|number| client.reentrant_lock(&names[(thread + number) % 5]))
                    .collect();
                scope.spawn(move || {
                    for lock in locks.iter().cycle().take(5_000_usize.div_ceil(32)) {
                        lock.lock().expect("answered").unlock().expect("held");
                    }
                })
            })
            .collect();
        let mut most = 0;
        while !threads.iter().all(|one| one.is_finished()) {
            let clients = server.clients();
            most = most.max(clients.iter().filter(|one| one.channels() > 0).count());
        }
        most
    });
    assert_eq!(most, 1, "connections that listen at the same time");
    eventually(SOON, "no channel is left", || channels(&ground).is_empty());
}

/// `RedissonLockTest.testSinglePubSub`
#[test]
fn test_single_pub_sub() {
    let ground = Ground::new();
    let client = connect(&ground);
    let names = [ground.name("slot"), ground.name("slot")];
    thread::scope(|scope| {
        for thread in 0..4 {
            let lock = client.reentrant_lock(&names[thread % 2]);
            scope.spawn(move || {
                for _ in 0..5 {
                    let taken = lock.try_lock_for_with_lease(secs(2), secs(20));
                    let guard = taken.expect("answered").expect("its turn comes");
                    thread::sleep(Duration::from_millis(5));
                    guard.unlock().expect("held");
                }
            });
        }
    });
    assert_eq!(client.state().waiters, 0);
}

/// `RedissonLockTest.testLockIsNotRenewedAfterInterruptedTryLock`
///
/// Nothing interrupts a thread here: a token ends its wait.
#[test]
fn test_lock_is_not_renewed_after_interrupted_try_lock() {
    let ground = Ground::new();
    let client = connect_with(&ground, |plain| plain.lock_watchdog_timeout(secs(1)));
    let lock = client.reentrant_lock(ground.name("interrupted"));
    for round in 0..100 {
        let token = CancelToken::new();
        thread::scope(|scope| {
            let trying = scope.spawn(|| {
                let taken = lock.options().wait(secs(20)).cancel(&token).acquire();
                match taken {
                    Ok(guard) => guard.expect("free").unlock().expect("held"),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled),
                }
            });
            let shot = Instant::now() + Duration::from_micros(5 * round);
            while Instant::now() < shot {
                std::hint::spin_loop();
            }
            token.cancel();
            trying.join().expect("it ends well");
        });
        assert_eq!(client.state().renewals, 0);
        assert!(!lock.is_locked().expect("answered"), "round {round}");
    }
}

/// `RedissonLockTest.testRedisFailed`
#[test]
fn test_redis_failed() {
    let ground = Ground::new();
    let client = connect_with(&ground, |plain| {
        plain.connect_timeout(Duration::from_millis(300))
    });
    let lock = client.reentrant_lock(ground.name("failed"));
    ground.server().kill();
    for error in [
        lock.try_lock_for_with_lease(secs(1), secs(10))
            .expect_err("the server is dead"),
        lock.try_lock_for(secs(1)).expect_err("the server is dead"),
    ] {
        assert!(error.is_retryable(), "{error}");
    }
}

/// `RedissonLockTest.testTryLockWait`
#[test]
fn test_try_lock_wait() {
    let ground = Ground::alone();
    let name = ground.name("wait");
    let guard = taken(&connect(&ground).reentrant_lock(&name));
    let lock = connect(&ground).reentrant_lock(&name);
    let start = Instant::now();
    assert!(lock.try_lock_for(secs(3)).expect("answered").is_none());
    let passed = start.elapsed().as_millis();
    assert!((2_990..=3_350).contains(&passed), "{passed} ms");
    guard.unlock().expect("held");
}

/// `RedissonLockTest.testLockUninterruptibly`
///
/// What ends the wait of one thread does not end that of another.
#[test]
fn test_lock_uninterruptibly() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("plain"));
    let guard = taken(&lock);
    let token = CancelToken::new();
    thread::scope(|scope| {
        let plain = scope.spawn(|| lock.lock().expect("woken").unlock());
        let other = scope.spawn(|| lock.options().cancel(&token).acquire().map(drop));
        eventually(SOON, "both wait", || client.state().waiters == 2);
        token.cancel();
        let error = other.join().expect("it ends well").expect_err("cancelled");
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        assert!(!plain.is_finished());
        guard.unlock().expect("held");
        plain.join().expect("it ends well").expect("held");
    });
}

/// `RedissonLockTest.testExpire`
#[test]
fn test_expire() {
    let ground = Ground::alone();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("expire"));
    let start = Instant::now();
    let guard = leased(&lock, 2_000);
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

/// `RedissonLockTest.testConcurrency_SingleInstance`
#[test]
fn test_concurrency_single_instance() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("single"));
    assert_eq!(count_inside(&vec![lock; 15], 1), 15);
}

/// `RedissonLockTest.testConcurrencyLoop_MultiInstance`
#[test]
fn test_concurrency_loop_multi_instance() {
    let ground = Ground::new();
    let rounds = if is_long() { 100 } else { 20 };
    let locks = locks_of_clients(&ground, 16);
    assert_eq!(count_inside(&locks, rounds), 16 * rounds);
}

/// `RedissonLockTest.testConcurrency_MultiInstance`
#[test]
fn test_concurrency_multi_instance() {
    let ground = Ground::new();
    let clients = if is_long() { 100 } else { 30 };
    let locks = locks_of_clients(&ground, clients);
    assert_eq!(count_inside(&locks, 1), clients);
}

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

/// `RedissonLockTest.testLockListener`
///
/// Nothing listens to keys here. But who does, in Java, is told of our locks what is true of them: that
/// one was deleted when it was released, that it expired when its lease was over, and neither when it
/// went from thread to thread.
#[test]
fn test_lock_listener() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("listener"));
    // Generic commands and expiries.
    server.cli(&["CONFIG", "SET", "notify-keyspace-events", "Kgx"]);
    let channel = format!("__keyspace@0__:{}", lock.name());
    let mut listener = server.connection();
    let words = redis::cmd("SUBSCRIBE").arg(&channel).get_packed_command();
    listener.send_packed_command(&words).expect("sent");
    listener.recv_response().expect("confirmed");
    let mut heard = || {
        server.cli(&["PUBLISH", &channel, "marker"]);
        let mut ends = Vec::new();
        loop {
            let message = listener.recv_response().expect("the marker arrives");
            let parts: Vec<String> = redis::from_redis_value(message).expect("a message");
            match &*parts[2] {
                "marker" => return ends,
                "del" | "expired" => ends.push(parts[2].clone()),
                _ => {}
            }
        }
    };
    let guard = taken(&lock);
    assert_eq!(heard(), Vec::<String>::new(), "taken");
    lock.lock().expect("held").unlock().expect("held");
    assert_eq!(
        heard(),
        Vec::<String>::new(),
        "taken again, and given up once"
    );
    guard.unlock().expect("held");
    assert_eq!(heard(), ["del"]);
    let guard = leased(&lock, 100);
    let mut ends = Vec::new();
    eventually(SOON, "it expires", || {
        ends.extend(heard());
        !ends.is_empty()
    });
    assert_eq!(ends, ["expired"]);
    drop(guard);
    assert_eq!(
        heard(),
        Vec::<String>::new(),
        "nothing was there to be given up"
    );
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

fn locks_of_clients(ground: &Ground, clients: u64) -> Vec<ReentrantLock> {
    let name = ground.name("multi");
    (0..clients)
        .map(|_| connect(ground).reentrant_lock(&name))
        .collect()
}

/// A thread for each handle counts in two steps under the lock.
fn count_inside(locks: &[ReentrantLock], rounds: u64) -> u64 {
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

fn channels(ground: &Ground) -> Vec<String> {
    redis::cmd("PUBSUB")
        .arg("CHANNELS")
        .query(&mut ground.server().connection())
        .expect("PUBSUB CHANNELS is answered")
}

fn is_long() -> bool {
    std::env::var_os("LOCKSON_LONG").is_some()
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const SOON: Duration = secs(10);
