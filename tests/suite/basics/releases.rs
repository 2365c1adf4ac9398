//! Releases that cannot work: a guard is dropped, and the server is gone, silent or unwilling.

use std::{
    sync::mpsc::{self, Receiver},
    time::{Duration, Instant},
};

use lockson::{Client, ErrorKind, Event, LockGuard, LostReason};

use super::{SOON, millis, taken};
use crate::support::{Ground, connect_to, connect_with, eventually};

#[test]
fn the_server_is_gone() {
    let ground = Ground::alone();
    let (client, told) = listening(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let (outer, inner) = (taken(&lock), taken(&lock));
    ground.server().kill();
    for guard in [inner, outer] {
        drop_in_budget(guard);
        assert_release_failed(&told, lock.name(), &[ErrorKind::Connection]);
    }
    assert_eq!((client.state().holds, client.state().renewals), (0, 0));
}

#[test]
fn the_server_is_silent() {
    let ground = Ground::alone();
    let (client, told) = listening(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let guard = taken(&lock);
    ground.server().freeze();
    drop_in_budget(guard);
    ground.server().thaw();
    assert_release_failed(
        &told,
        lock.name(),
        &[ErrorKind::Timeout, ErrorKind::Connection],
    );
    eventually(SOON, "it is released in the background", || {
        !lock.is_locked().expect("answered")
    });
}

#[test]
fn unlock_tells_what_drop_can_only_log() {
    let ground = Ground::alone();
    let (client, told) = listening(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let guard = taken(&lock);
    ground.server().kill();
    let error = guard.unlock().expect_err("nobody answers");
    assert_eq!(error.kind(), ErrorKind::Connection);
    assert!(error.is_retryable() && !error.released());
    assert_eq!(error.name(), Some(lock.name()));
    client.shutdown();
    // Told once: what `unlock` returned is no event.
    assert!(
        told.try_iter()
            .all(|event| !matches!(event, Event::ReleaseFailed { .. }))
    );
}

#[test]
fn the_hold_is_gone() {
    let ground = Ground::new();
    let (client, told) = listening(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let guard = taken(&lock);
    ground.server().cli(&["DEL", lock.name()]);
    drop(guard);
    client.shutdown();
    // Lost, and nothing more: that what is gone cannot be released goes without saying.
    let told: Vec<Event> = told.try_iter().collect();
    assert!(
        matches!(&told[..], [Event::Lost { name, reason: LostReason::Gone, .. }] if **name == *lock.name()),
        "{told:?}"
    );
}

#[test]
fn the_message_is_forbidden() {
    let ground = Ground::new();
    let server = ground.server();
    server.cli(&[
        "ACL",
        "SETUSER",
        "mute",
        "on",
        ">pass",
        "~*",
        "+@all",
        "resetchannels",
    ]);
    let url = format!("redis://mute:pass@{}/", server.addr());
    let client = connect_to(&ground, &url, |plain| plain);
    let lock = client.reentrant_lock(ground.name("L"));
    let error = taken(&lock).unlock().expect_err("no right to publish");
    assert_eq!(error.kind(), ErrorKind::NoPermission);
    assert!(error.released());
    assert!(!lock.is_locked().expect("answered"));

    let guard = taken(&lock);
    let error = lock.force_unlock().expect_err("no right to publish");
    assert_eq!(error.kind(), ErrorKind::NoPermission);
    assert!(error.released() && !guard.is_held());
    assert!(!lock.is_locked().expect("answered"));
    drop(guard);
}

#[test]
fn after_a_shutdown_guards_do_nothing() {
    let ground = Ground::new();
    ground.expect_keys_left();
    let (client, _told) = listening(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let guard = taken(&lock);
    let lost = guard.lost();
    client.shutdown();
    client.shutdown();
    assert!(!guard.is_held());
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert_eq!(lost.reason(), Some(lockson::LostReason::Closed));
    assert_eq!(
        guard.verify().expect_err("closed").kind(),
        ErrorKind::Closed
    );
    drop(guard);
    let left = ground.server().cli(&["EXISTS", lock.name()]);
    assert_eq!(left, redis::Value::Int(1), "its TTL ends it");
}

/// A client that answers soon, and what its handler hears.
fn listening(ground: &Ground) -> (Client, Receiver<Event>) {
    let (events, told) = mpsc::channel();
    let client = connect_with(ground, |plain| {
        plain
            .response_timeout(RESPONSE_TIMEOUT)
            .connect_timeout(RESPONSE_TIMEOUT)
            .on_event(move |event| {
                let _ = events.send(event.clone());
            })
    });
    (client, told)
}

#[track_caller]
fn drop_in_budget(guard: LockGuard) {
    let before = Instant::now();
    drop(guard);
    // One attempt and one repetition, and as much again for a machine with other things to do.
    let taken = before.elapsed();
    assert!(taken < 4 * RESPONSE_TIMEOUT, "{taken:?}");
}

#[track_caller]
fn assert_release_failed(told: &Receiver<Event>, lock: &str, kinds: &[ErrorKind]) {
    let deadline = Instant::now() + SOON;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match told.recv_timeout(left).expect("ReleaseFailed is raised") {
            Event::ReleaseFailed { name, error, .. } => {
                assert_eq!(&*name, lock);
                assert_eq!(error.name(), Some(lock));
                assert!(kinds.contains(&error.kind()), "{error:?}");
                return;
            }
            Event::Lost { .. } | Event::RenewalFailed { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

const RESPONSE_TIMEOUT: Duration = millis(500);
