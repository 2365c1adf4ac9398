//! Others that take a hold away: by its key, with everything, by force.

use std::time::Duration;

use lockson::{Ended, ErrorKind, LostReason};

use super::{
    Scene, faults,
    scene::{BOUND, Losses, taken},
};
use crate::support::eventually;

faults! {
    new keys_deleted_while_held;
    new all_deleted_while_held;
    new evicted_while_held;
    new key_replaced_while_held;
    new unlocked_by_force_while_held;
}

fn keys_deleted_while_held(scene: &Scene<'_>) {
    meet(scene, |scene| {
        for key in scene.keys() {
            scene.server.cli(&["DEL", &key]);
        }
        scene.assert_free();
    });
}

fn all_deleted_while_held(scene: &Scene<'_>) {
    meet(scene, |scene| {
        scene.server.cli(&["FLUSHALL"]);
        scene.assert_free();
    });
}

/// By a server that makes room by whatever it has, which is no place for locks.
fn evicted_while_held(scene: &Scene<'_>) {
    meet(scene, |scene| {
        let set = |name, value| scene.server.cli(&["CONFIG", "SET", name, value]);
        set("maxmemory-policy", "allkeys-lru");
        set("maxmemory", "1");
        eventually(BOUND, "room is made", || scene.keys().is_empty());
        assert!(scene.count("stats", "evicted_keys:") > 0);
        set("maxmemory", "0");
        scene.assert_free();
    });
}

fn key_replaced_while_held(scene: &Scene<'_>) {
    meet(scene, |scene| {
        for key in scene.keys() {
            scene.server.cli(&["DEL", &key]);
        }
        let other = scene.other_client();
        let next = scene.rival(&other).try_lock_with_lease(BOUND);
        let next = next.expect("an answer").expect("free");
        // Then its guard does not release it.
        other.shutdown();
        drop(next);
        assert_eq!(scene.holders().len(), 1);
    });
    assert_eq!(scene.holders().len(), 1, "that of another is untouched");
    for key in scene.keys() {
        scene.server.cli(&["DEL", &key]);
    }
}

fn unlocked_by_force_while_held(scene: &Scene<'_>) {
    let Some(_) = scene.kind.force_unlock else {
        return;
    };
    meet(scene, |scene| {
        let force = scene.kind.force_unlock.expect("looked at before");
        let other = scene.other_client();
        assert!(force(&other, &scene.name).expect("an answer"));
        assert_eq!(scene.holders(), []);
    });
    // What a reader had beside its field went with its guards.
    scene.assert_free();
}

/// The holder is told when it renews the next time, and again by its unlock; nothing comes back.
#[track_caller]
fn meet(scene: &Scene<'_>, meddle: fn(&Scene<'_>)) {
    let losses = Losses::default();
    let client = scene.client_with(WATCHDOG, |settings| settings.on_event(losses.listen()));
    let lock = scene.lock(&client);
    let [outer, inner] = [taken(&lock), taken(&lock)];
    scene.assert_held(outer.holder(), 2);
    let renewals = client.state().renewals;
    assert_eq!(renewals, 1);
    meddle(scene);
    let left = scene.holders();
    for guard in [&outer, &inner] {
        let ended = guard.lost().wait(BOUND);
        assert_eq!(ended, Ended::Lost(LostReason::Gone));
        assert!(!guard.is_held());
    }
    assert_eq!(losses.of(outer.holder()).0, LostReason::Gone);
    assert_eq!(client.state().holds, 0);
    for guard in [inner, outer] {
        let error = guard.unlock().expect_err("it is gone");
        assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
    }
    assert_eq!(scene.holders(), left);
}

const WATCHDOG: Duration = Duration::from_millis(1500);
