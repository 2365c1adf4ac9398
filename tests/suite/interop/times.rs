//! How soon a waiter in another process enters.

use std::time::{Duration, Instant};

use super::{
    DIRECTIONS, LOCK, Side, is_beside_java,
    processes::{java_peer, rust_peer},
    seat_clients,
    seats::{Pair, Seat},
    stage, waits,
};
use crate::support::Ground;

const ROUNDS: usize = 20;

#[test]
fn beside_rust() {
    let ground = Ground::alone();
    let (one, two) = (rust_peer(), rust_peer());
    seat_clients(&[&one, &two], &ground.server().url());
    let pair = Pair {
        first: Seat::new(&one, Side::Rust, "A", LOCK),
        second: Seat::new(&two, Side::Rust, "B", LOCK),
        kind: LOCK,
        ground: &ground,
    };
    after_a_release(&pair);
    after_a_death(&pair);
}

#[test]
fn beside_java() {
    if is_beside_java() {
        let ground = Ground::alone();
        let java = java_peer();
        let plays = [
            (
                "after a release",
                [LOCK; 2],
                after_a_release as fn(&Pair<'_>),
            ),
            ("after a death", [LOCK; 2], after_a_death),
        ];
        stage(&ground, &java, &DIRECTIONS[2..], &plays);
    }
}

/// From the word that it is released to the word that the other has it, lines between processes
/// included.
fn after_a_release(pair: &Pair<'_>) {
    let second = pair.second.on("w");
    let lock = &pair.name();
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        pair.first.says("tryLockWL 0 60000", lock, "true");
        let waiting = waits::waits(pair, &second, "lock", lock);
        pair.first.says("unlock", lock, "null");
        let released = Instant::now();
        waits::got(waiting, "lock");
        times.push(released.elapsed());
        second.says("unlock", lock, "null");
    }
    let (median, longest) = summary(times);
    eprintln!("  after a release: median {median:?}, longest {longest:?} of {ROUNDS}");
    assert!(median < Duration::from_millis(100), "{median:?}");
}

/// From the end of the TTL of somebody who will not release.
fn after_a_death(pair: &Pair<'_>) {
    let late = (0..5).map(|_| waits::late_after_death(pair)).collect();
    let (median, longest) = summary(late);
    eprintln!("  after a death: median {median:?}, longest {longest:?} of 5");
    assert!(median < Duration::from_millis(200), "{median:?}");
}

fn summary(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() - 1])
}
