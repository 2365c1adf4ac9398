//! `LostSignal`: lost, released, or not yet.

use std::{
    sync::{Barrier, mpsc},
    thread,
    time::{Duration, Instant},
};

use lockson::{Ended, ErrorKind, LostReason, LostSignal};

use super::{BOUND, fails, leased, listening, millis, secs, taken};
use crate::support::{Ground, Proxy, connect, connect_to, connect_with, eventually};

#[test]
fn nothing_happens_in_the_time_allowed() {
    let ground = Ground::new();
    let client = connect(&ground);
    let guard = taken(&client.reentrant_lock(ground.name("L")));
    let signal = guard.lost();
    let start = Instant::now();
    assert_eq!(signal.wait(millis(120)), Ended::TimedOut);
    assert!(start.elapsed() >= millis(120));
    assert_eq!(signal.wait(Duration::ZERO), Ended::TimedOut);
    assert!(!signal.is_lost());
    assert_eq!(signal.reason(), None);
}

#[test]
fn a_released_guard_wakes_its_watchers() {
    let ground = Ground::new();
    let client = connect(&ground);
    for by_drop in [true, false] {
        let guard = taken(&client.reentrant_lock(ground.name("L")));
        let ended = watched(&guard.lost(), || match by_drop {
            true => drop(guard),
            false => guard.unlock().expect("held"),
        });
        assert_eq!(ended, [Ended::Released; WATCHERS]);
    }
}

#[test]
fn a_lost_hold_wakes_its_watchers() {
    let ground = Ground::new();
    let server = ground.server();
    let (client, _) = listening(&ground);
    let lock = client.reentrant_lock(ground.name("L"));

    let guard = taken(&lock);
    let ended = watched(&guard.lost(), || {
        server.cli(&["DEL", lock.name()]);
        fails(guard.verify(), ErrorKind::NotHeld);
    });
    assert_eq!(ended, [Ended::Lost(LostReason::Gone); WATCHERS]);

    let guard = leased(&lock, millis(250));
    let ended = watched(&guard.lost(), || ());
    assert_eq!(ended, [Ended::Lost(LostReason::Expired); WATCHERS]);
    eventually(BOUND, "it ends in Redis too", || {
        !lock.is_locked().expect("answered")
    });

    let guard = taken(&lock);
    let ended = watched(&guard.lost(), || client.shutdown());
    assert_eq!(ended, [Ended::Lost(LostReason::Closed); WATCHERS]);
    ground.expect_keys_left();
}

#[test]
fn a_watcher_sleeps_through_renewals_and_extensions() {
    let ground = Ground::new();
    let client = connect_with(&ground, |builder| {
        builder.lock_watchdog_timeout(millis(300))
    });
    let renewed = taken(&client.reentrant_lock(ground.name("L")));
    let extended = leased(&client.reentrant_lock(ground.name("L")), millis(500));
    extended.extend(secs(20)).expect("held");
    for guard in [&renewed, &extended] {
        assert_eq!(guard.lost().wait(millis(1000)), Ended::TimedOut);
    }
}

#[test]
fn each_guard_has_a_signal_of_its_own() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let (outer, inner) = (taken(&lock), taken(&lock));
    let (outer_signal, inner_signal) = (outer.lost(), inner.lost());
    outer.unlock().expect("held");
    assert_eq!(outer_signal.wait(BOUND), Ended::Released);
    assert_eq!(inner_signal.wait(Duration::ZERO), Ended::TimedOut);
    ground.server().cli(&["DEL", lock.name()]);
    fails(inner.verify(), ErrorKind::NotHeld);
    assert_eq!(inner_signal.wait(BOUND), Ended::Lost(LostReason::Gone));
    assert_eq!(outer_signal.wait(BOUND), Ended::Released, "as it was");
    assert_eq!(outer_signal.reason(), None);
}

#[test]
fn a_signal_outlives_its_guard_and_its_client() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let guard = taken(&lock);
    let released = guard.lost();
    guard.unlock().expect("held");
    let guard = taken(&lock);
    let lost = guard.lost();
    ground.server().cli(&["DEL", lock.name()]);
    fails(guard.unlock(), ErrorKind::NotHeld);
    let signals = [released, lost];
    client.shutdown();
    drop((lock, client));
    let ended = thread::spawn(move || signals.map(|signal| signal.wait(Duration::MAX)));
    assert_eq!(
        ended.join().expect("it ends"),
        [Ended::Released, Ended::Lost(LostReason::Gone)]
    );
}

/// The threads end with the client, its handles and guards; who only watches keeps nothing.
#[test]
fn a_signal_does_not_keep_the_client() {
    let ground = Ground::new();
    let client = connect(&ground);
    let guard = taken(&client.reentrant_lock(ground.name("L")));
    let signal = guard.lost();
    drop(client);
    drop(guard);
    eventually(secs(5), "the connections are closed", || {
        ground.server().clients().is_empty()
    });
    assert_eq!(signal.wait(BOUND), Ended::Released);
}

#[test]
fn a_release_without_answer_wakes_its_watchers() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect_with(&ground, |builder| builder.response_timeout(millis(200)));
    let guard = taken(&client.reentrant_lock(ground.name("L")));
    let signal = guard.lost();
    server.freeze();
    fails(guard.unlock(), ErrorKind::Timeout);
    assert_eq!(signal.wait(BOUND), Ended::Released);
    server.thaw();
    eventually(BOUND, "it is released in the background", || {
        server.cli(&["DBSIZE"]) == redis::Value::Int(0)
    });
}

/// Lost by its clock, and then dropped without an answer.
#[test]
fn who_was_told_of_a_loss_is_not_told_otherwise_later() {
    let ground = Ground::new();
    let proxy = Proxy::to(ground.server().addr());
    let client = connect_to(&ground, &proxy.url(), |builder| {
        builder.response_timeout(millis(200))
    });
    let guard = leased(&client.reentrant_lock(ground.name("L")), millis(300));
    let signal = guard.lost();
    assert_eq!(signal.wait(BOUND), Ended::Lost(LostReason::Expired));
    proxy.black_hole(true);
    drop(guard);
    assert!(proxy.lost() > 0);
    assert_eq!(signal.reason(), Some(LostReason::Expired));
    assert_eq!(signal.wait(BOUND), Ended::Lost(LostReason::Expired));
}

/// What several watchers are told that wait for ever while `end` is run.
fn watched(signal: &LostSignal, end: impl FnOnce()) -> [Ended; WATCHERS] {
    let (tell, told) = mpsc::channel();
    let ready = Barrier::new(WATCHERS + 1);
    thread::scope(|scope| {
        for _ in 0..WATCHERS {
            let (signal, tell, ready) = (signal.clone(), tell.clone(), &ready);
            scope.spawn(move || {
                ready.wait();
                tell.send(signal.wait(Duration::MAX)).expect("listened to");
            });
        }
        ready.wait();
        assert!(told.recv_timeout(millis(50)).is_err(), "not yet");
        end();
        [(); WATCHERS].map(|()| told.recv_timeout(BOUND).expect("woken"))
    })
}

const WATCHERS: usize = 4;
