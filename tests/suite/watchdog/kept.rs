//! Who is renewed, for how long, and that nothing is ever shortened.

use std::{thread, time::Instant};

use lockson::{Ended, LostReason};

use super::{
    BOUND, is_not_held, leased, lowest_ttl, millis, pass_renewals, pttl, runs_out, secs, taken,
    watching,
};
use crate::support::{Ground, eventually};

#[test]
fn a_hold_without_lease_lives_past_the_timeout() {
    let ground = Ground::alone();
    let (client, told) = watching(&ground, millis(600));
    let guard = taken(&client.reentrant_lock(ground.name("L")));
    // Renewed each 200 ms, it should never come below 400.
    let lowest = lowest_ttl(&ground.server(), &guard, secs(3));
    assert!(lowest > 100, "{lowest} ms");
    guard.verify().expect("there");
    guard.unlock().expect("held");
    assert_eq!(told.lost(), []);
}

#[test]
fn a_lease_is_not_renewed() {
    let ground = Ground::new();
    let (client, told) = watching(&ground, millis(300));
    let lock = client.reentrant_lock(ground.name("L"));
    // Beside one that is, so that the watchdog is at work.
    let renewed = taken(&client.reentrant_lock(ground.name("M")));
    let guard = leased(&lock, millis(900));
    runs_out(&ground.server(), lock.name());
    assert_eq!(guard.lost().wait(BOUND), Ended::Lost(LostReason::Expired));
    assert!(!guard.is_held());
    eventually(BOUND, "the event", || told.lost().len() == 1);
    assert!(renewed.is_held());
    is_not_held(guard.unlock());
    renewed.unlock().expect("held");
}

#[test]
fn nested_guards_are_renewed_while_one_has_no_lease() {
    let ground = Ground::new();
    let server = ground.server();
    let (client, told) = watching(&ground, millis(600));
    for unleased_first in [true, false] {
        let lock = client.reentrant_lock(ground.name("L"));
        let (kept, unleased) = if unleased_first {
            let unleased = taken(&lock);
            (leased(&lock, millis(500)), unleased)
        } else {
            let kept = leased(&lock, millis(500));
            (kept, taken(&lock))
        };
        let lowest = lowest_ttl(&server, &kept, millis(1500));
        assert!(lowest > 100, "{lowest} ms");
        let before = pttl(&mut server.connection(), lock.name());
        unleased.unlock().expect("held");
        let after = pttl(&mut server.connection(), lock.name());
        assert!(after > before - 300, "from {before} ms to {after} ms");
        assert_eq!(client.state().renewals, 0);
        assert!(kept.is_held());
        runs_out(&server, lock.name());
        assert_eq!(kept.lost().wait(BOUND), Ended::Lost(LostReason::Expired));
        is_not_held(kept.unlock());
    }
    assert_eq!(told.lost().len(), 2);
}

#[test]
fn a_longer_time_is_not_shortened() {
    let ground = Ground::new();
    let server = ground.server();
    let mut spy = server.connection();
    let (client, _) = watching(&ground, millis(300));

    let extended = taken(&client.reentrant_lock(ground.name("extended")));
    extended.extend(secs(60)).expect("held");
    pass_renewals(&server, 5);
    assert!(pttl(&mut spy, extended.name()) > 50_000);
    assert!(extended.remaining() > secs(50));
    extended.unlock().expect("held");

    let by_hand = taken(&client.reentrant_lock(ground.name("by-hand")));
    server.cli(&["PEXPIRE", by_hand.name(), "60000"]);
    pass_renewals(&server, 5);
    assert!(pttl(&mut spy, by_hand.name()) > 50_000);
    by_hand.unlock().expect("held");

    // Without any TTL it would stay for ever if this process died.
    let persisted = taken(&client.reentrant_lock(ground.name("persisted")));
    server.cli(&["PERSIST", persisted.name()]);
    eventually(BOUND, "it has a TTL again", || {
        pttl(&mut spy, persisted.name()) > 0
    });
    persisted.unlock().expect("held");
}

/// `RedissonLockExpirationRenewalTest.testLockReentrantRenew`
#[test]
fn test_lock_reentrant_renew() {
    let ground = Ground::new();
    let (client, told) = watching(&ground, millis(300));
    let lock = client.reentrant_lock(ground.name("L"));
    thread::scope(|scope| {
        scope.spawn(|| {
            let (outer, inner) = (taken(&lock), taken(&lock));
            inner.unlock().expect("held");
            outer.unlock().expect("held");
        });
    });
    let guard = taken(&lock);
    lowest_ttl(&ground.server(), &guard, 10 * millis(300));
    guard.unlock().expect("held");
    assert_eq!(told.lost(), []);
}

/// `RedissonLockExpirationRenewalTest.testLockAfterTimeout`
#[test]
fn test_lock_after_timeout() {
    let ground = Ground::new();
    let server = ground.server();
    let (client, told) = watching(&ground, millis(900));
    let lock = client.reentrant_lock(ground.name("L"));
    for round in 1..=2 {
        let guard = taken(&lock);
        server.restart();
        assert_eq!(
            guard.lost().wait(BOUND),
            Ended::Lost(LostReason::Gone),
            "round {round}"
        );
        guard.unlock().expect_err("gone");
        let guard = taken(&lock);
        lowest_ttl(&server, &guard, millis(1400));
        guard.unlock().expect("held");
        assert_eq!(told.lost().len(), round);
    }
}

#[test]
fn renewals_do_not_multiply() {
    let ground = Ground::alone();
    let server = ground.server();
    let (client, _) = watching(&ground, millis(300));
    let lock = client.reentrant_lock(ground.name("L"));
    for _ in 0..50 {
        let (outer, inner) = (taken(&lock), taken(&lock));
        inner.unlock().expect("held");
        outer.unlock().expect("held");
    }
    let (guard, nested) = (taken(&lock), taken(&lock));
    let (before, start) = (server.script_calls(), Instant::now());
    lowest_ttl(&server, &guard, secs(2));
    let renewals = server.script_calls() - before;
    let ticks = u64::try_from(start.elapsed().as_millis() / 100).expect("few");
    assert!(renewals <= ticks + 3, "{renewals} in {ticks} ticks");
    assert!(renewals >= ticks / 3, "{renewals} in {ticks} ticks");
    nested.unlock().expect("held");
    guard.unlock().expect("held");

    // And none at all for what is released.
    let before = server.script_calls();
    thread::sleep(5 * millis(100));
    assert_eq!(server.script_calls(), before);
}
