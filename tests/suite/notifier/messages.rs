//! Messages that nobody should send.

use std::time::{Duration, Instant};

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
