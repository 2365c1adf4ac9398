//! Messages that nobody should send.

use std::{
    thread,
    time::{Duration, Instant},
};

use lockson::{AnyLock, Client};
use redis::Commands;

use super::{BOUND, LATE, channel, channels, contended, pair};
use crate::support::{Ground, eventually};

const GARBAGE: [&[u8]; 7] = [b"", b"x", b"\xff\xfe", b"1e23", b"-1", b"0\r\n", b"1"];

#[test]
fn garbage_costs_an_attempt_at_most() {
    let ground = Ground::alone();
    let server = ground.server();
    let (waiting, holding) = pair(&ground);
    let (guard, waiter) = contended(&ground, &waiting, &holding);
    let name = &guard.name().to_owned();
    let before = server.script_calls();
    let mut redis = server.connection();
    for message in GARBAGE {
        let heard: u64 = redis.publish(channel(name), message).expect("PUBLISH");
        assert_eq!(heard, 1);
    }
    // Attempts that there should not be have this time to show themselves.
    std::thread::sleep(Duration::from_millis(300));
    let calls = server.script_calls() - before;
    assert!(calls <= GARBAGE.len() as u64 + 1, "{calls} attempts");
    guard.unlock().expect("held");
    let released = Instant::now();
    let late = waiter.entered().saturating_duration_since(released);
    assert!(late < LATE, "{late:?}");
}

#[test]
fn a_flood_of_forged_messages_is_survived() {
    let ground = Ground::alone();
    let server = ground.server();
    let (waiting, holding) = pair(&ground);
    let (guard, waiter) = contended(&ground, &waiting, &holding);
    let name = &guard.name().to_owned();
    let wake = eventually(BOUND, "the private channel", || {
        let all = channels(&server);
        all.into_iter().find(|one| one.ends_with(":wake"))
    });
    let before = server.script_calls();
    let mut redis = server.connection();
    let mut flood = redis::pipe();
    for _ in 0..100 {
        flood.cmd("PUBLISH").arg(channel(name)).arg("0").ignore();
        flood.cmd("PUBLISH").arg(&wake).arg("x").ignore();
    }
    flood.query::<()>(&mut redis).expect("PUBLISH");
    // As above.
    std::thread::sleep(Duration::from_millis(500));
    let calls = server.script_calls() - before;
    println!("100 forged messages: {calls} attempts");
    assert!(calls <= 101, "{calls} attempts");
    guard.unlock().expect("held");
    let released = Instant::now();
    let late = waiter.entered().saturating_duration_since(released);
    assert!(late < LATE, "{late:?}");
}

/// Garbage and forged releases on the channels of the other kinds. Each message costs an attempt of
/// each line at most, and no line has two attempts under way: many messages cost fewer.
#[test]
fn a_flood_on_any_channel_costs_no_more_than_its_messages() {
    const FLOOD: usize = 2_000;
    const READERS: u64 = 3;
    let ground = Ground::alone();
    let server = ground.server();
    let (waiting, holding) = pair(&ground);
    let mut redis = server.connection();
    for kind in ["fair", "write", "read"] {
        let name = ground.name(kind);
        let lock = |client: &Client| -> AnyLock {
            match kind {
                "fair" => client.fair_lock(&name).into(),
                "write" => client.read_write_lock(&name).write_lock().into(),
                _ => client.read_write_lock(&name).read_lock().into(),
            }
        };
        let held: AnyLock = match kind {
            "fair" => holding.fair_lock(&name).into(),
            _ => holding.read_write_lock(&name).write_lock().into(),
        };
        let guard = held.try_lock().expect("answered").expect("free");
        let waiters = if kind == "read" { READERS } else { 1 };
        thread::scope(|scope| {
            let lines: Vec<_> = (0..waiters)
                .map(|_| {
                    scope.spawn(|| {
                        let guard = lock(&waiting).lock().expect("its turn comes");
                        let at = Instant::now();
                        guard.unlock().expect("held");
                        at
                    })
                })
                .collect();
            let channel = eventually(BOUND, "it listens", || {
                let ours = |one: &String| one.contains(&name) && !one.ends_with(":wake");
                channels(&server).into_iter().find(ours)
            });
            eventually(BOUND, "all wait", || {
                waiting.state().waiters as u64 == waiters
            });
            // What they ask when they begin to listen is no part of it.
            thread::sleep(Duration::from_millis(200));
            let before = server.script_calls();
            let mut flood = redis::pipe();
            for place in 0..FLOOD {
                let message = match place % 4 {
                    0 => GARBAGE[place / 4 % GARBAGE.len()],
                    1 => b"1",
                    _ => b"0",
                };
                flood.cmd("PUBLISH").arg(&channel).arg(message).ignore();
            }
            flood.query::<()>(&mut redis).expect("PUBLISH");
            eventually(BOUND, "the flood is over", || {
                let seen = server.script_calls();
                thread::sleep(Duration::from_millis(200));
                seen == server.script_calls()
            });
            let calls = server.script_calls() - before;
            println!("{kind}: {FLOOD} messages, {waiters} waiters: {calls} attempts");
            assert!(calls > 0, "it was heard");
            assert!(
                calls <= (FLOOD as u64 + 1) * waiters,
                "{kind}: {calls} attempts"
            );
            guard.unlock().expect("held");
            let released = Instant::now();
            for line in lines {
                let late = line.join().expect("no panic");
                let late = late.saturating_duration_since(released);
                assert!(late < LATE, "{kind}: {late:?}");
            }
        });
    }
}
