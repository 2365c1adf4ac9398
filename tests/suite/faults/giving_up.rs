//! Calls that fail for good: in time, and without leaving anything behind.

use std::time::Duration;

use lockson::{AnyLock, ErrorKind};

use super::{
    Scene, faults,
    scene::{BOUND, SLACK, TIMEOUT, enter, taken, timed},
};
use crate::support::eventually;

faults! {
    alone acquire_given_up;
    alone acquire_given_up_by_a_client_that_ends;
    alone re_entry_given_up;
    alone release_given_up;
    alone nobody_there;
}

/// A way in which both attempts of a call fail.
struct Way {
    name: &'static str,
    order: fn(&Scene<'_>),
    /// What the caller is told.
    kind: ErrorKind,
}

const WAYS: [Way; 5] = [
    Way {
        name: "replies lost",
        order: |scene| scene.proxy.swallow_replies(scene.calls(), 2),
        kind: ErrorKind::Timeout,
    },
    Way {
        name: "requests lost",
        order: |scene| scene.proxy.drop_requests(scene.calls(), 2),
        kind: ErrorKind::Timeout,
    },
    Way {
        name: "cut before",
        order: |scene| scene.proxy.cut_before(scene.calls(), 2),
        kind: ErrorKind::Connection,
    },
    // Nothing can be written behind these: only the watchdog is left to clean up.
    Way {
        name: "cut after",
        order: |scene| scene.proxy.cut_after(scene.calls(), 2),
        kind: ErrorKind::Connection,
    },
    Way {
        name: "cut after, then silence",
        order: |scene| {
            scene.proxy.cut_after(scene.calls(), 1);
            scene.proxy.swallow_replies(scene.calls(), 1);
        },
        kind: ErrorKind::Timeout,
    },
];

fn acquire_given_up(scene: &Scene<'_>) {
    let client = scene.client();
    for Way { name, order, kind } in WAYS {
        // What cleans up after the last one must not meet the next fault.
        let scene = scene.renamed();
        let lock = scene.lock(&client);
        order(&scene);
        fails_to_acquire(name, &lock, kind);
        assert_eq!(client.state().holds, 0, "{name}");
        scene.eventually_free(BOUND);
        taken(&lock).unlock().expect("held");
    }
    assert_eq!(faults_met(scene), 2 * WAYS.len());
    let lock = scene.lock(&client);
    let owned = || lock.try_lock_owned().map(drop);
    scene.proxy.swallow_replies(scene.calls(), 2);
    fails("owned", owned, ErrorKind::Timeout);
    scene.eventually_free(BOUND);
    assert_eq!(scene.expired(), 0, "released, not expired");
}

/// Nothing but what was written behind the request can take it back.
fn acquire_given_up_by_a_client_that_ends(scene: &Scene<'_>) {
    let client = scene.client();
    let lock = scene.lock(&client);
    scene.proxy.swallow_replies(scene.calls(), 1);
    scene.proxy.refuse(true);
    fails_to_acquire("no second connection", &lock, ErrorKind::Connection);
    drop((lock, client));
    // The proxy may get to it only after the caller has given up.
    eventually(BOUND, "it was refused", || scene.proxy.refused() > 0);
    scene.proxy.refuse(false);
    assert_eq!(scene.proxy.swallowed(), 1);
    scene.eventually_free(BOUND);
    assert_eq!(scene.expired(), 0, "released, not expired");
}

fn re_entry_given_up(scene: &Scene<'_>) {
    let client = scene.client();
    for Way { name, order, kind } in WAYS {
        let scene = scene.renamed();
        let lock = scene.lock(&client);
        let outer = taken(&lock);
        order(&scene);
        fails_to_acquire(name, &lock, kind);
        assert!(outer.is_held(), "{name}");
        eventually(BOUND, "nothing is in doubt", || {
            client.state().in_doubt == 0
        });
        if scene.kind.count_is_put_right {
            scene.assert_held(outer.holder(), 1);
        }
        let inner = taken(&lock);
        assert_eq!(inner.holder(), outer.holder(), "{name}");
        scene.assert_held(outer.holder(), 2);
        inner.unlock().expect("held");
        scene.assert_held(outer.holder(), 1);
        outer.verify().expect("held");
        outer.unlock().expect("held");
        scene.assert_free();
    }
    assert_eq!(faults_met(scene), 2 * WAYS.len());
}

fn release_given_up(scene: &Scene<'_>) {
    let client = scene.client();
    let other = scene.other_client();
    for Way { name, order, kind } in WAYS {
        let scene = scene.renamed();
        let guard = taken(&scene.lock(&client));
        let signal = guard.lost();
        order(&scene);
        fails(name, || guard.unlock(), kind);
        assert_eq!(client.state().holds, 0, "{name}");
        assert!(!signal.is_lost(), "{name}: its guard let it go");
        let (next, _) = enter(&scene.rival(&other), BOUND);
        scene.settle(&client);
        scene.assert_held(next.holder(), 1);
        next.unlock().expect("held");
    }
    assert_eq!(faults_met(scene), 2 * WAYS.len());
    assert_eq!(scene.expired(), 0, "released, not expired");
}

fn nobody_there(scene: &Scene<'_>) {
    let client = scene.client();
    let lock = scene.lock(&client);
    scene.proxy.black_hole(true);
    fails_to_acquire("a black hole", &lock, ErrorKind::Timeout);
    assert!(scene.proxy.lost() > 0);
    scene.proxy.black_hole(false);
    taken(&lock).unlock().expect("held");

    scene.proxy.refuse(true);
    scene.proxy.cut_all();
    fails_to_acquire("refused", &lock, ErrorKind::Connection);
    // The proxy may get to it only after the caller has given up.
    eventually(BOUND, "it was refused", || scene.proxy.refused() > 0);
    scene.proxy.refuse(false);
    taken(&lock).unlock().expect("held");

    let calls = scene.server.script_calls();
    scene.server.freeze();
    fails_to_acquire("a server that hangs", &lock, ErrorKind::Timeout);
    scene.server.thaw();
    eventually(BOUND, "the late copies have run", || {
        scene.server.script_calls() > calls
    });
    scene.settle(&client);
    scene.eventually_free(BOUND);
    assert_eq!(scene.expired(), 0, "released, not expired");
}

#[track_caller]
fn fails_to_acquire(way: &str, lock: &AnyLock, kind: ErrorKind) {
    fails(way, || lock.try_lock().map(drop), kind);
}

/// The call fails like this, and within one attempt and one repetition.
#[track_caller]
fn fails(way: &str, call: impl FnOnce() -> lockson::Result<()>, kind: ErrorKind) {
    let (failed, took) = timed(call);
    let error = failed.expect_err(way);
    assert_eq!(error.kind(), kind, "{way}: {error}");
    assert!(took < BUDGET + SLACK, "{way}: {took:?}");
}

fn faults_met(scene: &Scene<'_>) -> usize {
    scene.proxy.swallowed() + scene.proxy.dropped() + scene.proxy.cuts()
}

const BUDGET: Duration = Duration::from_millis(2 * TIMEOUT.as_millis() as u64);
