//! Each reader lives its own time, whatever the others of either side do.

use std::time::{Duration, Instant};

use super::super::{
    READ, WRITE,
    reads::slot,
    scene::{SIDES, SOON, Scene, kill},
    seats::{BOUND, Seat, Side},
    waits,
};
use crate::support::eventually;

#[test]
fn the_release_of_one_leaves_the_slots_of_the_other() {
    let Some(scene) = Scene::open(Duration::from_secs(30), "", "") else {
        return;
    };
    for first in SIDES {
        let lock = &scene.ground.name("L");
        let goes = scene.sits(first, READ, "t1");
        let stays = scene.sits(first.other(), READ, "t1");
        for reader in [goes, stays, goes, stays] {
            reader.says("tryLockWL 0 60000", lock, "true");
        }
        let (gone, field) = (goes.holder(lock), stays.holder(lock));
        for left in [1, 0] {
            goes.says("unlock", lock, "null");
            goes.says("holdCount", lock, &left.to_string());
            for number in [1, 2] {
                assert!(scene.slot(&stays, lock, number) > 30_000);
                let own = scene.pttl(&slot(lock, &gone, number));
                assert_eq!(own > 0, number <= left, "slot {number} of {left}: {own}");
            }
            assert!(scene.pttl(lock) > 30_000);
            stays.says("holdCount", lock, "2");
        }
        assert_eq!(scene.hash(lock), READ.held(&field, 2));
        scene.no_writer(lock);
        stays.says("unlock", lock, "null");
        stays.says("unlock", lock, "null");
        assert!(scene.hash(lock).is_empty());
    }
}

/// Redisson leaves the field of a reader whose time is over. It must not keep a writer out.
#[test]
fn the_end_of_one_leaves_the_slots_of_the_other() {
    let Some(scene) = Scene::open(Duration::from_secs(30), "", "") else {
        return;
    };
    for short in SIDES {
        for long in SIDES {
            let lock = &scene.ground.name("L");
            let ends = scene.sits(short, READ, "ends");
            let stays = scene.sits(long, READ, "stays");
            stays.says("tryLockWL 0 60000", lock, "true");
            ends.says("tryLockWL 0 800", lock, "true");
            let over = slot(lock, &ends.holder(lock), 1);
            eventually(BOUND, "its time is over", || scene.pttl(&over) == -2);
            assert!(scene.slot(&stays, lock, 1) > 30_000);
            assert!(scene.pttl(lock) > 30_000);
            if short == Side::Rust {
                ends.says("isHeld", lock, "false");
                ends.says("guardHeld", lock, "false");
            }
            stays.says("isHeld", lock, "true");
            scene.no_writer(lock);

            let writing = scene.sits(long.other(), WRITE, "w");
            let waiting = scene.waits(&writing, "lock", lock);
            stays.says("unlock", lock, "null");
            let released = Instant::now();
            waits::got(waiting, "lock");
            let took = released.elapsed();
            eprintln!("  {short:?} over, {long:?} released, in after {took:?}");
            assert!(took < SOON, "{took:?}");
            ends.refuses("unlock", lock, "NotHeld");
            writing.says("unlock", lock, "null");
        }
    }
}

#[test]
fn a_killed_reader_keeps_no_writer_out_after_its_own_time() {
    let Some(scene) = Scene::open(Duration::from_secs(3), "", "") else {
        return;
    };
    for victim in SIDES {
        for writer in SIDES {
            let lock = &scene.ground.name("L");
            // The last is of the other side than the writer, so that it is woken from there.
            let living = [writer, writer.other()].map(|side| scene.sits(side, READ, "t1"));
            for reader in &living {
                reader.says("lock", lock, "null");
            }
            let process = scene.process(victim);
            let dying = Seat::new(&process, victim, "A", READ);
            dying.says("lock", lock, "null");
            let dead = slot(lock, &dying.holder(lock), 1);
            kill(&process);
            assert!(scene.pttl(&dead) > 0, "it released nothing");
            let writing = scene.sits(writer, WRITE, "w");
            let waiting = scene.waits(&writing, "lock", lock);
            eventually(BOUND, "its time is over", || scene.pttl(&dead) == -2);
            for reader in &living {
                assert!(scene.slot(reader, lock, 1) > 0, "the living are kept");
                assert!(!waiting.is_done(), "somebody reads");
                reader.says("unlock", lock, "null");
            }
            let released = Instant::now();
            waits::got(waiting, "lock");
            let took = released.elapsed();
            eprintln!("  {victim:?} killed, {writer:?} in after {took:?}");
            assert!(took < SOON, "{took:?}");
            let field = writing.holder(lock);
            assert_eq!(scene.hash(lock), WRITE.held(&field, 1));
            writing.says("unlock", lock, "null");
        }
    }
}

/// Redisson's watchdog sets the time of the whole lock to its own timeout, also lower. A reader with a
/// longer lease must not lose the lock when that watchdog is gone. Before 4.4 it did the same to the slots
/// of all readers.
#[test]
fn a_java_reader_that_dies_takes_no_other_with_it() {
    let redissons = [("30000", None), ("3000", None), ("30000", Some("3.52.0"))];
    for (ours, version) in redissons {
        let settings = [ours, "3000"].map(str::to_owned);
        let Some(scene) = Scene::with(settings, version) else {
            return;
        };
        let lock = &scene.ground.name("L");
        // First, so that its start does not take from the lease.
        let process = scene.process(Side::Java);
        let reading = scene.sits(Side::Rust, READ, "t1");
        reading.says("tryLockWL 0 20000", lock, "true");
        let dying = Seat::new(&process, Side::Java, "A", READ);
        dying.says("lock", lock, "null");
        let low = eventually(BOUND, "its watchdog has lowered the TTL", || {
            let left = scene.pttl(lock);
            (1..4000).contains(&left).then_some(left)
        });
        kill(&process);
        let killed = Instant::now();

        let writing = scene.sits(Side::Java, WRITE, "w");
        let waiting = writing.send("lock", lock);
        // Until long after the time that Java had set.
        let mut tries = 0;
        while killed.elapsed() < Duration::from_secs(9) {
            scene.no_writer(lock);
            assert!(!waiting.is_done(), "somebody reads");
            reading.says("guardHeld", lock, "true");
            tries += 1;
        }
        let remaining = reading.number("remaining", lock);
        let (kept, slot) = (scene.pttl(lock), scene.slot(&reading, lock, 1));
        eprintln!(
            "  lowered to {low} ms; then {tries} tries; {kept} ms left, {remaining} believed"
        );
        assert!(remaining > 5000, "{remaining}");
        assert!(kept.min(slot) + 100 > remaining, "{kept}, {slot}");
        reading.says("unlock", lock, "null");
        let released = Instant::now();
        waits::got(waiting, "lock");
        assert!(released.elapsed() < SOON, "{:?}", released.elapsed());
        writing.says("unlock", lock, "null");
        assert!(scene.hash(lock).is_empty());
    }
}

impl Scene {
    #[track_caller]
    fn no_writer(&self, lock: &str) {
        for side in SIDES {
            let writing = self.sits(side, WRITE, "no");
            writing.says("tryLock", lock, "false");
        }
    }
}
