//! Readers of both sides at one lock, and the writers that wait for them.

mod random;
mod slots;

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{
    READ, WRITE,
    scene::{SIDES, SOON, Scene},
    seats::{BOUND, Seat, Side},
    waits,
};
use crate::support::{Pending, eventually};

#[test]
fn a_writer_waits_for_the_readers_of_both_sides() {
    let Some(scene) = Scene::open(WATCHDOG, "", "") else {
        return;
    };
    let mut times = Vec::new();
    for (writer, last) in SIDES.map(|side| SIDES.map(|last| (side, last))).concat() {
        for _ in 0..3 {
            let lock = &scene.ground.name("L");
            let sides = [last.other(), last, last.other(), last];
            let readers = sides.iter().zip(["r1", "r2", "r3", "r4"]);
            let readers: Vec<Seat<'_>> = readers
                .map(|(side, thread)| scene.sits(*side, READ, thread))
                .collect();
            for reader in &readers {
                reader.says("tryLockWL 0 60000", lock, "true");
            }
            assert_eq!(scene.hash(lock).len(), 5, "they share it");
            let writing = scene.sits(writer, WRITE, "w");
            let waiting = scene.waits(&writing, "lock", lock);
            for (at, reader) in readers.iter().enumerate() {
                for stays in &readers[at..] {
                    assert!(scene.slot(stays, lock, 1) > 30_000);
                    stays.says("isHeld", lock, "true");
                }
                let other = scene.sits(writer.other(), WRITE, "t1");
                other.says("tryLock", lock, "false");
                assert!(!waiting.is_done(), "somebody reads");
                reader.says("unlock", lock, "null");
            }
            let released = Instant::now();
            waits::got(waiting, "lock");
            times.push(released.elapsed());
            let field = writing.holder(lock);
            assert_eq!(scene.hash(lock), WRITE.held(&field, 1));
            writing.says("unlock", lock, "null");
        }
    }
    times.sort_unstable();
    let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
    eprintln!("  in after {median:?}, at most {longest:?}");
    assert!(median < Duration::from_millis(200), "{times:?}");
    assert!(longest < Duration::from_secs(2), "{times:?}");
}

#[test]
fn one_release_of_a_writer_lets_all_readers_in() {
    let Some(scene) = Scene::open(WATCHDOG, "", "") else {
        return;
    };
    for side in SIDES {
        let lock = &scene.ground.name("L");
        let writing = scene.sits(side, WRITE, "w");
        writing.says("tryLockWL 0 60000", lock, "true");
        let waiting = scene.readers_wait(lock);
        writing.says("unlock", lock, "null");
        scene.all_enter(waiting, lock, 0);
        assert!(scene.hash(lock).is_empty());
    }
}

/// Redisson says nothing then: its readers would sleep to the end of the TTL.
#[test]
fn our_downgrade_lets_all_readers_in() {
    let Some(scene) = Scene::open(WATCHDOG, "", "") else {
        return;
    };
    let lock = &scene.ground.name("L");
    let (writing, reading) = (
        scene.sits(Side::Rust, WRITE, "w"),
        scene.sits(Side::Rust, READ, "w"),
    );
    writing.says("tryLockWL 0 60000", lock, "true");
    reading.says("tryLockWL 0 60000", lock, "true");
    let waiting = scene.readers_wait(lock);
    writing.says("unlock", lock, "null");
    scene.all_enter(waiting, lock, 1);
    let field = reading.holder(lock);
    assert_eq!(scene.hash(lock), READ.held(&field, 1));
    assert!(scene.slot(&reading, lock, 1) > 30_000);
    scene
        .sits(Side::Java, WRITE, "w")
        .says("tryLock", lock, "false");
    reading.says("unlock", lock, "null");
    assert!(scene.hash(lock).is_empty());
}

/// Without a message, so our reader finds out by itself.
#[test]
fn a_downgrade_of_java_lets_our_reader_in() {
    let Some(scene) = Scene::open(WATCHDOG, "", "") else {
        return;
    };
    let lock = &scene.ground.name("L");
    let (writing, reading) = (
        scene.sits(Side::Java, WRITE, "w"),
        scene.sits(Side::Java, READ, "w"),
    );
    writing.says("tryLockWL 0 60000", lock, "true");
    reading.says("tryLockWL 0 60000", lock, "true");
    let ours = scene.sits(Side::Rust, READ, "r");
    let waiting = scene.waits(&ours, "lock", lock);
    writing.says("unlock", lock, "null");
    let released = Instant::now();
    waits::got(waiting, "lock");
    let took = released.elapsed();
    eprintln!("  in after {took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    for reader in [reading, ours] {
        reader.says("isHeld", lock, "true");
        reader.says("unlock", lock, "null");
    }
}

