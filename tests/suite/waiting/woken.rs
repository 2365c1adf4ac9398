//! What ends a wait: an unlock, the end of a lease, force.

use std::{
    thread,
    time::{Duration, Instant},
};

use lockson::{Ended, LostReason};

use super::{
    SOON, leased, listeners, millis, nothing_left, other_thread, secs, taken, timed,
    wait_for_listener, wait_for_waiters,
};
use crate::support::{Ground, connect, eventually};

#[test]
fn an_unlock_wakes_the_waiter_of_another_client() {
    let ground = Ground::alone();
    let server = ground.server();
    let name = ground.name("L");
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let (holder, waiter) = (ours.reentrant_lock(&name), theirs.reentrant_lock(&name));
    let mut delays: Vec<Duration> = (0..20)
        .map(|_| {
            let guard = taken(&holder);
            let calls = server.script_calls();
            thread::scope(|scope| {
                let waiting = scope.spawn(|| {
                    let guard = waiter.lock().expect("woken");
                    let entered = Instant::now();
                    guard.unlock().expect("held");
                    entered
                });
                wait_for_waiters(&theirs, 1);
                wait_for_listener(&server, &waiter);
                eventually(SOON, "it looked when it came and when it listened", || {
                    server.script_calls() >= calls + 2
                });
                let freed = Instant::now();
                guard.unlock().expect("held");
                waiting.join().expect("the waiter ends well") - freed
            })
        })
        .collect();
    delays.sort();
    println!(
        "woken after {:?} (median), {:?} (most)",
        delays[10], delays[19]
    );
    assert!(delays[10] < millis(100), "{delays:?}");
    nothing_left(&ground, &[&ours, &theirs], &holder);
}

#[test]
fn the_end_of_the_ttl_ends_the_wait() {
    let ground = Ground::alone();
    let name = ground.name("L");
    let waiter = connect(&ground).reentrant_lock(&name);
    let gone = connect(&ground);
    let guard = leased(&gone.reentrant_lock(&name), millis(800));
    gone.shutdown();
    drop(guard);
    let (guard, passed) = timed(|| waiter.lock().expect("its time is over"));
    guard.unlock().expect("held");
    println!("entered after {passed:?} of 800 ms");
    assert!(millis(600) < passed && passed < millis(1100), "{passed:?}");
}

#[test]
fn a_lease_that_ends_in_the_same_client_ends_the_wait_of_all_behind_it() {
    let ground = Ground::alone();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let guard = leased(&lock, millis(500));
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..3)
            .map(|number| {
                let waiting = scope.spawn(|| {
                    // Never unlocked in time: only the end of the lease makes room.
                    let guard = lock.lock_with_lease(millis(500)).expect("woken");
                    let entered = Instant::now();
                    assert_eq!(guard.lost().wait(SOON), Ended::Lost(LostReason::Expired));
                    drop(guard);
                    entered
                });
                wait_for_waiters(&client, number + 1);
                waiting
            })
            .collect();
        let start = Instant::now();
        let entered: Vec<Duration> = waiting
            .into_iter()
            .map(|waiting| waiting.join().expect("ends well") - start)
            .collect();
        println!("entered after {entered:?}");
        assert!(entered.is_sorted(), "{entered:?}");
        assert!(entered[2] < millis(2300), "{entered:?}");
    });
    drop(guard);
}

#[test]
fn force_wakes_the_waiter() {
    let ground = Ground::new();
    let server = ground.server();
    let name = ground.name("L");
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let lost = taken(&ours.reentrant_lock(&name));
    let waiter = theirs.reentrant_lock(&name);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| timed(|| waiter.lock().expect("woken").unlock()).1);
        wait_for_waiters(&theirs, 1);
        wait_for_listener(&server, &waiter);
        assert!(ours.reentrant_lock(&name).force_unlock().expect("answered"));
        let passed = waiting.join().expect("the waiter ends well");
        assert!(passed < secs(2), "{passed:?}");
    });
    drop(lost);
}

#[test]
fn what_is_free_is_taken_without_waiting() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    // The server learns the scripts.
    taken(&lock).unlock().expect("held");
    let calls = ground.server().script_calls();
    lock.lock().expect("free").unlock().expect("held");
    lock.lock_owned().expect("free").unlock().expect("held");
    let guard = lock.try_lock_for(secs(1)).expect("answered").expect("free");
    guard.unlock().expect("held");
    let long_ago = Instant::now();
    let guard = lock.try_lock_until(long_ago).expect("answered");
    guard.expect("free").unlock().expect("held");
    assert_eq!(listeners(&ground.server(), &lock), 0);
    assert_eq!(ground.server().script_calls(), calls + 8);
}

