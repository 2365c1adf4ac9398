//! Copies that arrive late: the request was repeated, all is done, and then the first one comes.

use std::{sync::atomic::Ordering, time::Duration};

use lockson::{AnyGuard, Client, ErrorKind};

use super::{
    Scene, faults,
    replies::end_of,
    scene::{BOUND, LONG, SLACK, taken},
};
use crate::support::eventually;

faults! {
    new late_acquires_behind_the_fence;
    new late_acquires_without_the_right_to_kill;
    new late_copies_after_the_next_hold;
    new late_copies_of_an_acquire_given_up;
    new late_copies_of_a_re_entry_given_up;
}

/// With the fence, a late copy never runs.
fn late_acquires_behind_the_fence(scene: &Scene<'_>) {
    let kills = scene.count_kills();
    let client = scene.client_with(LEASE, |settings| settings.response_timeout(PATIENCE));
    let orphans = late_acquires(scene, &client);
    let kills = kills.load(Ordering::SeqCst);
    assert!(kills >= ROUNDS, "a fence in every round: {kills}");
    assert_eq!(orphans, 0, "of {ROUNDS} late copies");
    println!("{orphans} orphans after {ROUNDS} late copies behind the fence");
}

/// Without it, what a late copy leaves ends by its time.
fn late_acquires_without_the_right_to_kill(scene: &Scene<'_>) {
    let client = unfenced(scene);
    let orphans = late_acquires(scene, &client);
    assert!(orphans > 0, "{ROUNDS} copies came late");
    println!("{orphans} orphans after {ROUNDS} late copies without the fence");
    scene.eventually_free(LEASE + SLACK);
}

/// Holds up the acquire of a hold that is over by the time the copy gets on; counts what is left.
#[track_caller]
fn late_acquires(scene: &Scene<'_>, client: &Client) -> usize {
    let mut orphans = 0;
    for round in 0..ROUNDS {
        // The lock of an earlier round may have an orphan.
        let name = format!("{}-{round}", scene.name);
        let lock = (scene.kind.lock)(client, &name);
        scene.proxy.hold(scene.calls_about(&name), 1);
        let guard = taken(&lock);
        let holder = guard.holder().to_owned();
        assert_eq!(scene.proxy.held(), round + 1);
        guard.unlock().expect("released");
        assert_eq!(scene.holders_of(&name), []);

        assert_eq!(scene.proxy.release_held(), 1);
        scene.settle(client);
        let left = scene.holders_of(&name);
        if !left.is_empty() {
            orphans += 1;
            assert_eq!(left, [(holder, 1)], "nobody else's");
            let ttl = (scene.kind.ttl)(&mut scene.server.connection(), &name);
            assert!((1..=LEASE.as_millis() as i64).contains(&ttl), "{ttl} ms");
        }
    }
    assert_eq!(client.state().holds, 0);
    orphans
}

/// Whoever has the lock when a copy comes, fenced or not, does not notice.
fn late_copies_after_the_next_hold(scene: &Scene<'_>) {
    let other = scene.other_client();
    let fenced = scene.client_with(LEASE, |settings| settings.response_timeout(PATIENCE));
    let unfenced = unfenced(scene);
    let mut held = 0;
    for client in [&fenced, &unfenced] {
        let lock = scene.lock(client);
        for next in [client, &other] {
            for late in [Late::Acquire, Late::Release] {
                let order = || scene.proxy.hold(scene.calls(), 1);
                if late == Late::Acquire {
                    order();
                }
                let guard = taken(&lock);
                if late == Late::Release {
                    order();
                }
                guard.unlock().expect("released");
                held += 1;
                assert_eq!(scene.proxy.held(), held);
                scene.assert_free();

                let next = scene.rival(next).try_lock_with_lease(LONG);
                let next = next.expect("an answer").expect("free");
                let before = scene.server.script_calls();
                assert_eq!(scene.proxy.release_held(), 1);
                if std::ptr::eq(client, &unfenced) {
                    eventually(BOUND, "the late copy runs", || {
                        scene.server.script_calls() > before
                    });
                }
                scene.settle(client);
                scene.assert_held(next.holder(), 1);
                let ttl = scene.ttl();
                assert!((50_000..=60_000).contains(&ttl), "{ttl} ms");
                next.verify().expect("held");
                next.unlock().expect("held");
                scene.assert_free();
            }
        }
    }
}

/// The fence that the caller did not wait for stands, also on a connection as old as the watchdog's.
fn late_copies_of_an_acquire_given_up(scene: &Scene<'_>) {
    let client = scene.client_with(LEASE, |settings| settings.response_timeout(PATIENCE));
    let renewed = taken(&(scene.kind.lock)(&client, &scene.renamed().name));
    outlives_its_lease(&renewed);
    renewed.unlock().expect("held");

    let kills = scene.count_kills();
    let before = scene.server.script_calls();
    scene.proxy.hold(scene.calls(), 2);
    let error = scene
        .lock(&client)
        .try_lock()
        .expect_err("both are held up");
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert_eq!(scene.proxy.held(), 2);
    eventually(BOUND, "the watchdog has seen to it", || {
        kills.load(Ordering::SeqCst) >= 2 && scene.server.script_calls() > before
    });
    let before = scene.server.script_calls();
    assert_eq!(scene.proxy.release_held(), 2);
    scene.settle(&client);
    assert_eq!(scene.server.script_calls(), before, "neither copy runs");
    scene.assert_free();
}

/// Whoever re-enters next kills them before, also if the watchdog has done so already: it does not
/// know, and what they would undo is its own.
fn late_copies_of_a_re_entry_given_up(scene: &Scene<'_>) {
    let client = scene.client();
    let lock = scene.lock(&client);
    let outer = taken(&lock);
    let kills = scene.count_kills();
    scene.proxy.cut_after(scene.calls(), 2);
    let error = lock.try_lock().expect_err("both are cut");
    assert_eq!(error.kind(), ErrorKind::Connection, "{error}");
    assert_eq!(scene.proxy.cuts(), 2);
    // The second attempt has killed the first copy; the watchdog kills both.
    eventually(BOUND, "the watchdog has seen to it", || {
        kills.load(Ordering::SeqCst) >= 3
    });
    let before = kills.load(Ordering::SeqCst);
    let inner = taken(&lock);
    assert!(kills.load(Ordering::SeqCst) > before, "killed first");
    assert_eq!(inner.holder(), outer.holder());
    inner.unlock().expect("held");
    outer.unlock().expect("held");
    scene.assert_free();
}

/// Waits for a renewal.
fn outlives_its_lease(guard: &AnyGuard) {
    let end = end_of(guard);
    eventually(BOUND, "renewed", || end_of(guard) > end + SLACK / 2);
}

#[derive(Clone, Copy, PartialEq)]
enum Late {
    Acquire,
    Release,
}

/// A client whose user may do all but kill connections.
fn unfenced(scene: &Scene<'_>) -> Client {
    scene.server.cli(&[
        "ACL",
        "SETUSER",
        "meek",
        "on",
        ">secret",
        "~*",
        "&*",
        "+@all",
        "-client",
        "+client|info",
        "+client|setname",
    ]);
    let url = format!("redis://meek:secret@{}/", scene.proxy.addr());
    scene.client_at(&url, LEASE, |settings| settings.response_timeout(PATIENCE))
}

const ROUNDS: usize = 20;
/// How long the first copy is waited for; the second must be answered within it on a busy machine.
const PATIENCE: Duration = Duration::from_millis(500);
const LEASE: Duration = Duration::from_secs(2);
