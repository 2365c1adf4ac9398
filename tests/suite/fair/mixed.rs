//! Fair and reentrant handles of one name.

use std::thread;

use super::{
    millis, nobody_waits, secs, timed, wait_for_ear, wait_for_ears, wait_for_queue, waiter,
};
use crate::support::{Ground, connect};

#[test]
fn one_hold_in_one_thread_and_exclusion_between_threads() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let name = ground.name("L");
    let (fair, plain) = (client.fair_lock(&name), client.reentrant_lock(&name));
    let outer = plain.lock().expect("free");
    let inner = fair.lock().expect("its own");
    assert_eq!(outer.holder(), inner.holder());
    assert_eq!(fair.hold_count().expect("answered"), 2);
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(fair.try_lock().expect("answered").is_none());
            assert!(plain.try_lock().expect("answered").is_none());
        });
    });
    outer.unlock().expect("held");
    assert!(fair.is_held_by_current_thread().expect("answered"));
    inner.unlock().expect("held");
    assert!(!plain.is_locked().expect("answered"));
    nobody_waits(&server, &[&client], &fair);
}

/// Redisson's fair release tells the queue only: a plain waiter slept to the end of the TTL.
#[test]
fn a_fair_release_wakes_who_waits_by_a_reentrant_handle() {
    let ground = Ground::alone();
    let server = ground.server();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let plain = theirs.reentrant_lock(&name);
    let guard = ours
        .fair_lock(&name)
        .lock_with_lease(secs(60))
        .expect("free");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| drop(plain.lock().expect("woken")));
        wait_for_ear(&server, &format!("redisson_lock__channel:{{{name}}}"));
        let ((), took) = timed(|| {
            guard.unlock().expect("held");
            waiting.join().expect("entered");
        });
        println!("entered after {took:?}");
        assert!(took < secs(1), "{took:?}");
    });
    nobody_waits(&server, &[&ours, &theirs], &ours.fair_lock(&name));
}

/// The queue is not told by a reentrant handle's release: the first in it looks now and then.
#[test]
fn a_fair_waiter_behind_a_reentrant_holder_enters_within_the_longest_sleep() {
    let ground = Ground::alone();
    let server = ground.server();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let fair = theirs.fair_lock(&name);
    let guard = ours
        .reentrant_lock(&name)
        .lock_with_lease(secs(60))
        .expect("free");
    thread::scope(|scope| {
        let waiting = waiter(scope, &fair, drop);
        wait_for_queue(&server, &fair, 1);
        wait_for_ears(&server, &fair);
        let ((), took) = timed(|| {
            guard.unlock().expect("held");
            waiting.join().expect("entered");
        });
        println!("entered after {took:?}");
        assert!(took < secs(3) + millis(700), "{took:?}");
    });
    nobody_waits(&server, &[&ours, &theirs], &fair);
}

/// Threads of one client that wait in both ways: all get in.
#[test]
fn waiters_of_both_kinds_all_get_in() {
    let ground = Ground::new();
    let server = ground.server();
    let (one, two) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    thread::scope(|scope| {
        for client in [&one, &two] {
            for _ in 0..4 {
                let (fair, plain) = (client.fair_lock(&name), client.reentrant_lock(&name));
                scope.spawn(move || {
                    for _ in 0..20 {
                        fair.lock().expect("its turn comes").unlock().expect("held");
                    }
                });
                scope.spawn(move || {
                    for _ in 0..20 {
                        plain
                            .lock()
                            .expect("its turn comes")
                            .unlock()
                            .expect("held");
                    }
                });
            }
        }
    });
    nobody_waits(&server, &[&one, &two], &one.fair_lock(&name));
}
