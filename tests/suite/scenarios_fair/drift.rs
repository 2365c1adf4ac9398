//! Redisson's tests of the times after which a waiter may be passed: they must not drift away.

use std::{
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use lockson::CancelToken;

use super::{SOON, leased, millis, other_thread, queue, secs, taken, wait_for_queue};
use crate::{
    interop::processes::rust_peer,
    support::{Ground, Peer, Pending, Server, connect, connect_with, eventually},
};

/// `RedissonFairLockTest.testWaitTimeoutDrift`
///
/// Many come, wait for a short time and go, and one dies.
#[test]
fn test_wait_timeout_drift() {
    let ground = Ground::new();
    let name = ground.name("drift");
    let client = connect(&ground);
    let holder = leased(&connect(&ground).fair_lock(&name), LEASE);
    let (victim, dead) = waiting_peer(&ground.server(), &name);
    wait_for_queue(&ground, &name, 1);
    victim.kill();
    drop(dead);
    for _ in 0..10 {
        thread::scope(|scope| {
            for _ in 0..3 {
                let lock = client.fair_lock(&name);
                scope.spawn(move || {
                    let taken = lock.try_lock_for(millis(100)).expect("answered");
                    assert!(taken.is_none());
                });
            }
            bounded(&ground, &name, 4);
        });
        let waiting = queue(&ground, &name);
        assert_eq!(waiting.len(), 1, "only the dead one is left");
        assert!(waiting[0].1 <= millis_of(LEASE + WAIT), "{waiting:?}");
    }
    holder.unlock().expect("held");
    forget(&ground, &name);
}

/// `RedissonFairLockTest.testLockAcquiredTimeoutDrift`
#[test]
fn test_lock_acquired_timeout_drift() {
    let ground = Ground::new();
    let name = ground.name("drift");
    let clients = [connect(&ground), connect(&ground)];
    thread::scope(|scope| {
        for thread in 0..6 {
            let lock = clients[thread % 2].fair_lock(&name);
            scope.spawn(move || {
                for _ in 0..10 {
                    let taken = lock.try_lock_for_with_lease(secs(20), LEASE);
                    let guard = taken.expect("answered").expect("its turn comes");
                    thread::sleep(millis(2));
                    guard.unlock().expect("held");
                }
            });
        }
        for _ in 0..50 {
            bounded(&ground, &name, 6);
        }
    });
    assert!(queue(&ground, &name).is_empty());
}

/// `RedissonFairLockTest.testAcquireFailedTimeoutDrift_Descrete`
///
/// The times step by one wait from place to place, and go down by one when somebody in the middle
/// goes.
#[test]
fn test_acquire_failed_timeout_drift_descrete() {
    let ground = Ground::new();
    let name = ground.name("steps");
    let client = connect(&ground);
    let holder = leased(&connect(&ground).fair_lock(&name), LEASE);
    let cancel = CancelToken::new();
    thread::scope(|scope| {
        for number in 0..4 {
            let lock = client.fair_lock(&name);
            let cancel = (number == 1).then(|| cancel.clone());
            scope.spawn(move || match cancel {
                Some(token) => {
                    let error = lock.options().cancel(&token).acquire();
                    error.map(drop).expect_err("cancelled");
                }
                None => lock.lock().expect("its turn comes").unlock().expect("held"),
            });
            wait_for_queue(&ground, &name, number + 1);
        }
        let before = queue(&ground, &name);
        for (place, (_, left)) in (1..).zip(&before) {
            near(*left, LEASE + WAIT * place);
        }
        cancel.cancel();
        wait_for_queue(&ground, &name, 3);
        let after = queue(&ground, &name);
        let others: Vec<_> = before.iter().map(|(waiter, _)| waiter).collect();
        assert_eq!(after[0].0, *others[0]);
        assert_eq!(after[1].0, *others[2]);
        assert_eq!(after[2].0, *others[3]);
        for (place, (_, left)) in (1..).zip(&after) {
            near(*left, LEASE + WAIT * place);
        }
        holder.unlock().expect("held");
    });
}

/// `RedissonFairLockTest.testLockAcquiredBooleanTimeoutDrift_Descrete`
#[test]
fn test_lock_acquired_boolean_timeout_drift_descrete() {
    let ground = Ground::new();
    let name = ground.name("boolean");
    let first = connect(&ground).fair_lock(&name);
    let second = connect(&ground).fair_lock(&name);
    let guard = leased(&first, millis(500));
    for lock in [&second, &first] {
        let refused = other_thread(|| lock.try_lock().expect("answered").is_none());
        assert!(refused);
        assert!(queue(&ground, &name).is_empty(), "a single try queues not");
    }
    eventually(SOON, "the lease ends", || {
        !second.is_locked().expect("answered")
    });
    taken(&second).unlock().expect("held");
    drop(guard);
}

/// `RedissonFairLockTest.testLockAcquiredTimeoutDrift_Descrete`
#[test]
fn test_lock_acquired_timeout_drift_descrete() {
    let ground = Ground::new();
    let name = ground.name("entered");
    let client = connect(&ground);
    // Another client's waiter is not handed the lock but takes it: both ways must count alike.
    for heir in [client.clone(), connect(&ground)] {
        let holder = leased(&client.fair_lock(&name), LEASE);
        let (enter, entered) = (Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            let lock = heir.fair_lock(&name);
            let (enter, entered) = (&enter, &entered);
            scope.spawn(move || {
                let guard = lock.lock_with_lease(LEASE).expect("its turn comes");
                entered.wait();
                enter.wait();
                guard.unlock().expect("held");
            });
            wait_for_queue(&ground, &name, 1);
            for length in 2..4 {
                let lock = client.fair_lock(&name);
                scope.spawn(move || lock.lock().expect("its turn comes").unlock());
                wait_for_queue(&ground, &name, length);
            }
            let before = queue(&ground, &name);
            holder.unlock().expect("held");
            entered.wait();
            let after = queue(&ground, &name);
            assert_eq!(after.len(), 2);
            for (place, (was, is)) in (1..).zip(before[1..].iter().zip(&after)) {
                assert_eq!(was.0, is.0);
                near(was.1 - is.1, WAIT);
                near(is.1, LEASE + WAIT * place);
            }
            enter.wait();
        });
    }
}

