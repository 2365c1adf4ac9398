//! `max_hold`, and guards that nobody drops.

use std::{
    mem::ManuallyDrop,
    time::{Duration, Instant},
};

use lockson::{Ended, LockGuard, LostReason, ReentrantLock};

use super::{BOUND, is_not_held, lowest_ttl, millis, pttl, runs_out, taken, watching};
use crate::support::{Ground, Proxy, connect_to, eventually};

#[test]
fn max_hold_is_the_end_of_renewals() {
    let ground = Ground::alone();
    let server = ground.server();
    let (client, told) = watching(&ground, millis(600));
    let lock = client.reentrant_lock(ground.name("L"));
    let asked = Instant::now();
    let guard = at_most(&lock, millis(1500));
    lowest_ttl(&server, &guard, millis(1200));
    assert_eq!(guard.lost().wait(BOUND), Ended::Lost(LostReason::Expired));
    let held = asked.elapsed();
    assert!(held >= millis(1400), "{held:?}");
    assert!(held < millis(1500) + SLACK, "{held:?}");
    runs_out(&server, lock.name());
    let lived = asked.elapsed();
    assert!(lived < millis(1500) + SLACK, "{lived:?}");
    assert!(!guard.is_held());
    let holder = guard.holder().to_owned();
    eventually(BOUND, "the event", || !told.lost().is_empty());
    assert_eq!(
        told.lost(),
        [(lock.name().to_owned(), holder, LostReason::Expired)]
    );
    is_not_held(guard.unlock());
}

#[test]
fn max_hold_shorter_than_the_timeout_is_not_lengthened() {
    let ground = Ground::new();
    let server = ground.server();
    let (client, _) = watching(&ground, millis(900));
    let lock = client.reentrant_lock(ground.name("L"));
    let guard = at_most(&lock, millis(700));
    assert!(pttl(&mut server.connection(), lock.name()) <= 700);
    runs_out(&server, lock.name());
    assert_eq!(guard.lost().wait(BOUND), Ended::Lost(LostReason::Expired));
}

#[test]
fn a_nested_guard_without_bound_keeps_the_hold_past_max_hold() {
    let ground = Ground::new();
    let server = ground.server();
    let (client, _) = watching(&ground, millis(600));
    let lock = client.reentrant_lock(ground.name("L"));
    let bounded = at_most(&lock, millis(700));
    let unbounded = taken(&lock);
    lowest_ttl(&server, &bounded, millis(1500));
    unbounded.unlock().expect("held");
    runs_out(&server, lock.name());
    assert_eq!(bounded.lost().wait(BOUND), Ended::Lost(LostReason::Expired));
}

/// A renewal that had to open its connection first, which took its time.
#[test]
fn max_hold_ends_in_time_after_a_slow_reconnection() {
    let ground = Ground::alone();
    let server = ground.server();
    let proxy = Proxy::to(server.addr());
    let client = connect_to(&ground, &proxy.url(), |builder| {
        builder.lock_watchdog_timeout(millis(3000))
    });
    let lock = client.reentrant_lock(ground.name("L"));
    let asked = Instant::now();
    let guard = at_most(&lock, millis(2000));
    // So that the server knows the script.
    guard.extend(millis(1)).expect("held");
    // The first renewal, after a second, opens the watchdog's connection: three late answers.
    proxy.delay(millis(150));
    eventually(BOUND, "the greeting was late", || proxy.delayed() >= 4);
    proxy.delay(Duration::ZERO);
    assert_eq!(guard.lost().wait(BOUND), Ended::Lost(LostReason::Expired));
    let held = asked.elapsed();
    assert!(held < millis(2000) + SLACK, "{held:?}");
    runs_out(&server, lock.name());
    let lived = asked.elapsed();
    assert!(lived < millis(2000) + SLACK, "{lived:?}");
}

/// As `mem::forget` does it, but for the memory.
#[test]
fn a_forgotten_guard_is_renewed_until_its_max_hold() {
    let ground = Ground::new();
    let server = ground.server();
    let (client, told) = watching(&ground, millis(600));
    let lock = client.reentrant_lock(ground.name("L"));
    let forgotten = ManuallyDrop::new(at_most(&lock, millis(1200)));
    drop(lock);
    lowest_ttl(&server, &forgotten, millis(900));
    runs_out(&server, forgotten.name());
    eventually(BOUND, "the event", || told.lost().len() == 1);
    assert_eq!(client.state().holds, 0);
    client.shutdown();
    drop(ManuallyDrop::into_inner(forgotten));
}

/// As `mem::forget` does it, but for the memory.
#[test]
fn a_forgotten_guard_is_renewed_until_shutdown() {
    let ground = Ground::new();
    let server = ground.server();
    let (client, _) = watching(&ground, millis(600));
    let forgotten = ManuallyDrop::new(taken(&client.reentrant_lock(ground.name("L"))));
    lowest_ttl(&server, &forgotten, millis(1500));
    client.shutdown();
    assert!(!forgotten.is_held());
    runs_out(&server, forgotten.name());
    drop(ManuallyDrop::into_inner(forgotten));
}

#[track_caller]
fn at_most(lock: &ReentrantLock, most: Duration) -> LockGuard {
    let options = lock.options().wait(Duration::ZERO).max_hold(most);
    options.acquire().expect("answered").expect("free")
}

const SLACK: Duration = millis(300);
