//! One holds and the other waits.

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use super::{
    processes::{java_peer, rust_peer},
    seats::{BOUND, Pair, Seat, Side, WATCHDOG},
};
use crate::support::{Pending, eventually};

pub(super) fn release_lets_the_waiting_other_in(pair: &Pair<'_>) {
    let (first, second) = (&pair.first, &waiter(pair));
    let mut times = Vec::new();
    for wait in [
        "lock",
        "tryLockW 15000",
        "lockL 60000",
        "tryLockWL 15000 60000",
    ] {
        let lock = &pair.name();
        first.says("tryLockWL 0 60000", lock, "true");
        let waiting = waits(pair, second, wait, lock);
        first.says("unlock", lock, "null");
        let released = Instant::now();
        got(waiting, wait);
        times.push(released.elapsed());
        let holder = second.holder(lock);
        assert_eq!(pair.hash(lock), second.kind.held(&holder, 1));
        first.says("tryLock", lock, "false");
        second.says("unlock", lock, "null");
        assert_eq!(pair.hash(lock), BTreeMap::new());
    }
    eprintln!("  in after {times:?}");
    assert!(times.iter().all(|time| *time < SOON), "{times:?}");
}

/// Both sides must meet on one channel whatever the name.
pub(super) fn braces_do_not_keep_the_message(pair: &Pair<'_>) {
    let (first, second) = (&pair.first, &waiter(pair));
    for lock in ["{a}b", "a{b}c", "{}x", "}{", "a}b", "{a"] {
        first.says("tryLockWL 0 60000", lock, "true");
        second.says("tryLock", lock, "false");
        let waiting = waits(pair, second, "tryLockW 15000", lock);
        first.says("unlock", lock, "null");
        let released = Instant::now();
        got(waiting, lock);
        let took = released.elapsed();
        assert!(took < SOON, "{lock}: {took:?}");
        second.says("unlock", lock, "null");
        assert_eq!(pair.hash(lock), BTreeMap::new());
    }
}

pub(super) fn watchdog_keeps_the_waiting_other_out(pair: &Pair<'_>) {
    let (first, second) = (&pair.first, &waiter(pair));
    let lock = &pair.name();
    first.says("tryLock", lock, "true");
    let field = first.holder(lock);
    let wait = (WATCHDOG + WATCHDOG / 2).as_millis();
    second.says(&format!("tryLockW {wait}"), lock, "false");
    assert_eq!(pair.hash(lock), pair.kind.held(&field, 1));
    first.says("isHeld", lock, "true");
    first.says("unlock", lock, "null");
}

pub(super) fn killed_holder(pair: &Pair<'_>) {
    let late = late_after_death(pair);
    assert!(late < SOON, "{late:?}");
}

/// Kills the holder; answers how long after the end of its time the other entered.
pub(super) fn late_after_death(pair: &Pair<'_>) -> Duration {
    let second = &waiter(pair);
    let lock = &pair.name();
    // A process of its own, since it dies.
    let victim = match pair.first.side {
        Side::Java => java_peer(),
        Side::Rust => rust_peer(),
    };
    let url = pair.ground.server().url();
    let request = format!("client A single {url} {}", WATCHDOG.as_millis() / 2);
    victim.call(&request).expect("a client is made");
    let holder = Seat::new(&victim, pair.first.side, "A", pair.kind);
    holder.says("tryLock", lock, "true");
    let waiting = waits(pair, second, "tryLockW 15000", lock);
    victim.kill();
    let left = second.on("t9").number("ttl", lock);
    let killed = Instant::now();
    let left = Duration::from_millis(u64::try_from(left).expect("it ends by itself"));
    got(waiting, "tryLockW");
    let took = killed.elapsed();
    eprintln!("  {left:?} were left, in after {took:?}");
    assert!(took + Duration::from_millis(100) > left, "not before");
    second.says("unlock", lock, "null");
    took.saturating_sub(left)
}

