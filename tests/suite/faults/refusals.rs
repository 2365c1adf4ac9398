//! Servers that refuse to serve for a while: what is held stays held, who waits goes on waiting.

use std::{
    fs,
    thread::{self, ScopedJoinHandle},
    time::{Duration, Instant},
};

use lockson::{AnyGuard, Error, ErrorKind};

use super::{
    Scene, faults,
    replies::end_of,
    scene::{BOUND, Losses, enter, taken},
    waiting::{entered, waiter},
};
use crate::support::{eventually, launch::free_port};

faults! {
    new out_of_memory;
    new too_few_replicas;
    new snapshots_fail;
    new made_a_replica;
    new made_a_replica_without_a_primary;
    alone busy_with_an_endless_script;
    alone loading_its_data;
}

/// A state in which a server does not serve.
struct State {
    /// The beginning of its answer.
    code: &'static str,
    /// What callers may be told instead, by a connection that is made meanwhile.
    or: &'static str,
    kind: ErrorKind,
    /// Whether the last release works nevertheless.
    releases: bool,
    /// Whether it counts its refusals: of those that others caused it could not tell.
    counts: bool,
    /// Long enough for all that is tried meanwhile.
    watchdog: Duration,
    during: During,
}

/// Does something while the server is in that state.
type During = fn(&Scene<'_>, &mut dyn FnMut());

fn out_of_memory(scene: &Scene<'_>) {
    meet(
        scene,
        &State {
            code: "OOM",
            or: "OOM",
            kind: ErrorKind::OutOfMemory,
            releases: true,
            counts: true,
            watchdog: WATCHDOG,
            during: |scene, body| configured(scene, ["maxmemory", "1"], ["maxmemory", "0"], body),
        },
    );
}

fn too_few_replicas(scene: &Scene<'_>) {
    meet(
        scene,
        &State {
            code: "NOREPLICAS",
            during: |scene, body| {
                let name = "min-replicas-to-write";
                configured(scene, [name, "1"], [name, "0"], body);
            },
            ..PASSING
        },
    );
}

fn snapshots_fail(scene: &Scene<'_>) {
    meet(
        scene,
        &State {
            code: "MISCONF",
            during: |scene, body| {
                // A folder with something in it where the snapshot belongs.
                let target = scene.server.dir().join("dump.rdb");
                fs::create_dir_all(target.join("in the way")).expect("writable");
                configured(scene, ["save", "3600 1"], ["save", ""], || {
                    scene.server.cli(&["BGSAVE"]);
                    eventually(BOUND, "the snapshot fails", || {
                        let info = scene.info("persistence");
                        info.contains("rdb_last_bgsave_status:err")
                    });
                    body();
                    fs::remove_dir_all(&target).expect("it was there");
                });
            },
            ..PASSING
        },
    );
}

fn made_a_replica(scene: &Scene<'_>) {
    meet(
        scene,
        &State {
            code: "READONLY",
            or: "is a replica",
            during: demoted,
            ..PASSING
        },
    );
}

fn made_a_replica_without_a_primary(scene: &Scene<'_>) {
    meet(
        scene,
        &State {
            code: "MASTERDOWN",
            or: "is a replica",
            during: |scene, body| {
                let name = "replica-serve-stale-data";
                configured(scene, [name, "no"], [name, "yes"], || demoted(scene, body));
            },
            ..PASSING
        },
    );
}

fn busy_with_an_endless_script(scene: &Scene<'_>) {
    meet(
        scene,
        &State {
            code: "BUSY",
            counts: false,
            during: |scene, body| {
                scene.server.cli(&["CONFIG", "SET", "lua-time-limit", "20"]);
                thread::scope(|scope| {
                    let endless = scope.spawn(|| {
                        let script = redis::cmd("EVAL")
                            .arg("while true do end")
                            .arg(0)
                            .query::<()>(&mut scene.server.connection());
                        script.expect_err("it is killed")
                    });
                    eventually(BOUND, "the server is busy", || says(scene, "BUSY"));
                    body();
                    assert!(!endless.is_finished(), "it was busy all the time");
                    let killed: String = redis::cmd("SCRIPT")
                        .arg("KILL")
                        .query(&mut scene.server.connection())
                        .expect("SCRIPT KILL");
                    assert_eq!(killed, "OK");
                });
            },
            ..PASSING
        },
    );
}

/// As it does after a restart, with what it had saved before.
fn loading_its_data(scene: &Scene<'_>) {
    const EVENTS: &str = "loading-process-events-interval-bytes";
    let known: Vec<String> = redis::cmd("CONFIG")
        .arg(&["GET", EVENTS])
        .query(&mut scene.server.connection())
        .expect("CONFIG GET");
    if known.is_empty() {
        // Redis 6.2 answers far too seldom while it loads.
        return;
    }
    let server = scene.ground.server_with(|options| {
        options
            .arg("key-load-delay", LOAD_DELAY.as_micros())
            // It answers every ten keys.
            .arg(EVENTS, 1024)
            .arg("rdbcompression", "no")
    });
    meet(
        &scene.moved_to(server),
        &State {
            code: "LOADING",
            counts: false,
            watchdog: 2 * WATCHDOG,
            during: |scene, body| {
                let mut redis = scene.server.connection();
                let ballast = "x".repeat(BALLAST);
                let mut filling = redis::pipe();
                for number in 0..LOADED {
                    filling.set(format!("ballast-{number}"), ballast.as_str());
                }
                filling.exec(&mut redis).expect("SET");
                let () = redis::cmd("SAVE").query(&mut redis).expect("SAVE");
                thread::scope(|scope| {
                    let restarting = scope.spawn(|| scene.server.restart());
                    eventually(BOUND, "it loads", || says(scene, "LOADING"));
                    body();
                    assert!(says(scene, "LOADING"), "it has loaded all the time");
                    restarting.join().expect("it comes back");
                });
                let mut redis = scene.server.connection();
                let mut emptying = redis::pipe();
                for number in 0..LOADED {
                    emptying.del(format!("ballast-{number}"));
                }
                emptying.exec(&mut redis).expect("DEL");
            },
            ..PASSING
        },
    );
}

#[track_caller]
fn meet(scene: &Scene<'_>, state: &State) {
    let losses = Losses::default();
    let client = scene.client_with(state.watchdog, |settings| {
        let settings = settings.on_event(losses.listen());
        // A server that loads its data is slow to say so.
        settings
            .response_timeout(PATIENCE)
            .red_lock_member_timeout(PATIENCE)
    });
    let other = scene.other_client();
    let lock = scene.lock(&client);
    // Kept, released inside, released, awaited, and free.
    let [kept, nested, held, awaited, free] = [(); 5].map(|()| scene.renamed());
    let kept_guard = taken(&kept.lock(&client));
    let nested_lock = nested.lock(&client);
    let [outer, inner] = [(); 2].map(|()| taken(&nested_lock));
    let held_guard = taken(&held.lock(&client));
    let theirs = taken(&awaited.teller(&other));
    let awaited_lock = awaited.lock(&client);
    let free_lock = free.lock(&client);
    thread::scope(|scope| {
        let waiting = waiter(scope, &awaited_lock);
        eventually(BOUND, "it listens", || !awaited.channels().is_empty());
        let refused = scene.refusals(state.code);
        let (mut inner, mut held_guard) = (Some(inner), Some(held_guard));
        (state.during)(scene, &mut || {
            let refused = |error: &Error| {
                assert_eq!(error.kind(), state.kind, "{error}");
                assert!(error.is_retryable());
                let text = error.to_string();
                let named = text.contains(state.code) || text.contains(state.or);
                assert!(named, "{}: {text}", state.code);
            };
            refused(&free_lock.try_lock().map(drop).expect_err(state.code));
            let waited = free_lock.try_lock_for(WAIT).map(drop);
            let error = waited.expect_err(state.code);
            // The last round of a RedLock has what is left of the wait, which may be hardly anything.
            if scene.kind.name != "red" || error.kind() != ErrorKind::Timeout {
                refused(&error);
            }
            if let Some(inner) = inner.take() {
                // A count that cannot be written: the caller is told, the hold is intact.
                let said = inner.unlock();
                if let Err(error) = said {
                    assert_eq!(error.kind(), state.kind, "{error}");
                }
                assert!(outer.is_held());
            }
            if let Some(guard) = held_guard.take() {
                let said = guard.unlock();
                match state.releases {
                    true => said.expect("it frees"),
                    false => {
                        let error = said.expect_err(state.code);
                        assert_eq!(error.kind(), state.kind, "{error}");
                    }
                }
            }
            assert!(!waiting.is_finished(), "it waits on");
            assert!(kept_guard.is_held(), "its time is not over");
        });
        if state.counts {
            assert!(scene.refusals(state.code) > refused, "it happened");
        }
        goes_on(&kept_guard);
        kept.assert_held(kept_guard.holder(), 1);
        // What the watchdog was left with it does as soon as it can.
        held.eventually_free(BOUND);
        nested_is_intact(&nested, &outer);
        is_let_in(waiting, theirs);
    });
    // Nothing of what was refused was done.
    let (guard, _) = enter(&free_lock, BOUND);
    free.assert_held(guard.holder(), 1);
    guard.unlock().expect("held");
    outer.unlock().expect("held");
    kept_guard.unlock().expect("held");
    for scene in [kept, nested, held, awaited, free] {
        scene.eventually_free(BOUND);
    }
    assert!(losses.is_empty());
    drop(lock);
}

#[track_caller]
fn goes_on(guard: &AnyGuard) {
    let end = end_of(guard) + Duration::from_millis(100);
    eventually(BOUND, "it is renewed", || end_of(guard) > end);
    guard.verify().expect("held");
}

/// One guard is left, and its release leaves nothing.
#[track_caller]
fn nested_is_intact(nested: &Scene<'_>, outer: &AnyGuard) {
    outer.verify().expect("held");
    let holders = nested.holders();
    let [(holder, count)] = &holders[..] else {
        panic!("one holder: {holders:?}");
    };
    assert_eq!(holder, outer.holder());
    assert!(*count <= 2, "{holders:?}");
}

#[track_caller]
fn is_let_in(waiting: ScopedJoinHandle<'_, (lockson::Result<bool>, Instant)>, theirs: AnyGuard) {
    theirs.unlock().expect("held");
    let released = Instant::now();
    let late = entered(waiting).saturating_duration_since(released);
    // At the longest it looks by itself.
    assert!(late < Duration::from_secs(5), "{late:?}");
}

/// Whether a new connection is told this.
fn says(scene: &Scene<'_>, code: &str) -> bool {
    let told = scene
        .server
        .try_connection()
        .and_then(|mut redis| redis::cmd("PING").query::<()>(&mut redis));
    told.is_err_and(|error| error.code() == Some(code))
}

fn demoted(scene: &Scene<'_>, body: &mut dyn FnMut()) {
    // Nobody is there, so that what it has is not replaced.
    let port = free_port().to_string();
    scene.server.cli(&["REPLICAOF", "127.0.0.1", &port]);
    body();
    scene.server.cli(&["REPLICAOF", "NO", "ONE"]);
}

fn configured(scene: &Scene<'_>, before: [&str; 2], after: [&str; 2], body: impl FnOnce()) {
    let set = |[name, value]: [&str; 2]| scene.server.cli(&["CONFIG", "SET", name, value]);
    set(before);
    body();
    set(after);
}

const PASSING: State = State {
    code: "",
    or: "-",
    kind: ErrorKind::Connection,
    releases: false,
    counts: true,
    watchdog: WATCHDOG,
    during: |_, _| {},
};
const WATCHDOG: Duration = Duration::from_millis(4500);
const PATIENCE: Duration = Duration::from_secs(1);
const WAIT: Duration = Duration::from_millis(600);
const BALLAST: usize = 100;
const LOADED: usize = 1_500;
const LOAD_DELAY: Duration = Duration::from_millis(2);
