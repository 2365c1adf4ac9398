//! Servers that are killed and started again, with and without what they knew; scripts forgotten.

use std::{
    mem::ManuallyDrop,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use lockson::{Client, Ended, ErrorKind, LostReason};

use super::{
    Scene, faults,
    replies::{end_of, outlives},
    scene::{BOUND, LONG, Losses, refused, taken},
};
use crate::support::eventually;

faults! {
    alone restart_without_persistence;
    alone restart_with_persistence;
    alone restart_without_persistence_while_a_hundred_wait;
    alone restart_with_persistence_while_a_hundred_wait;
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

fn restart_without_persistence_while_a_hundred_wait(scene: &Scene<'_>) {
    restart_while_a_hundred_wait(scene);
}

fn restart_with_persistence_while_a_hundred_wait(scene: &Scene<'_>) {
    let server = scene.ground.server_with(|options| options.aof());
    restart_while_a_hundred_wait(&scene.moved_to(server));
}

/// All get in, one after the other, whether the server has forgotten the lock or has to wait for the
/// end of its time.
fn restart_while_a_hundred_wait(scene: &Scene<'_>) {
    let client = patient(scene, LONG, &Losses::default());
    let lock = scene.lock(&client);
    // Nobody releases it.
    let other = scene.other_client();
    let dead = scene.teller(&other).try_lock_owned_with_lease(DEAD);
    let dead = ManuallyDrop::new(dead.expect("an answer").expect("free"));
    let shared = scene.kind.name == "read";
    let inside = AtomicUsize::new(0);
    let ended = thread::scope(|threads| {
        let enter = || {
            let guard = lock.try_lock_for(LONG).expect("an answer");
            let guard = guard.expect("in time");
            let others = inside.fetch_add(1, Ordering::SeqCst);
            assert!(shared || others == 0, "{others} others are inside");
            assert!(guard.is_held());
            inside.fetch_sub(1, Ordering::SeqCst);
            guard.unlock().expect("held");
        };
        let crowd: Vec<_> = (0..100).map(|_| threads.spawn(enter)).collect();
        eventually(BOUND, "they wait", || {
            // Those of a RedLock stand in no line.
            let waiting = client.state().waiters == 100 || scene.kind.name == "red";
            waiting && !scene.channels().is_empty()
        });
        let pid = scene.server.pid();
        scene.server.restart();
        assert_ne!(scene.server.pid(), pid);
        let back = Instant::now();
        for one in crowd {
            one.join().expect("ends well");
        }
        back.elapsed()
    });
    println!("{}: a hundred in after {ended:?}", scene.kind.name);
    assert!(ended < DEAD + BOUND, "{ended:?}");
    scene.eventually_free(BOUND);
    other.shutdown();
    drop(ManuallyDrop::into_inner(dead));
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
pub(super) fn forget(scene: &Scene<'_>) {
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
/// How long somebody holds who will not release.
const DEAD: Duration = Duration::from_secs(2);
