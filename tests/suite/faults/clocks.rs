//! Clients whose wall clock is wrong, or jumps: they measure by the monotonic clock alone.
//!
//! By libfaketime, in processes of their own. Where it is not installed these tests are skipped,
//! unless `LOCKSON_FAKETIME=1` asks for them.

use std::{
    env, fs,
    path::PathBuf,
    process::Command,
    sync::OnceLock,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use super::{
    Scene, faults,
    scene::{BOUND, LONG, SLACK, enter, refused},
};
use crate::{
    interop::processes::example,
    support::{Peer, Pending, eventually, process::TempDir},
};

faults! {
    alone wall_clock_that_is_wrong;
    alone wall_clock_that_jumps;
    alone wall_clock_ahead_in_a_queue;
}

/// A client that lives in another year waits, holds, renews and loses like any other.
fn wall_clock_that_is_wrong(scene: &Scene<'_>) {
    let offset = -400 * 24 * HOUR;
    let Some(odd) = Odd::start(scene, offset) else {
        return;
    };
    odd.is_off_by(offset);
    waits_and_holds(scene, &odd, |_| {});
    odd.is_off_by(offset);
}

/// Forwards and backwards, in the middle of a wait and of a hold.
fn wall_clock_that_jumps(scene: &Scene<'_>) {
    let Some(odd) = Odd::start(scene, 0) else {
        return;
    };
    odd.is_off_by(0);
    waits_and_holds(scene, &odd, |hours| odd.jump_to(hours * HOUR));
}

/// Eleven minutes are more than a queue allows anybody to be silent: by its own clock, all who came
/// before it would be passed.
fn wall_clock_ahead_in_a_queue(scene: &Scene<'_>) {
    if scene.kind.peer_type != "fair" {
        // The others promise no order.
        return;
    }
    let ahead = 11 * HOUR / 60;
    let Some(odd) = Odd::start(scene, ahead) else {
        return;
    };
    odd.is_off_by(ahead);
    let other = scene.other_client();
    let client = scene.client();
    let guard = scene.teller(&other).try_lock().expect("an answer");
    let guard = guard.expect("free");
    let lock = scene.lock(&client);
    let second = OnceLock::<Pending>::new();
    thread::scope(|threads| {
        let first = threads.spawn(|| {
            let guard = lock.try_lock_for(LONG).expect("an answer");
            let guard = guard.expect("in time");
            let second = second.get().expect("it stands behind");
            assert!(!second.is_done(), "the second has to wait");
            guard.unlock().expect("held");
        });
        eventually(BOUND, "the first listens", || !scene.channels().is_empty());
        let heard = scene.channels().len();
        let asked = odd.peer.send(&scene_line(scene, "tryLockW", "60000"));
        assert!(second.set(asked).is_ok());
        eventually(BOUND, "the second listens", || {
            scene.channels().len() > heard
        });
        guard.unlock().expect("held");
        first.join().expect("ends well");
    });
    let second = second.into_inner().expect("asked");
    assert_eq!(second.wait(BOUND).expect("answered"), "true");
    odd.ask(scene, "unlock");
    scene.eventually_free(BOUND);
}

/// A wait, a lease and a renewed hold last as long as they should by our clock, which is right.
#[track_caller]
fn waits_and_holds(scene: &Scene<'_>, odd: &Odd, jump: impl Fn(i64)) {
    let other = scene.other_client();
    let rival = scene.rival(&other);
    // A wait.
    let guard = rival.try_lock_with_lease(BOUND).expect("an answer");
    let guard = guard.expect("free");
    let began = Instant::now();
    let waiting = odd.peer.send(&scene_line(scene, "tryLockW", "1000"));
    thread::sleep(Duration::from_millis(300));
    jump(2);
    assert_eq!(waiting.wait(BOUND).expect("answered"), "false");
    let waited = began.elapsed();
    let wait = Duration::from_millis(1000);
    assert!(waited >= wait && waited < wait + SLACK, "{waited:?}");
    guard.unlock().expect("held");

    // A hold that is renewed.
    assert_eq!(odd.ask(scene, "tryLock"), "true");
    jump(-1);
    let mut last = scene.ttl();
    for _ in 0..2 {
        eventually(BOUND, "it is renewed", || {
            // By itself a TTL only falls.
            let before = std::mem::replace(&mut last, scene.ttl());
            last > before
        });
    }
    assert!(last <= WATCHDOG.as_millis() as i64, "{last} ms");
    assert_eq!(odd.ask(scene, "guardHeld"), "true");
    odd.ask(scene, "verify");
    refused(&rival);
    odd.ask(scene, "unlock");
    scene.eventually_free(BOUND);

    // A lease.
    let line = scene_line(scene, "tryLockWL", "0 1000");
    assert_eq!(odd.peer.call(&line).expect("answered"), "true");
    let began = Instant::now();
    jump(1);
    assert_eq!(odd.ask(scene, "guardHeld"), "true");
    let remaining: u128 = odd.ask(scene, "remaining").parse().expect("a number");
    assert!(remaining > 300 && remaining <= 1000, "{remaining} ms");
    let lost = odd.peer.call(&scene_line(scene, "awaitLost", "10000"));
    assert_eq!(lost.expect("answered"), "true");
    let held = began.elapsed();
    assert!(held < wait + SLACK, "{held:?}");
    assert!(held + SLACK > wait, "{held:?}");
    let (guard, _) = enter(&rival, BOUND);
    let refusal = odd.peer.call(&scene_line(scene, "unlock", ""));
    assert_eq!(refusal.expect_err("its time is over").kind, "NotHeld");
    guard.unlock().expect("held");
}

/// A peer with a wall clock of its own.
struct Odd {
    peer: Peer,
    clock: Clock,
}

impl Odd {
    /// `None` where there is no libfaketime and nobody insists on it.
    #[track_caller]
    fn start(scene: &Scene<'_>, offset: i64) -> Option<Self> {
        let clock = Clock::at(offset)?;
        let mut command = Command::new(example("peer"));
        clock.rule(&mut command);
        let peer = Peer::start(command);
        let made = peer.call(&format!(
            "client A single {} {}",
            scene.server.url(),
            WATCHDOG.as_millis(),
        ));
        made.expect("a client");
        Some(Self { peer, clock })
    }

    fn jump_to(&self, offset: i64) {
        self.clock.set(offset);
        self.is_off_by(offset);
    }

    #[track_caller]
    fn is_off_by(&self, offset: i64) {
        let shown = self.peer.call("clock").expect("answered");
        let shown: i64 = shown.parse().expect("milliseconds");
        let ours = SystemTime::now().duration_since(UNIX_EPOCH);
        let ours = ours.expect("after 1970").as_millis() as i64;
        let off = shown - ours;
        assert!(
            (off - offset * 1000).abs() < 10_000,
            "its clock is off by {off} ms, not by {offset} s"
        );
    }

    #[track_caller]
    fn ask(&self, scene: &Scene<'_>, op: &str) -> String {
        self.peer.call(&scene_line(scene, op, "")).expect(op)
    }
}

/// A wall clock for processes of their own.
pub(crate) struct Clock {
    library: PathBuf,
    file: PathBuf,
    _dir: TempDir,
}

impl Clock {
    /// So many seconds ahead. `None` where there is no libfaketime and nobody insists on it.
    #[track_caller]
    pub(crate) fn at(offset: i64) -> Option<Self> {
        let library = library()?;
        let dir = TempDir::new();
        let clock = Self {
            library,
            file: dir.path().join("clock"),
            _dir: dir,
        };
        clock.set(offset);
        Some(clock)
    }

    /// Has a process live by it.
    pub(crate) fn rule(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", &self.library)
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }

    fn set(&self, offset: i64) {
        // In one step: it may be read at any time.
        let next = self.file.with_extension("next");
        fs::write(&next, format!("{offset:+}s\n")).expect("writable");
        fs::rename(next, &self.file).expect("writable");
    }
}

/// The libfaketime of this system.
#[track_caller]
fn library() -> Option<PathBuf> {
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(PathBuf::from).collect();
    // Debian has one for each kind of machine.
    let machines = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    folders.extend(machines.map(|machine| machine.path().join("faketime")));
    let mut paths = folders
        .iter()
        .map(|folder| folder.join("libfaketimeMT.so.1"));
    let found = paths.find(|path| path.exists());
    if found.is_none() {
        let hint = "libfaketime is missing: install it (on Debian: apt-get install faketime)";
        let wanted = env::var("LOCKSON_FAKETIME").as_deref() == Ok("1");
        assert!(!wanted, "{hint}");
        eprintln!("not run: {hint}");
    }
    found
}

fn scene_line(scene: &Scene<'_>, op: &str, arguments: &str) -> String {
    let line = format!(
        "A t1 {op} {} {} {arguments}",
        scene.kind.peer_type, scene.name
    );
    line.trim_end().to_owned()
}

const FOLDERS: [&str; 3] = [
    "/usr/lib64/faketime",
    "/usr/lib/faketime",
    "/usr/local/lib/faketime",
];
/// In seconds.
const HOUR: i64 = 3600;
const WATCHDOG: Duration = Duration::from_millis(900);
