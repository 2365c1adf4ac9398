//! What a program does to its own holds: it lets them run out, panics, forgets them, or is slow.

use std::{
    mem::ManuallyDrop,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    thread,
    time::Duration,
};

use lockson::{AnyGuard, Ended, ErrorKind, LostReason};
use redis::Commands;

use super::{
    Scene, faults,
    replies::{end_of, outlives},
    scene::{BOUND, LONG, Losses, SLACK, refused, taken},
};
use crate::support::eventually;

faults! {
    alone lease_over_while_held;
    new leases_that_are_none;
    new panic_while_held;
    alone forgotten_by_a_thread_that_ends;
    new one_bad_key_among_many_renewed;
    new shutdown_and_the_last_guard;
}

/// The guard knows by its own clock, is told, and its release touches nobody.
fn lease_over_while_held(scene: &Scene<'_>) {
    let losses = Losses::default();
    let client = scene.client_with(LONG, |settings| settings.on_event(losses.listen()));
    let other = scene.other_client();
    let guard = scene.lock(&client).try_lock_with_lease(LEASE);
    let guard = guard.expect("an answer").expect("free");
    assert_eq!(guard.lost().wait(BOUND), Ended::Lost(LostReason::Expired));
    assert!(!guard.is_held());
    assert_eq!(losses.of(guard.holder()).0, LostReason::Expired);
    eventually(BOUND, "the key ended", || scene.holders().is_empty());
    assert!(scene.expired() > 0, "by its time");
    let next = taken(&scene.rival(&other));
    let error = guard.unlock().expect_err("its time is over");
    assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
    scene.assert_held(next.holder(), 1);
    next.unlock().expect("held");
    scene.assert_free();
}

/// Too short, too long, or hardly there: refused, or rounded up. Nothing stays for ever.
fn leases_that_are_none(scene: &Scene<'_>) {
    let client = scene.client();
    let lock = scene.lock(&client);
    let asked = scene.server.script_calls();
    for lease in [
        Duration::ZERO,
        TEN_YEARS + Duration::from_millis(1),
        Duration::from_millis(i64::MAX as u64),
        Duration::MAX,
    ] {
        let error = lock.try_lock_with_lease(lease).expect_err("no lease");
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        let error = lock.lock_with_lease(lease).expect_err("no lease");
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    }
    assert_eq!(scene.server.script_calls(), asked, "nothing was sent");
    scene.assert_free();
    for lease in [Duration::from_nanos(1), Duration::from_micros(500)] {
        // Of a RedLock nothing is left after what clocks may drift, so that it is not to be had.
        let guard = lock.try_lock_with_lease(lease).expect("an answer");
        assert_eq!(guard.is_none(), scene.kind.name == "red", "{lease:?}");
        eventually(BOUND, "it ends", || scene.keys().is_empty());
        assert!(guard.is_none_or(|guard| !guard.is_held()));
    }
    let guard = lock.try_lock_with_lease(TEN_YEARS).expect("an answer");
    let guard = guard.expect("free");
    assert!(scene.ttl() > 9 * (TEN_YEARS.as_millis() / 10) as i64);
    guard.unlock().expect("held");
    scene.assert_free();
}

/// Two guards, one inside the other, go while a panic unwinds.
fn panic_while_held(scene: &Scene<'_>) {
    let client = scene.client();
    let lock = scene.lock(&client);
    let messages = scene.messages();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let outer = taken(&lock);
        let _inner = taken(&lock);
        scene.assert_held(outer.holder(), 2);
        // Without the noise of a panic that is not expected.
        resume_unwind(Box::new("on purpose"));
    }));
    assert!(unwound.is_err());
    scene.assert_free();
    assert_eq!(scene.messages() - messages, scene.kind.messages);
    assert_eq!(client.state().holds, 0);
    taken(&lock).unlock().expect("held");
}

/// It is renewed, and kept from all others, until its longest time; then nobody is needed to end it.
fn forgotten_by_a_thread_that_ends(scene: &Scene<'_>) {
    let losses = Losses::default();
    let client = scene.client_with(RENEWED, |settings| settings.on_event(losses.listen()));
    let other = scene.other_client();
    let rival = scene.rival(&other);
    let lock = scene.lock(&client);
    thread::scope(|scope| {
        scope.spawn(|| {
            let guard = lock
                .options()
                .wait(Duration::ZERO)
                .max_hold(2 * RENEWED)
                .acquire();
            // As `mem::forget` does it.
            let _ = ManuallyDrop::new(guard.expect("an answer").expect("free"));
        });
    });
    let holders = scene.holders();
    let [(holder, 1)] = &holders[..] else {
        panic!("one holder: {holders:?}");
    };
    refused(&rival);
    let mut last = scene.ttl();
    eventually(BOUND, "it is renewed", || {
        // By itself a TTL only falls.
        let before = std::mem::replace(&mut last, scene.ttl());
        last > before
    });
    refused(&rival);
    scene.eventually_free(2 * RENEWED + SLACK);
    assert_eq!(losses.of(holder).0, LostReason::Expired);
    assert_eq!(client.state().holds, 0);
    taken(&rival).unlock().expect("held");
    // Nothing else ends a client of which a guard was forgotten.
    client.shutdown();
}

/// What became of its key is told, and costs the others nothing.
fn one_bad_key_among_many_renewed(scene: &Scene<'_>) {
    let losses = Losses::default();
    let client = scene.client_with(RENEWED, |settings| settings.on_event(losses.listen()));
    let scenes: Vec<Scene<'_>> = (0..40).map(|_| scene.renamed()).collect();
    let mut guards: Vec<AnyGuard> = scenes.iter().map(|one| taken(&one.lock(&client))).collect();
    let bad = guards.remove(20);
    let () = scene
        .server
        .connection()
        .set(bad.name(), "something else")
        .expect("SET");
    assert_eq!(bad.lost().wait(BOUND), Ended::Lost(LostReason::Gone));
    assert_eq!(losses.of(bad.holder()).0, LostReason::Gone);
    let ends: Vec<_> = guards.iter().map(end_of).collect();
    for (guard, end) in guards.iter().zip(ends) {
        let end = end + Duration::from_millis(100);
        eventually(BOUND, "each is renewed", || {
            !guard.is_held() || end_of(guard) > end
        });
        assert!(guard.is_held());
    }
    let error = bad.unlock().expect_err("no lock any more");
    assert_eq!(error.kind(), ErrorKind::WrongType, "{error}");
    for guard in guards {
        guard.unlock().expect("held");
    }
    let left = scenes.iter().filter(|one| !one.keys().is_empty());
    assert_eq!(left.count(), 1, "what somebody else wrote is left alone");
    // And a slot, of which nobody can tell any more whose it is.
    for key in scenes[20].keys() {
        scene.server.cli(&["DEL", &key]);
    }
}

/// Renewed to the last, and nothing after.
fn shutdown_and_the_last_guard(scene: &Scene<'_>) {
    let client = scene.client_with(RENEWED, |settings| settings);
    let lock = scene.lock(&client);
    let guard = taken(&lock);
    outlives(scene, &guard, end_of(&guard));
    let lost = guard.lost();
    client.shutdown();
    assert_eq!(lost.wait(BOUND), Ended::Lost(LostReason::Closed));
    assert!(!guard.is_held());
    let error = lock.try_lock().expect_err("closed");
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    drop(guard);
    assert_eq!(scene.holders().len(), 1, "left to its time");
    scene.eventually_free(RENEWED + SLACK);
}

const LEASE: Duration = Duration::from_millis(400);
const RENEWED: Duration = Duration::from_millis(1500);
const TEN_YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
