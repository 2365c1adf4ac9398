//! Waits that end without the lock.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use lockson::ErrorKind;

use super::{
    SOON, leased, millis, nothing_left, other_thread, secs, taken, timed, wait_for_listener,
    wait_for_waiters,
};
use crate::support::{
    Ground, connect, connect_to, connect_with, eventually,
    proxy::{ALWAYS, Proxy, script},
};

#[test]
fn a_wait_takes_as_long_as_it_may() {
    let ground = Ground::alone();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let guard = taken(&ours.reentrant_lock(&name));
    let in_time = |passed: Duration| {
        assert!(millis(500) <= passed && passed < millis(850), "{passed:?}");
    };
    for client in [&ours, &theirs] {
        let lock = client.reentrant_lock(&name);
        other_thread(|| {
            let wait = millis(500);
            let (none, passed) = timed(|| lock.try_lock_for(wait).expect("answered"));
            assert!(none.is_none());
            in_time(passed);
            let (none, passed) = timed(|| lock.try_lock_until(Instant::now() + wait));
            assert!(none.expect("answered").is_none());
            in_time(passed);
            let (none, passed) = timed(|| lock.try_lock_owned_for_with_lease(wait, secs(9)));
            assert!(none.expect("answered").is_none());
            in_time(passed);
            let (none, passed) = timed(|| lock.try_lock_until(Instant::now()));
            assert!(none.expect("answered").is_none());
            assert!(passed < millis(200), "{passed:?}");
        });
    }
    guard.unlock().expect("held");
    nothing_left(&ground, &[&ours, &theirs], &theirs.reentrant_lock(&name));
}

#[test]
fn an_owned_wait_waits_for_its_own_thread() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let guard = lock.lock().expect("free");
    let none = lock.try_lock_owned_for(millis(50)).expect("answered");
    assert!(none.is_none());
    guard.unlock().expect("held");
}

/// Tiny waits end in the very moment in which the lock goes from thread to thread.
#[test]
fn who_gives_up_at_the_moment_of_the_hand_over_leaves_nothing() {
    let ground = Ground::alone();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let lock = ours.reentrant_lock(&name);
    let (got, missed) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for seed in 1..=4_u64 {
            let (lock, got, missed) = (&lock, &got, &missed);
            scope.spawn(move || {
                let mut random = seed;
                for round in 0..300 {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(seed);
                    let wait = Duration::from_micros((random >> 33) % 3_000);
                    let taken = match round % 3 {
                        0 => lock
                            .try_lock_for_with_lease(wait, secs(20))
                            .map(|it| it.map(drop)),
                        1 => lock.try_lock_owned_for(wait).map(|it| it.map(drop)),
                        _ => lock.try_lock_for(wait).map(|it| it.map(drop)),
                    };
                    let count = match taken.expect("answered") {
                        Some(()) => got,
                        None => missed,
                    };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    println!("{got:?} got in, {missed:?} gave up");
    assert!(missed.into_inner() > 0, "some gave up");
    let last = theirs.reentrant_lock(&name);
    let (guard, passed) = timed(|| last.lock().expect("free"));
    assert!(passed < secs(2), "{passed:?}");
    guard.unlock().expect("held");
    nothing_left(&ground, &[&ours, &theirs], &lock);
}

#[test]
fn a_shutdown_ends_every_wait_at_once() {
    let ground = Ground::new();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let guard = taken(&theirs.reentrant_lock(&name));
    let lock = ours.reentrant_lock(&name);
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..6)
            .map(|number| {
                let lock = &lock;
                scope.spawn(move || {
                    let error = match number % 3 {
                        0 => lock.lock().expect_err("shut down"),
                        1 => lock.try_lock_for(secs(60)).expect_err("shut down"),
                        _ => lock.lock_owned().expect_err("shut down"),
                    };
                    (error.kind(), Instant::now())
                })
            })
            .collect();
        wait_for_waiters(&ours, 6);
        let start = Instant::now();
        ours.shutdown();
        for one in waiting {
            let (kind, ended) = one.join().expect("ends well");
            assert_eq!(kind, ErrorKind::Closed);
            assert!(ended - start < secs(1), "{:?}", ended - start);
        }
    });
    assert_eq!(ours.state().waiters, 0);
    guard.unlock().expect("untouched");
}

#[test]
fn a_key_of_another_type_is_an_error_at_once() {
    let ground = Ground::new();
    ground.expect_keys_left();
    let name = ground.name("L");
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.reentrant_lock(&name);
    server.cli(&["SET", &name, "no lock"]);
    let (error, passed) = timed(|| lock.lock().expect_err("a string"));
    assert_eq!(error.kind(), ErrorKind::WrongType);
    assert_eq!(error.name(), Some(&*name));
    assert!(passed < secs(1), "{passed:?}");
    let error = lock.try_lock_for(secs(30)).expect_err("a string");
    assert_eq!(error.kind(), ErrorKind::WrongType);

    // The same for those who wait already.
    server.cli(&["DEL", &name]);
    let guard = leased(&connect(&ground).reentrant_lock(&name), secs(20));
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| lock.lock().map(drop)))
            .collect();
        wait_for_waiters(&client, 3);
        super::wait_for_listener(&server, &lock);
        server.cli(&["SET", &name, "no lock"]);
        server.cli(&["PUBLISH", &super::channel(&lock), "0"]);
        for one in waiting {
            let error = one.join().expect("ends well").expect_err("a string");
            assert_eq!(error.kind(), ErrorKind::WrongType);
        }
    });
    drop(guard);
    assert_eq!(client.state().waiters, 0);
}

