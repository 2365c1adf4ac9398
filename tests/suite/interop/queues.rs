//! One queue of a fair lock in which Java and Rust stand.

mod clocks;
mod scene;

use std::time::{Duration, Instant};

use super::{
    FAIR, LOCK,
    scene::{SOON, Scene},
    seats::{BOUND, Seat, Side},
};
use crate::support::eventually;

/// Whoever releases, and however long each side lets a silent one stand there.
#[test]
fn who_came_first_is_first() {
    let (java, rust) = (Side::Java, Side::Rust);
    for (of_rust, of_java) in [("", ""), ("fairWait=2000", "fairWait=5000")] {
        let Some(scene) = Scene::open(WATCHDOG, of_rust, of_java) else {
            return;
        };
        for holder in [java, rust] {
            scene.plays_in_order(holder, &[java, rust, java, rust, java, rust]);
            scene.plays_in_order(holder, &[rust, rust, java, java, rust, java]);
        }
    }
}

/// What our own client hands over without a message does not confuse those behind.
#[test]
fn a_hand_over_inside_our_client_leaves_the_others_their_turn() {
    if let Some(scene) = Scene::open(WATCHDOG, "", "") {
        let (java, rust) = (Side::Java, Side::Rust);
        scene.plays_in_order(rust, &[rust, rust, rust, java, java, rust, rust, java]);
    }
}

#[test]
fn a_cancelled_waiter_is_passed() {
    passed(Way::Cancelled, "fairWait=1000", "fairWait=1000");
}

#[test]
fn a_waiter_whose_time_is_over_is_passed() {
    passed(Way::TimedOut, "fairWait=1000", "fairWait=1000");
}

#[test]
fn a_killed_waiter_is_passed() {
    passed(Way::Killed, "fairWait=1000", "fairWait=1000");
}

#[test]
fn a_killed_waiter_is_passed_after_what_its_own_side_allows() {
    passed(Way::Killed, "fairWait=600", "fairWait=1500");
}

/// The times run out several times over while the holder renews. Redisson's first waiter throws
/// itself out then and goes to the end; ours stays where it is.
#[test]
fn a_long_hold_costs_nobody_of_ours_its_place() {
    let watchdog = Duration::from_millis(900);
    let (java, rust) = (Side::Java, Side::Rust);
    for holder in [java, rust] {
        let Some(scene) = Scene::open(watchdog, "fairWait=300", "fairWait=300") else {
            return;
        };
        let lock = &scene.ground.name("L");
        let holding = scene.seat(holder, "holder");
        holding.says("tryLock", lock, "true");
        let mut waiting: Vec<_> = [(java, "w0"), (rust, "w1"), (java, "w2"), (rust, "w3")]
            .map(|(side, thread)| scene.joins(scene.seat(side, thread), "lock", lock))
            .into();
        let ours = [waiting[1].entry.clone(), waiting[3].entry.clone()];
        let held = Instant::now();
        // Every moment of it is looked at: who was thrown out and came back is seen.
        while held.elapsed() < Duration::from_secs(3) {
            let mut there = scene.queue(lock);
            there.retain(|entry| ours.contains(entry));
            assert_eq!(there, ours, "ours stand there, in their order");
        }
        holding.says("unlock", lock, "null");
        // The first of Java's may have thrown itself out; nobody else has been first.
        let entered = eventually(BOUND, "somebody enters", || {
            scene.hash(lock).into_keys().next()
        });
        if entered != waiting[0].entry {
            waiting.rotate_left(1);
        }
        eprintln!("  {holder:?} held for {:?}", held.elapsed());
        scene.enter_in_order(lock, waiting, Instant::now(), SOON);
    }
}

/// By the plain lock of that name. Java tells nobody when its queue is empty, so who waits for it
/// looks by itself.
#[test]
fn a_fair_release_wakes_a_plain_waiter_of_the_other_side() {
    let Some(scene) = Scene::open(Duration::from_secs(30), "", "") else {
        return;
    };
    for (holder, waiter, bound) in [
        (Side::Rust, Side::Java, SOON),
        (Side::Java, Side::Rust, Duration::from_secs(4)),
    ] {
        let lock = &scene.ground.name("L");
        let holding = scene.seat(holder, "holder");
        holding.says("tryLock", lock, "true");
        let plain = scene.sits(waiter, LOCK, "plain");
        // So that the server knows its scripts, and each call below is a try.
        plain.says("tryLock", "warm-up", "true");
        plain.says("unlock", "warm-up", "null");
        let server = scene.ground.server();
        let calls = server.script_calls();
        let waiting = plain.send("lock", lock);
        // Once before it listens, and once when it does: after that only a message helps.
        eventually(BOUND, "it has tried twice", || {
            server.script_calls() >= calls + 2
        });
        holding.says("unlock", lock, "null");
        let released = Instant::now();
        assert_eq!(waiting.wait(BOUND).as_deref(), Ok("null"));
        let took = released.elapsed();
        eprintln!("  {holder:?} released, {waiter:?} in after {took:?}");
        assert!(took < bound, "{took:?}");
        plain.says("unlock", lock, "null");
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Cancelled,
    Killed,
    TimedOut,
}

/// The first waiter goes in some way; those of both sides behind it enter in order, and not before
/// it may be passed if it is still there.
fn passed(way: Way, of_rust: &str, of_java: &str) {
    let Some(scene) = Scene::open(WATCHDOG, of_rust, of_java) else {
        return;
    };
    for side in [Side::Java, Side::Rust] {
        let lock = &scene.ground.name("L");
        let holding = scene.seat(side.other(), "holder");
        // Before the lease begins: a JVM takes its time.
        let process = (way == Way::Killed).then(|| scene.process(side));
        holding.says("tryLockWL 0 1500", lock, "true");
        let goes = match &process {
            Some(process) => Seat::new(process, side, "A", FAIR),
            None => scene.seat(side, "goes"),
        };
        let operation = match way {
            Way::Cancelled => "lockInterruptibly",
            Way::Killed => "lock",
            Way::TimedOut => "tryLockW 600",
        };
        let going = scene.joins(goes, operation, lock);
        let waiting = [(side.other(), "w1"), (side, "w2")]
            .map(|(side, thread)| scene.joins(scene.seat(side, thread), "lock", lock));
        match (way, &process) {
            (Way::Cancelled, _) => {
                goes.cancel();
                let refusal = going.pending.wait(BOUND).expect_err("it was cancelled");
                assert_eq!(refusal.kind, "Cancelled", "{refusal}");
            }
            (Way::TimedOut, _) => {
                assert_eq!(going.pending.wait(BOUND).as_deref(), Ok("false"));
            }
            (Way::Killed, process) => process.as_ref().expect("it has its own").kill(),
        }
        let left = scene.left(lock, &going.entry);
        // Java forgets to leave when it is interrupted.
        let ghost = way == Way::Killed || (way == Way::Cancelled && side == Side::Java);
        assert_eq!(left.is_some(), ghost, "{way:?} {side:?}");
        holding.says("unlock", lock, "null");
        let since = Instant::now();
        let left = left.unwrap_or(Duration::ZERO);
        let bound = left + SOON + if ghost { SOON } else { Duration::ZERO };
        let first = scene.enter_in_order(lock, waiting.into(), since, bound);
        eprintln!("  {way:?} {side:?}: {left:?} were left, in after {first:?}");
        assert!(first + Duration::from_millis(200) > left, "not before");
    }
}

const WATCHDOG: Duration = Duration::from_secs(3);