pub(super) fn who_gives_up_leaves_nothing(pair: &Pair<'_>) {
    let (first, second) = (&pair.first, &waiter(pair));
    let lock = &pair.name();
    first.says("tryLockWL 0 60000", lock, "true");
    let field = first.holder(lock);
    second.says("tryLockW 300", lock, "false");
    for wait in ["tryLockW 20000", "lockInterruptibly"] {
        let waiting = waits(pair, second, wait, lock);
        // Interrupted as soon as it listens, Redisson was seen to stay subscribed.
        thread::sleep(Duration::from_millis(200));
        second.cancel();
        let cancelled = Instant::now();
        let refusal = waiting.wait(BOUND).expect_err("it was cancelled");
        assert_eq!(refusal.kind, "Cancelled", "{wait}: {refusal}");
        assert!(cancelled.elapsed() < SOON, "{wait}");
    }
    assert_eq!(pair.hash(lock), pair.kind.held(&field, 1));
    eventually(BOUND, "nobody listens any more", || {
        pair.listeners(lock) == 0
    });
    first.says("unlock", lock, "null");
    second.says("tryLock", lock, "true");
    second.says("unlock", lock, "null");
    assert_eq!(pair.hash(lock), BTreeMap::new());
}

/// Eight threads of one client pass the lock around; the other client gets in between.
pub(super) fn a_crowd_lets_the_other_in(pair: &Pair<'_>) {
    const THREADS: [&str; 8] = ["c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"];
    const ROUNDS: usize = 150;
    let (first, second) = (&pair.first, &waiter(pair));
    let lock = &pair.name();
    first.says("tryLockWL 0 60000", lock, "true");
    let waiting = waits(pair, second, "tryLockW 15000", lock);
    let crowd: Vec<Pending> = THREADS
        .iter()
        .flat_map(|thread| {
            let seat = first.on(thread);
            (0..ROUNDS).flat_map(move |_| [seat.send("lock", lock), seat.send("unlock", lock)])
        })
        .collect();
    first.says("unlock", lock, "null");
    let began = Instant::now();
    got(waiting, "tryLockW");
    let mut longest = began.elapsed();
    let mut entries = 1;
    second.says("unlock", lock, "null");
    while crowd.iter().any(|one| !one.is_done()) {
        let asked = Instant::now();
        second.says("tryLockW 15000", lock, "true");
        longest = longest.max(asked.elapsed());
        entries += 1;
        second.says("unlock", lock, "null");
    }
    for answer in crowd {
        assert_eq!(answer.wait(BOUND).as_deref(), Ok("null"));
    }
    let all = began.elapsed();
    let share = 100 * entries / (entries + THREADS.len() * ROUNDS);
    eprintln!("  {entries} entries ({share} %), the longest wait {longest:?}; all in {all:?}");
    assert!(entries > 1, "it gets in more than once");
    assert!(longest < Duration::from_secs(5), "{longest:?}");
    assert_eq!(pair.hash(lock), BTreeMap::new());
}

/// The second, on a thread of its own: the clients of one process share their threads by name.
fn waiter<'a>(pair: &Pair<'a>) -> Seat<'a> {
    pair.second.on("w")
}

/// Has a seat wait, and returns when it listens.
#[track_caller]
pub(super) fn waits(pair: &Pair<'_>, seat: &Seat<'_>, operation: &str, lock: &str) -> Pending {
    eventually(BOUND, "nobody listens", || pair.listeners(lock) == 0);
    let waiting = seat.send(operation, lock);
    eventually(BOUND, "the waiter listens", || pair.listeners(lock) > 0);
    if seat.side == Side::Java && pair.kind.message == "1" {
        // That wakes only who sleeps: between its last try and its sleep, Redisson misses it.
        thread::sleep(Duration::from_millis(200));
    }
    assert!(!waiting.is_done(), "{operation}: it is held");
    waiting
}

#[track_caller]
pub(super) fn got(waiting: Pending, operation: &str) {
    let answer = waiting.wait(BOUND);
    let answer = answer.as_deref();
    assert!(
        matches!(answer, Ok("null" | "true")),
        "{operation}: {answer:?}"
    );
}

const SOON: Duration = Duration::from_secs(1);