#[test]
fn whoever_has_it_gets_it_again_while_others_wait() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let first = lock.lock().expect("free");
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| lock.lock().expect("woken").unlock().expect("held")))
            .collect();
        wait_for_waiters(&client, 3);
        for _ in 0..3 {
            let again = lock.lock().expect("ours");
            assert_eq!(again.holder(), first.holder());
            let timed = lock.try_lock_for(SOON).expect("answered").expect("ours");
            assert_eq!(lock.hold_count().expect("answered"), 3);
            drop((again, timed));
        }
        first.unlock().expect("held");
        for one in waiting {
            one.join().expect("it got in");
        }
    });
    nothing_left(&ground, &[&client], &lock);
}

#[test]
fn each_way_to_wait_ends_with_an_unlock() {
    let ground = Ground::new();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let lock = ours.reentrant_lock(&name);
    for rival in [&ours, &theirs] {
        let rival = rival.reentrant_lock(&name);
        let left = |lease: Option<u64>| match lease {
            Some(lease) => millis(lease.saturating_sub(1_000))..=millis(lease),
            None => secs(29)..=secs(30),
        };
        let held = |lease: Option<u64>, remaining: Duration| {
            assert!(left(lease).contains(&remaining), "{remaining:?}");
        };
        let wait_and_see = |way: &(dyn Fn() + Sync)| {
            let guard = other_thread(|| rival.try_lock_owned().expect("answered").expect("free"));
            thread::scope(|scope| {
                let waiting = scope.spawn(way);
                wait_for_waiters(&ours, 1);
                guard.unlock().expect("held");
                waiting.join().expect("it got in");
            });
        };
        wait_and_see(&|| held(None, lock.lock().expect("woken").remaining()));
        wait_and_see(&|| {
            let guard = lock.lock_with_lease(secs(7)).expect("woken");
            held(Some(7_000), guard.remaining());
        });
        wait_and_see(&|| {
            let guard = lock.try_lock_for(SOON).expect("answered").expect("woken");
            held(None, guard.remaining());
        });
        wait_and_see(&|| {
            let deadline = Instant::now() + SOON;
            let guard = lock.try_lock_until(deadline).expect("answered");
            held(None, guard.expect("woken").remaining());
        });
        wait_and_see(&|| {
            let guard = lock.try_lock_for_with_lease(SOON, secs(40));
            held(
                Some(40_000),
                guard.expect("answered").expect("woken").remaining(),
            );
        });
        wait_and_see(&|| {
            let guard = lock.lock_owned().expect("woken");
            held(None, guard.remaining());
            other_thread(|| guard.unlock().expect("held"));
        });
        wait_and_see(&|| {
            let guard = lock.lock_owned_with_lease(secs(7)).expect("woken");
            held(Some(7_000), guard.remaining());
        });
        wait_and_see(&|| {
            let guard = lock.try_lock_owned_for(SOON).expect("answered");
            held(None, guard.expect("woken").remaining());
        });
        wait_and_see(&|| {
            let guard = lock.try_lock_owned_for_with_lease(SOON, secs(40));
            held(
                Some(40_000),
                guard.expect("answered").expect("woken").remaining(),
            );
        });
        wait_and_see(&|| {
            let options = lock.options().wait(Duration::MAX).max_hold(secs(5));
            let guard = options.acquire().expect("answered").expect("woken");
            held(Some(5_000), guard.remaining());
        });
    }
    nothing_left(&ground, &[&ours, &theirs], &lock);
}

#[test]
fn everybody_is_told_how_many_wait() {
    let ground = Ground::new();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let (lock, rival) = (ours.reentrant_lock(&name), theirs.reentrant_lock(&name));
    let guard = taken(&lock);
    let waiters = || lock.inspect().expect("answered").waiters;
    assert_eq!(waiters(), 0);
    thread::scope(|scope| {
        let far = scope.spawn(|| drop(rival.lock().expect("woken")));
        let near: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| drop(lock.lock().expect("woken"))))
            .collect();
        wait_for_waiters(&ours, 2);
        wait_for_waiters(&theirs, 1);
        assert_eq!(waiters(), 2, "those of this client");
        assert_eq!(rival.inspect().expect("answered").waiters, 1);
        let elsewhere = ours.reentrant_lock(ground.name("L"));
        assert_eq!(elsewhere.inspect().expect("answered").waiters, 0);
        drop(guard);
        far.join().expect("it got in");
        for one in near {
            one.join().expect("it got in");
        }
    });
    assert_eq!(waiters(), 0);
    nothing_left(&ground, &[&ours, &theirs], &lock);
}