#[test]
fn a_dead_server_fails_all_waiters_together() {
    let ground = Ground::alone();
    let server = ground.server();
    let quick = |ground: &Ground| {
        connect_with(ground, |plain| {
            plain
                .retry_timeout(secs(1))
                .response_timeout(millis(300))
                .connect_timeout(millis(300))
        })
    };
    let (ours, theirs) = (quick(&ground), quick(&ground));
    let name = ground.name("L");
    let guard = leased(&theirs.reentrant_lock(&name), secs(2));
    let lock = ours.reentrant_lock(&name);
    let deadline = Instant::now() + secs(6);
    thread::scope(|scope| {
        let patient: Vec<_> = (0..20)
            .map(|_| scope.spawn(|| (lock.lock().map(drop), Instant::now())))
            .collect();
        let timed: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| (lock.try_lock_until(deadline).map(drop), Instant::now())))
            .collect();
        wait_for_waiters(&ours, 23);
        server.kill();
        let died = Instant::now();
        let mut ends = Vec::new();
        for one in patient {
            let (result, ended) = one.join().expect("ends well");
            let error = result.expect_err("the server is dead");
            assert!(error.is_retryable(), "{error}");
            ends.push(ended - died);
        }
        ends.sort();
        println!("lock() failed after {:?} to {:?}", ends[0], ends[19]);
        assert!(ends[19] - ends[0] < millis(800), "{ends:?}");
        assert!(ends[19] < secs(6), "{ends:?}");
        for one in timed {
            let (result, ended) = one.join().expect("ends well");
            let error = result.expect_err("the server is dead");
            assert!(error.is_retryable(), "{error}");
            let late = ended.saturating_duration_since(deadline);
            assert!(ended >= deadline && late < millis(700), "{late:?}");
        }
    });
    assert_eq!(ours.state().waiters, 0);
    drop(guard);
}

/// What Redis says of the time that is left is no reason to ask all the time.
#[test]
fn no_ttl_makes_a_waiter_busy() {
    let ground = Ground::alone();
    let server = ground.server();
    let client = connect(&ground);
    let name = ground.name("L");
    let lock = client.reentrant_lock(&name);

    server.cli(&["HSET", &name, "somebody:1", "1"]);
    let calls = server.script_calls();
    let none = lock.try_lock_for(millis(1500)).expect("answered");
    assert!(none.is_none());
    let asked = server.script_calls() - calls;
    assert!(asked <= 4, "without a TTL: asked {asked} times");

    // A TTL that is always about to end.
    let calls = server.script_calls();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| lock.try_lock_for(millis(1500)).map(drop));
        let mut redis = server.connection();
        while !waiting.is_finished() {
            let _: () = redis::pipe()
                .hset(&name, "somebody:1", "1")
                .ignore()
                .pexpire(&name, 2)
                .ignore()
                .query(&mut redis)
                .expect("answered");
        }
        waiting.join().expect("ends well").expect("answered");
    });
    let asked = server.script_calls() - calls;
    println!("a TTL of 2 ms for 1.5 s: asked {asked} times");
    assert!(asked <= 60, "asked {asked} times");
    server.cli(&["DEL", &name]);
}

/// Who is behind asks nobody itself: the silence that the first meets is its own.
#[test]
fn a_wait_behind_an_attempt_without_answer_is_an_error() {
    let ground = Ground::alone();
    let server = ground.server();
    let theirs = connect(&ground);
    let ours = connect_with(&ground, |plain| plain.response_timeout(secs(10)));
    let name = ground.name("L");
    let guard = leased(&theirs.reentrant_lock(&name), secs(1));
    let lock = ours.reentrant_lock(&name);
    let second = thread::scope(|scope| {
        let first = scope.spawn(|| lock.lock().map(drop));
        wait_for_listener(&server, &lock);
        let second = scope.spawn(|| lock.try_lock_for(secs(2)).map(|got| got.is_some()));
        wait_for_waiters(&ours, 2);
        server.freeze();
        let second = second.join().expect("ends well");
        server.thaw();
        first.join().expect("ends well").expect("it got in");
        second
    });
    let error = second.expect_err("nobody knows whether others had it");
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert_eq!(error.name(), Some(&*name));
    assert!(!guard.is_held());
    drop(guard);
    nothing_left(&ground, &[&ours, &theirs], &lock);
}

/// The same behind one that stands in no line: it found nobody there, and asks for itself.
#[test]
fn a_short_wait_beside_an_attempt_without_answer_is_an_error() {
    let ground = Ground::alone();
    let server = ground.server();
    let proxy = Proxy::to(server.addr());
    let ours = connect_to(&ground, &proxy.url(), |plain| {
        plain.response_timeout(secs(10))
    });
    let name = ground.name("L");
    let lock = ours.reentrant_lock(&name);
    proxy.hold(script(&name), ALWAYS);
    thread::scope(|scope| {
        let first = scope.spawn(|| lock.lock().map(drop));
        eventually(SOON, "it asks", || proxy.held() > 0);
        let asked = Instant::now();
        let error = loop {
            let late = asked.elapsed() > millis(150);
            match lock.try_lock_for(millis(20)) {
                Ok(got) => {
                    assert!(got.is_none(), "nobody was answered");
                    assert!(!late, "nobody knows whether others have it");
                }
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert!(!first.is_finished());
        proxy.clear();
        proxy.release_held();
        first.join().expect("ends well").expect("it got in");
    });
    assert!(proxy.held() > 0);
    nothing_left(&ground, &[&ours], &lock);
}
