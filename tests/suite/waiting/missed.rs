//! What a waiter must not miss: each of these slept for three seconds beside a free lock once.

use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use super::{listeners, nothing_left};
use crate::support::{Ground, connect, eventually};

const BOUND: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(60);
const LATE: Duration = Duration::from_millis(1000);

/// A release that finds nothing sends no message: the next one is somebody else's.
#[test]
fn a_release_without_a_message_has_no_echo() {
    let ground = Ground::alone();
    let server = ground.server();
    let name = ground.name("L");
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let (lock, rival) = (ours.reentrant_lock(&name), theirs.reentrant_lock(&name));
    let first = rival.try_lock().expect("answered").expect("free");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            lock.lock().expect("woken").unlock().expect("held");
            Instant::now()
        });
        eventually(BOUND, "it listens", || {
            let channel = format!("redisson_lock__channel:{{{name}}}");
            let mut asked = redis::cmd("PUBSUB");
            let asked = asked.arg("NUMSUB").arg(channel);
            let count: (String, u64) = asked.query(&mut server.connection()).expect("NUMSUB");
            count.1 > 0 && ours.state().waiters == 1
        });
        server.cli(&["DEL", &name]);
        let lost = lock.try_lock().expect("answered").expect("free");
        server.cli(&["DEL", &name]);
        let second = rival.try_lock_owned().expect("answered").expect("free");
        lost.unlock().expect_err("it is gone");
        let freed = Instant::now();
        second.unlock().expect("held");
        let late = waiting
            .join()
            .expect("it got in")
            .saturating_duration_since(freed);
        assert!(late < LATE, "asleep for {late:?}");
    });
    drop(first);
}

/// The hold of another thread of the same client is taken away by force from outside.
#[test]
fn force_from_outside_is_noticed_behind_a_thread_of_the_same_client() {
    let ground = Ground::alone();
    let name = ground.name("L");
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let lock = ours.reentrant_lock(&name);
    let guard = lock.lock().expect("free");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            lock.lock().expect("woken").unlock().expect("held");
            Instant::now()
        });
        eventually(BOUND, "it waits", || ours.state().waiters == 1);
        let rival = theirs.reentrant_lock(&name);
        assert!(rival.force_unlock().expect("answered"));
        let freed = Instant::now();
        let late = waiting
            .join()
            .expect("it got in")
            .saturating_duration_since(freed);
        assert!(late < LATE, "asleep for {late:?}");
    });
    drop(guard);
}

/// Two threads of one client wait; the first gets it for a short lease, by itself or by being handed
/// it, and does not release.
#[test]
fn the_end_of_a_lease_of_our_own_thread_is_not_slept_through() {
    let ground = Ground::alone();
    let server = ground.server();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let mut lates = Vec::new();
    for round in 0..10 {
        let held = Duration::from_millis(300 + 45 * round);
        let lease = held + Duration::from_millis(10);
        // A new one each time: nobody listens to it yet.
        let name = ground.name("L");
        let lock = ours.reentrant_lock(&name);
        let holder = [&theirs, &ours][usize::from(round % 2 == 1)].reentrant_lock(&name);
        let options = holder.options().wait(Duration::ZERO).lease(LONG);
        let guard = options.acquire_owned().expect("answered").expect("free");
        let (over, is_over) = mpsc::channel::<()>();
        lates.push(thread::scope(|scope| {
            let waits = lock.clone();
            let first = scope.spawn(move || {
                let guard = waits.lock_with_lease(lease).expect("woken");
                let entered = Instant::now();
                is_over.recv().expect_err("nothing is sent");
                assert!(!guard.is_held());
                entered
            });
            eventually(BOUND, "it listens", || listeners(&server, &lock) > 0);
            let second = scope.spawn(|| {
                lock.lock().expect("woken").unlock().expect("held");
                Instant::now()
            });
            eventually(BOUND, "both wait", || ours.state().waiters == 2);
            // A hand-over shortens no time. Only now: the scene may take longer to stand than this.
            server.cli(&["PEXPIRE", &name, &held.as_millis().to_string()]);
            guard.unlock().expect("held");
            let entered = second.join().expect("it got in");
            drop(over);
            entered.saturating_duration_since(first.join().expect("it got in") + lease)
        }));
        nothing_left(&ground, &[&ours, &theirs], &lock);
    }
    println!("late by {lates:?}");
    // Whoever looks at the clock for another reason may have woken it.
    lates.sort();
    assert!(
        lates[lates.len() * 3 / 4] < LATE / 10,
        "asleep for {lates:?}"
    );
}
