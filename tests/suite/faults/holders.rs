//! Processes that hold a lock and are killed, or stopped past their time.

use std::time::{Duration, Instant};

use super::{
    Scene, faults,
    scene::{BOUND, SLACK, enter, refused},
};
use crate::{
    interop::processes::rust_peer,
    support::{Answer, Peer, eventually},
};

faults! {
    alone holder_killed;
    alone holder_stopped_past_its_time;
    alone holder_stopped_for_less_than_its_time;
}

fn holder_killed(scene: &Scene<'_>) {
    let peer = holding(scene);
    let other = scene.other_client();
    let rival = scene.rival(&other);
    refused(&rival);
    // Killed after a renewal: then the hold was alive for longer than it began with.
    let mut last = scene.ttl();
    eventually(BOUND, "the hold is renewed", || {
        // By itself a TTL only falls.
        let before = std::mem::replace(&mut last, scene.ttl());
        last > before
    });
    let pid = peer.pid();
    peer.kill();
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    let (killed, left) = (Instant::now(), scene.ttl());
    assert!(left > 0, "nobody released it");
    refused(&rival);

    let (guard, entered) = enter(&rival, BOUND);
    let waited = entered - killed;
    assert!(waited < Duration::from_millis(left as u64) + SLACK);
    assert!(scene.expired() > 0, "it ended by its time");
    println!("entered after {waited:?} of {left} ms");
    scene.assert_held(guard.holder(), 1);
    guard.unlock().expect("held");
    scene.assert_free();
}

fn holder_stopped_past_its_time(scene: &Scene<'_>) {
    let peer = holding(scene);
    let holder = ask(scene, &peer, "holder");
    assert_eq!(ask(scene, &peer, "guardHeld"), "true");
    scene.assert_held(&holder, 1);
    peer.freeze();

    let other = scene.other_client();
    let (next, _) = enter(&scene.rival(&other), WATCHDOG + SLACK);
    // Nothing that the peer asks from here on arrives, so that it cannot know from anybody.
    scene.proxy.black_hole(true);
    let asked = scene.server.script_calls();
    peer.thaw();
    assert_eq!(ask(scene, &peer, "guardHeld"), "false");
    assert_eq!(ask(scene, &peer, "remaining"), "0");
    assert_eq!(ask_with(scene, &peer, "awaitLost", "0"), "true");
    assert_eq!(scene.server.script_calls(), asked, "nothing arrived");

    scene.proxy.black_hole(false);
    let refusal = call(scene, &peer, "verify").expect_err("its time is over");
    assert_eq!(refusal.kind, "Lost", "{refusal}");
    let refusal = call(scene, &peer, "unlock").expect_err("another has it");
    assert_eq!(refusal.kind, "NotHeld", "{refusal}");
    assert!(scene.server.script_calls() > asked, "it did ask");
    scene.assert_held(next.holder(), 1);
    next.verify().expect("held");
    next.unlock().expect("held");
    scene.assert_free();
}

/// Its watchdog had no time to run, and has it again before it is too late.
fn holder_stopped_for_less_than_its_time(scene: &Scene<'_>) {
    let peer = holding_for(scene, 3 * WATCHDOG);
    let holder = ask(scene, &peer, "holder");
    for _ in 0..2 {
        peer.freeze();
        // It is renewed when two thirds are left.
        let overdue = (3 * WATCHDOG / 2).as_millis() as i64;
        eventually(BOUND, "its renewal is overdue", || scene.ttl() < overdue);
        peer.thaw();
        let mut last = scene.ttl();
        eventually(BOUND, "it is renewed", || {
            let before = std::mem::replace(&mut last, scene.ttl());
            last > before
        });
        scene.assert_held(&holder, 1);
        assert_eq!(ask(scene, &peer, "guardHeld"), "true");
    }
    ask(scene, &peer, "verify");
    ask(scene, &peer, "unlock");
    scene.assert_free();
}

/// A peer behind the proxy that holds the lock, renewed by its watchdog.
fn holding(scene: &Scene<'_>) -> Peer {
    holding_for(scene, WATCHDOG)
}

fn holding_for(scene: &Scene<'_>, watchdog: Duration) -> Peer {
    let peer = rust_peer();
    let made = peer.call(&format!(
        "client A single {} {} timeout={}",
        scene.proxy.url(),
        watchdog.as_millis(),
        watchdog.as_millis(),
    ));
    made.expect("a client");
    assert_eq!(ask(scene, &peer, "tryLock"), "true");
    peer
}

#[track_caller]
fn ask(scene: &Scene<'_>, peer: &Peer, op: &str) -> String {
    call(scene, peer, op).expect(op)
}

#[track_caller]
fn ask_with(scene: &Scene<'_>, peer: &Peer, op: &str, argument: &str) -> String {
    peer.call(&format!("{} {argument}", line(scene, op)))
        .expect(op)
}

#[track_caller]
fn call(scene: &Scene<'_>, peer: &Peer, op: &str) -> Answer {
    peer.call(&line(scene, op))
}

fn line(scene: &Scene<'_>, op: &str) -> String {
    format!("A t1 {op} {} {}", scene.kind.peer_type, scene.name)
}

const WATCHDOG: Duration = Duration::from_millis(900);