#[test]
fn nobody_goes_from_reading_to_writing() {
    let Some(scene) = Scene::open(WATCHDOG, "", "") else {
        return;
    };
    let lock = &scene.ground.name("L");
    let readers = SIDES.map(|side| scene.sits(side, READ, "t1"));
    for reader in &readers {
        reader.says("tryLock", lock, "true");
    }
    let before = scene.hash(lock);
    for reader in &readers {
        let writing = reader.by(WRITE);
        writing.says("tryLock", lock, "false");
        writing.says("tryLockW 300", lock, "false");
        writing.says("tryLockWL 300 60000", lock, "false");
        if reader.side == Side::Rust {
            writing.refuses("lock", lock, "WouldDeadlock");
            writing.refuses("lockInterruptibly", lock, "WouldDeadlock");
        }
        assert_eq!(scene.hash(lock), before);
    }
    for reader in &readers {
        reader.says("unlock", lock, "null");
    }
    assert!(scene.hash(lock).is_empty());
}

/// As Redisson's do; it takes the lease anew with each release, which ours does not.
#[test]
fn the_leases_of_a_writer_add_up() {
    let Some(scene) = Scene::open(WATCHDOG, "", "") else {
        return;
    };
    for side in SIDES {
        let lock = &scene.ground.name("L");
        let writing = scene.sits(side, WRITE, "w");
        writing.says("tryLockWL 0 20000", lock, "true");
        writing.says("tryLockWL 0 20000", lock, "true");
        let both = scene.pttl(lock);
        assert!((25_000..=40_000).contains(&both), "{side:?}: {both}");
        writing.says("unlock", lock, "null");
        let left = scene.pttl(lock);
        match side {
            Side::Java => assert!(left <= 20_000, "{left}"),
            Side::Rust => assert!(left > 20_000, "{left}"),
        }
        writing.says("unlock", lock, "null");
        assert!(scene.hash(lock).is_empty());
    }
}

impl Scene {
    /// How long this acquisition of a reader lives, as `PTTL` says it.
    fn slot(&self, reader: &Seat<'_>, lock: &str, number: u32) -> i64 {
        let holder = reader.holder(lock);
        self.pttl(&super::reads::slot(lock, &holder, number))
    }

    /// Has three readers of each side wait for a writer, and returns when all are asleep.
    #[track_caller]
    fn readers_wait(&self, lock: &str) -> Vec<(Seat<'_>, Pending)> {
        let threads = ["r1", "r2", "r3"];
        let wait = |side| {
            threads.map(|thread| {
                let reader = self.sits(side, READ, thread);
                (reader, reader.send("lockL 60000", lock))
            })
        };
        let asking = self.sits(Side::Rust, READ, "t1");
        let ours = wait(Side::Rust);
        eventually(BOUND, "all of ours wait", || {
            let seen = asking.ask("inspect", lock).expect("answered");
            seen.ends_with(" waiters=3")
        });
        let server = self.ground.server();
        let calls = server.script_calls();
        let theirs = wait(Side::Java);
        // Once before each listens, and once when it does.
        eventually(BOUND, "all of Java's have tried twice", || {
            server.script_calls() >= calls + 6
        });
        // What a writer says between its last try and its sleep, Redisson misses.
        thread::sleep(Duration::from_millis(200));
        ours.into_iter().chain(theirs).collect()
    }

    /// Has all of them in at the same time, beside so many others, and out again.
    #[track_caller]
    fn all_enter(&self, waiting: Vec<(Seat<'_>, Pending)>, lock: &str, others: usize) {
        let released = Instant::now();
        let mut readers = Vec::new();
        for (reader, pending) in waiting {
            waits::got(pending, "lockL");
            readers.push(reader);
        }
        let took = released.elapsed();
        eprintln!("  all {} in after {took:?}", readers.len());
        assert!(took < SOON * 2, "{took:?}");
        assert_eq!(self.hash(lock)["mode"], "read");
        assert_eq!(self.hash(lock).len(), 1 + readers.len() + others);
        for reader in readers {
            assert!(self.slot(&reader, lock, 1) > 30_000);
            reader.says("unlock", lock, "null");
        }
    }
}

/// Long enough to tell a message from the end of a TTL.
const WATCHDOG: Duration = Duration::from_secs(30);
