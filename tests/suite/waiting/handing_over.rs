//! A lock goes from one thread of a client to the next.

use std::{thread, time::Instant};

use lockson::{Ended, LostReason};

use super::{
    SOON, channel, leased, millis, nothing_left, secs, wait_for_listener, wait_for_waiters,
};
use crate::support::{Ground, Server, connect, eventually};

/// Counts what is published on a channel.
struct Ear(redis::Connection);

impl Ear {
    fn on(server: &Server, channel: &str) -> Self {
        let mut connection = server.connection();
        let mut words = redis::cmd("SUBSCRIBE");
        words.arg(channel);
        connection
            .send_packed_command(&words.get_packed_command())
            .expect("sent");
        connection.recv_response().expect("confirmed");
        Self(connection)
    }

    /// The messages up to a marker.
    fn heard(&mut self, server: &Server, channel: &str) -> usize {
        server.cli(&["PUBLISH", channel, "marker"]);
        let mut count = 0;
        loop {
            let message = self.0.recv_response().expect("the marker arrives");
            let parts: Vec<String> = redis::from_redis_value(message).expect("a message");
            match &*parts[2] {
                "marker" => return count,
                _ => count += 1,
            }
        }
    }
}

#[test]
fn a_hold_that_stays_in_the_client_needs_no_message() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    // The server learns the scripts.
    leased(&lock, secs(1)).unlock().expect("held");
    let mut handed = 0;
    for _ in 0..20 {
        let mut ear = Ear::on(&server, &channel(&lock));
        let guard = lock.lock_with_lease(secs(20)).expect("free");
        let holder = guard.holder().to_owned();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let guard = lock.lock().expect("woken");
                assert_eq!(lock.hold_count().expect("answered"), 1);
                assert_ne!(guard.holder(), holder);
                guard.verify().expect("held");
                let left = guard.remaining();
                assert!(secs(29) <= left && left <= secs(30), "{left:?}");
                assert_eq!(client.state().renewals, 1);
                let calls = server.script_calls();
                guard.unlock().expect("held");
                assert_eq!(server.script_calls(), calls + 1);
            });
            wait_for_waiters(&client, 1);
            guard.unlock().expect("held");
            waiting.join().expect("it got in");
        });
        // The last release is told, the first is not if it came within the bound.
        match ear.heard(&server, &channel(&lock)) {
            1 => handed += 1,
            count => assert_eq!(count, 2),
        }
    }
    println!("handed over {handed} of 20 times");
    assert!(handed > 0);
    nothing_left(&ground, &[&client], &lock);
}

/// Waiters elsewhere sleep for the TTL that they have read.
#[test]
fn a_shorter_lease_is_announced() {
    let ground = Ground::alone();
    let server = ground.server();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let lock = ours.reentrant_lock(&name);
    let mut ear = Ear::on(&server, &channel(&lock));
    thread::scope(|scope| {
        let guard = leased(&lock, secs(20));
        let far = theirs.reentrant_lock(&name);
        let elsewhere = scope.spawn(move || {
            drop(far.lock().expect("woken"));
        });
        wait_for_waiters(&theirs, 1);
        wait_for_listener(&server, &lock);
        let near = scope.spawn(|| {
            // Never unlocked in time.
            let guard = lock.lock_with_lease(secs(1)).expect("woken");
            assert_eq!(guard.lost().wait(SOON), Ended::Lost(LostReason::Expired));
            drop(guard);
        });
        wait_for_waiters(&ours, 1);
        guard.unlock().expect("held");
        eventually(SOON, "the release is told", || {
            ear.heard(&server, &channel(&lock)) > 0
        });
        let start = Instant::now();
        elsewhere.join().expect("it got in");
        let passed = start.elapsed();
        assert!(passed < millis(2_500), "{passed:?}");
        near.join().expect("it got in");
    });
    drop(ear);
    nothing_left(&ground, &[&ours, &theirs], &lock);
}

/// While the threads of one client hand the lock on, another client gets in.
#[test]
fn others_are_not_starved() {
    let ground = Ground::alone();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let (lock, rival) = (ours.reentrant_lock(&name), theirs.reentrant_lock(&name));
    let over = std::sync::atomic::AtomicBool::new(false);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    let (crowd, alone, longest) = thread::scope(|scope| {
        let crowd: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut count = 0_u64;
                    while !over.load(relaxed) {
                        lock.lock().expect("answered").unlock().expect("held");
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        let alone = scope.spawn(|| {
            let (mut count, mut longest) = (0_u64, millis(0));
            while !over.load(relaxed) {
                let asked = Instant::now();
                let guard = rival.lock().expect("answered");
                longest = longest.max(asked.elapsed());
                guard.unlock().expect("held");
                count += 1;
            }
            (count, longest)
        });
        // For how long it is counted.
        thread::sleep(secs(2));
        over.store(true, relaxed);
        let crowd: u64 = crowd
            .into_iter()
            .map(|one| one.join().expect("ends well"))
            .sum();
        let (alone, longest) = alone.join().expect("ends well");
        (crowd, alone, longest)
    });
    println!("four threads {crowd}, the other client {alone}, its longest wait {longest:?}");
    assert!(alone >= 20, "{alone} of {crowd}");
    assert!(longest < secs(1), "{longest:?}");
    nothing_left(&ground, &[&ours, &theirs], &lock);
}

/// Who takes and releases in a loop would be there again before anybody elsewhere is awake.
#[test]
fn who_releases_to_others_lets_them_go_first() {
    let ground = Ground::new();
    let server = ground.server();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    let _ear = Ear::on(&server, &channel(&lock));
    for _ in 0..5 {
        let guard = lock.lock().expect("free");
        let releases = Instant::now();
        guard.unlock().expect("held");
        let again = lock.lock().expect("nobody takes it");
        let after = releases.elapsed();
        assert!(after >= millis(2), "{after:?}: nobody could have come");
        again.unlock().expect("held");
    }
}
