//! Replies that are lost: the server has done it, and nobody was told.

use std::time::{Duration, Instant};

use lockson::AnyGuard;

use super::{
    Scene, faults,
    scene::{BOUND, taken},
};
use crate::support::eventually;

faults! {
    new lost_reply_of_an_acquire;
    new lost_reply_of_an_owned_acquire;
    new lost_reply_of_a_re_entry;
    new lost_reply_of_a_release;
    new lost_reply_of_a_partial_release;
    alone lost_replies_of_renewals;
}

fn lost_reply_of_an_acquire(scene: &Scene<'_>) {
    let client = scene.client();
    scene.proxy.swallow_replies(scene.calls(), 1);
    let guard = taken(&scene.lock(&client));
    assert_eq!(scene.proxy.swallowed(), 1);
    scene.assert_held(guard.holder(), 1);
    assert!(guard.is_held());
    guard.unlock().expect("released");
    scene.assert_free();
}

fn lost_reply_of_an_owned_acquire(scene: &Scene<'_>) {
    let client = scene.client();
    scene.proxy.swallow_replies(scene.calls(), 1);
    let lock = scene.lock(&client);
    let guard = lock.try_lock_owned().expect("an answer").expect("free");
    assert_eq!(scene.proxy.swallowed(), 1);
    scene.assert_held(guard.holder(), 1);
    let holder = guard.holder().to_owned();
    let released = std::thread::spawn(move || guard.unlock());
    released.join().expect("no panic").expect("released");
    scene.assert_free();

    // The next one is another hold.
    let guard = lock.try_lock_owned().expect("an answer").expect("free");
    assert_ne!(guard.holder(), holder);
    scene.assert_held(guard.holder(), 1);
}

fn lost_reply_of_a_re_entry(scene: &Scene<'_>) {
    let client = scene.client();
    let lock = scene.lock(&client);
    let outer = taken(&lock);
    scene.proxy.swallow_replies(scene.calls(), 1);
    let inner = taken(&lock);
    assert_eq!(scene.proxy.swallowed(), 1);
    assert_eq!(inner.holder(), outer.holder());
    scene.assert_held(outer.holder(), 2);
    inner.unlock().expect("released");
    scene.assert_held(outer.holder(), 1);
    outer.unlock().expect("released");
    scene.assert_free();
}

fn lost_reply_of_a_release(scene: &Scene<'_>) {
    let client = scene.client();
    let guard = taken(&scene.lock(&client));
    let messages = scene.messages();
    scene.proxy.swallow_replies(scene.calls(), 1);
    guard.unlock().expect("released");
    assert_eq!(scene.proxy.swallowed(), 1);
    scene.assert_free();
    assert_eq!(scene.messages() - messages, scene.kind.messages);
}

fn lost_reply_of_a_partial_release(scene: &Scene<'_>) {
    let client = scene.client();
    let lock = scene.lock(&client);
    let [outer, middle, inner] = [taken(&lock), taken(&lock), taken(&lock)];
    let messages = scene.messages();
    scene.proxy.swallow_replies(scene.calls(), 1);
    inner.unlock().expect("released");
    assert_eq!(scene.proxy.swallowed(), 1);
    scene.assert_held(outer.holder(), 2);
    scene.proxy.swallow_replies(scene.calls(), 1);
    middle.unlock().expect("released");
    assert_eq!(scene.proxy.swallowed(), 2);
    scene.assert_held(outer.holder(), 1);
    assert_eq!(scene.messages(), messages, "it is still held");
    outer.unlock().expect("released");
    scene.assert_free();
}

fn lost_replies_of_renewals(scene: &Scene<'_>) {
    let client = scene.client_with(RENEWED, |settings| settings.response_timeout(SHORT));
    let guard = taken(&scene.lock(&client));
    let end = end_of(&guard);
    scene.proxy.swallow_replies(scene.scripts(), 3);
    eventually(BOUND, "a renewal has run and is not known", || {
        let left = end.saturating_duration_since(Instant::now());
        scene.proxy.swallowed() > 0 && scene.ttl() as u128 > left.as_millis() + 100
    });
    outlives(scene, &guard, end);
    assert_eq!(scene.proxy.swallowed(), 3);
    guard.unlock().expect("held");
    scene.assert_free();
}

/// When the guard's time is over if nobody renews it.
pub(super) fn end_of(guard: &AnyGuard) -> Instant {
    Instant::now() + guard.remaining()
}

/// Waits until the hold is renewed past this, in Redis too.
#[track_caller]
pub(super) fn outlives(scene: &Scene<'_>, guard: &AnyGuard, end: Instant) {
    let end = end + Duration::from_millis(100);
    eventually(BOUND, "renewed or lost", || {
        !guard.is_held() || end_of(guard) > end
    });
    assert!(guard.is_held(), "it was renewed in time");
    assert!(!guard.lost().is_lost());
    scene.assert_held(guard.holder(), 1);
    let left = end.saturating_duration_since(Instant::now());
    assert!(scene.ttl() as u128 > left.as_millis());
}

/// Renewed after 800 ms; the failures that are ordered must fit into the rest.
pub(super) const RENEWED: Duration = Duration::from_millis(2400);
/// Three times this and the pauses between fit before the next regular renewal would be too late.
pub(super) const SHORT: Duration = Duration::from_millis(200);