/// `RedissonFairLockTest.testAbandonedTimeoutDrift_Descrete`
#[test]
fn test_abandoned_timeout_drift_descrete() {
    let ground = Ground::alone();
    let name = ground.name("abandoned");
    let server = ground.server();
    let client = connect_with(&ground, |plain| plain.fair_lock_wait_timeout(millis(500)));
    let holder = leased(&client.fair_lock(&name), secs(10));
    let victims: Vec<_> = (0..2)
        .map(|number| {
            let victim = rust_peer();
            let url = server.url();
            let made = victim.call(&format!("client A single {url} 30000 fairWait=500"));
            made.expect("a client");
            let waiting = victim.send(&format!("A t1 tryLockW fair {name} 500"));
            wait_for_queue(&ground, &name, number + 1);
            victim.kill();
            waiting
        })
        .collect();
    let lock = connect(&ground).fair_lock(&name);
    thread::scope(|scope| {
        let live = scope.spawn(|| {
            let guard = lock.lock().expect("its turn comes");
            guard.unlock().expect("held");
        });
        wait_for_queue(&ground, &name, 3);
        // Their turn comes now, and they are silent; how long that is borne lies in their times.
        shorten(&server, &name, &queue(&ground, &name)[..2], millis(800));
        holder.unlock().expect("held");
        let (_, passed) = timed(|| live.join().expect("it enters"));
        assert!(passed >= millis(300), "not before: {passed:?}");
        assert!(passed < secs(5), "{passed:?}");
    });
    drop(victims);
    assert!(queue(&ground, &name).is_empty());
}

/// `RedissonFairLockTest.testFirstThreadDeathTimeoutDrift`
#[test]
fn test_first_thread_death_timeout_drift() {
    let ground = Ground::new();
    let name = ground.name("death");
    let client = connect(&ground);
    let holder = leased(&client.fair_lock(&name), LEASE);
    let (victim, dead) = waiting_peer(&ground.server(), &name);
    wait_for_queue(&ground, &name, 1);
    let cancel = CancelToken::new();
    thread::scope(|scope| {
        for length in 2..6 {
            let lock = client.fair_lock(&name);
            let cancel = &cancel;
            scope.spawn(move || {
                let given_up = lock.options().cancel(cancel).acquire();
                given_up.map(drop).expect_err("cancelled");
            });
            wait_for_queue(&ground, &name, length);
        }
        victim.kill();
        for (place, (_, left)) in (1..).zip(queue(&ground, &name)) {
            let most = millis_of(LEASE + WAIT * place);
            assert!(left <= most, "place {place}: {left} of {most}");
        }
        cancel.cancel();
    });
    drop(dead);
    holder.unlock().expect("held");
    forget(&ground, &name);
}

/// A process whose only thread waits, to be killed.
fn waiting_peer(server: &Server, name: &str) -> (Peer, Pending) {
    let peer = rust_peer();
    let made = peer.call(&format!("client A single {} 30000", server.url()));
    made.expect("a client");
    let waiting = peer.send(&format!("A t1 lock fair {name}"));
    (peer, waiting)
}

/// The times stay below the lease and one wait for each who takes part. A waiter's own is lower as
/// soon as it has looked since somebody before it went.
#[track_caller]
fn bounded(ground: &Ground, name: &str, all: u32) {
    let most = millis_of(LEASE + WAIT * all);
    for (waiter, left) in queue(ground, name) {
        assert!(left <= most, "{waiter}: {left} of {most}");
    }
}

/// Moves the times of these waiters to so far from now.
fn shorten(server: &Server, name: &str, waiters: &[(String, i64)], left: Duration) {
    for (waiter, now) in waiters {
        let by = millis_of(left) - now;
        let key = format!("redisson_lock_timeout:{{{name}}}");
        server.cli(&["ZINCRBY", &key, &by.to_string(), waiter]);
    }
}

/// Takes a dead waiter away, whose time would be over in minutes.
fn forget(ground: &Ground, name: &str) {
    let keys = ["queue", "timeout"].map(|what| format!("redisson_lock_{what}:{{{name}}}"));
    ground.server().cli(&["DEL", &keys[0], &keys[1]]);
}

/// Within what a busy machine may take between two looks.
#[track_caller]
fn near(found: i64, wanted: Duration) {
    let wanted = millis_of(wanted);
    assert!((found - wanted).abs() < 10_000, "{found} is not {wanted}");
}

fn millis_of(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).expect("a time is short")
}

fn timed<T>(body: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = body();
    (result, start.elapsed())
}

const LEASE: Duration = secs(30);

/// What a client waits by default before it passes a silent one.
const WAIT: Duration = secs(300);
