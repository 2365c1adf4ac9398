//! Servers that are killed and started again, with and without what they knew; scripts forgotten.

use std::time::{Duration, Instant};

use lockson::{Client, Ended, ErrorKind, LostReason};

use super::{
    Scene, faults,
    replies::{end_of, outlives},
    scene::{BOUND, LONG, Losses, refused, taken},
};

faults! {
    alone restart_without_persistence;
    alone restart_with_persistence;
    new scripts_forgotten_between_calls;
    alone scripts_forgotten_while_renewing;
}

/// As Redisson's `RedissonLockExpirationRenewalTest.testLockAfterTimeout`: what was lost is told,
/// and the next hold is renewed like the first.
fn restart_without_persistence(scene: &Scene<'_>) {
    let losses = Losses::default();
    let client = patient(scene, WATCHDOG, &losses);
    let lock = scene.lock(&client);
    for _ in 0..3 {
        let guard = taken(&lock);
        let pid = scene.server.pid();
        scene.server.restart();
        assert_ne!(scene.server.pid(), pid);
        scene.assert_free();
        let (ended, end) = (guard.lost().wait(BOUND), end_of(&guard));
        assert_eq!(ended, Ended::Lost(LostReason::Gone));
        assert!(end <= Instant::now(), "nothing remains");
        assert_eq!(losses.of(guard.holder()).0, LostReason::Gone);
        let error = guard.unlock().expect_err("the server has forgotten it");
        assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
        assert_eq!(client.state().holds, 0);

        let next = taken(&lock);
        outlives(scene, &next, end_of(&next));
        next.unlock().expect("held");
        scene.assert_free();
    }
}

fn restart_with_persistence(scene: &Scene<'_>) {
    let server = scene.ground.server_with(|options| options.aof());
    let scene = scene.moved_to(server);
    let losses = Losses::default();
    let client = patient(&scene, 3 * WATCHDOG, &losses);
    let guard = taken(&scene.lock(&client));
    let end = end_of(&guard);
    let pid = scene.server.pid();
    scene.server.restart();
    assert_ne!(scene.server.pid(), pid);
    assert!(guard.is_held(), "not lost before its time");
    scene.assert_held(guard.holder(), 1);
    outlives(&scene, &guard, end);
    guard.verify().expect("held");
    guard.unlock().expect("held");
    scene.assert_free();
    assert!(losses.is_empty());
}

fn scripts_forgotten_between_calls(scene: &Scene<'_>) {
    let client = scene.client();
    let lock = scene.lock(&client);
    let other = scene.other_client();
    let rival = scene.rival(&other);
    forget(scene);
    let outer = taken(&lock);
    forget(scene);
    refused(&rival);
    forget(scene);
    refused(&rival);
    forget(scene);
    let inner = taken(&lock);
    scene.assert_held(outer.holder(), 2);
    forget(scene);
    inner.unlock().expect("held");
    scene.assert_held(outer.holder(), 1);
    forget(scene);
    outer.extend(LONG).expect("held");
    let messages = scene.messages();
    forget(scene);
    outer.unlock().expect("held");
    scene.assert_free();
    assert_eq!(scene.messages() - messages, scene.kind.messages);
    // The first was to look at the server only.
    let given_up = scene.proxy.accepted() - 1 - scene.proxy.open();
    assert_eq!(given_up, 0, "no connection was given up");
}

fn scripts_forgotten_while_renewing(scene: &Scene<'_>) {
    let losses = Losses::default();
    let client = patient(scene, WATCHDOG, &losses);
    let guard = taken(&scene.lock(&client));
    for _ in 0..3 {
        forget(scene);
        let end = end_of(&guard);
        outlives(scene, &guard, end);
    }
    forget(scene);
    guard.unlock().expect("held");
    scene.assert_free();
    assert!(losses.is_empty());
}

/// Forgets all scripts, and shows that the next call meets a server that does not know them.
fn forget(scene: &Scene<'_>) {
    // In one step: a watchdog may bring one back at once.
    let ((), memory): ((), String) = redis::pipe()
        .atomic()
        .cmd("SCRIPT")
        .arg("FLUSH")
        .cmd("INFO")
        .arg("memory")
        .query(&mut scene.server.connection())
        .expect("MULTI");
    let cached = memory
        .lines()
        .find_map(|line| line.strip_prefix("number_of_cached_scripts:"));
    assert_eq!(cached, Some("0"));
}

/// A client of the server itself, whose answers may take their time while others start programs.
fn patient(scene: &Scene<'_>, watchdog: Duration, losses: &Losses) -> Client {
    let settings = |settings: lockson::ClientBuilder| settings.on_event(losses.listen());
    scene.client_at(&scene.server.url(), watchdog, settings)
}

const WATCHDOG: Duration = Duration::from_millis(900);
