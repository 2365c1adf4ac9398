//! Thousands of holds.

use std::{
    env, thread,
    time::{Duration, Instant},
};

use lockson::LockGuard;

use super::{secs, taken, watching};
use crate::support::Ground;

/// With `LOCKSON_LONG=1` in the environment: 10,000 names for 20 seconds.
#[test]
fn thousands_of_holds_are_renewed_by_a_script_for_a_hundred() {
    let ground = Ground::alone();
    let server = ground.server();
    let (names, time) = match env::var_os("LOCKSON_LONG") {
        Some(_) => (10_000, secs(20)),
        None => (3_000, secs(4)),
    };
    let (client, told) = watching(&ground, TIMEOUT);
    let base = ground.name("L");
    let start = Instant::now();
    let guards: Vec<LockGuard> = (0..names)
        .map(|number| taken(&client.reentrant_lock(format!("{base}-{number}"))))
        .collect();
    let taking = start.elapsed();

    let (before, start) = (server.script_calls(), Instant::now());
    let mut least = Duration::MAX;
    while start.elapsed() < time {
        for guard in &guards {
            least = least.min(guard.remaining());
        }
        assert!(!least.is_zero(), "lost after {:?}", start.elapsed());
        thread::sleep(Duration::from_millis(50));
    }
    let (scripts, took) = (server.script_calls() - before, start.elapsed());
    let batches = names / 100;
    println!(
        "{names} names taken in {taking:.1?}, held for {took:.1?}: {scripts} scripts, that is \
         {:.1} ticks of {batches}; never less than {least:.1?} left",
        scripts as f64 / batches as f64
    );
    let ticks = |interval: Duration| (took.as_secs_f64() / interval.as_secs_f64()) as u64;
    // A tick may have begun before and another not have ended.
    assert!(scripts <= batches * (ticks(TIMEOUT / 3) + 2), "{scripts}");
    assert!(scripts >= batches * ticks(TIMEOUT), "{scripts}");
    assert_eq!(
        (client.state().holds, client.state().renewals),
        (guards.len(), guards.len())
    );
    assert_eq!(told.all().len(), 0, "{:?}", told.all());
    for guard in guards {
        guard.unlock().expect("held");
    }
}

const TIMEOUT: Duration = secs(2);
