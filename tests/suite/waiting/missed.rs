//! What a waiter must not miss: each of these slept for three seconds beside a free lock once.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::support::{Ground, connect, eventually};

const BOUND: Duration = Duration::from_secs(10);
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
