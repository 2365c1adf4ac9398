//! Bad data over a lock that is held, renewed and waited for.

use std::{
    thread,
    time::{Duration, Instant},
};

use lockson::{AnyGuard, Result};

use super::{KINDS, SOON, face, fits, flush, in_time, millis, most_calls, write};
use crate::support::{Ground, connect_to, eventually};

/// What is written over a lock, each with what else it may have been meant for.
const CASES: [&str; 31] = [
    "DEL {L}",
    "DEL {L} | SET {L} x",
    "DEL {L} | RPUSH {L} x:1",
    "DEL {L} | ZADD {L} 1 x:1",
    "DEL {L} | HSET {L} x:1 1",
    "DEL {L} | HSET {L} mode neither",
    "RENAME {L} {L}-elsewhere",
    "HSET {L} {H} much",
    "HSET {L} {H} -5",
    "HSET {L} {H} nan",
    "HSET {L} {H} 9223372036854775807",
    "HSET {L} {H} 99999999999999999999",
    "HSET {L} {H} MB",
    "HSET {L} x:1 1 x:2 9223372036854775807 MB EMPTY BIN BIN",
    "PERSIST {L}",
    "PEXPIRE {L} 9000000000000000000",
    "PEXPIRE {L} 9223370000000000000",
    "HSET {L} mode neither",
    "HSET {L} mode EMPTY",
    "HSET {L} mode read",
    "HSET {L} mode write",
    "HDEL {L} mode",
    "DEL {S}:{H}:rwlock_timeout:1",
    "SET {S}:{H}:rwlock_timeout:1 x",
    "DEL {S}:{H}:rwlock_timeout:1 | RPUSH {S}:{H}:rwlock_timeout:1 x",
    "DEL {Q} {T}",
    "DEL {Q} | SET {Q} x",
    "DEL {T} | SET {T} x",
    "LPUSH {Q} x:1 x:1 MB BIN | ZADD {T} inf x:1 -inf BIN",
    "RPUSH {Q} x:1 | ZADD {T} NOW+60000 x:1",
    "DEL {L} {Q} {T} | SET {L} x | SET {Q} x | SET {T} x",
];

/// Who waits meanwhile.
const WAITS: Duration = millis(250);

#[test]
fn a_holder_and_a_waiter_have_an_answer_whatever_is_written_over_them() {
    let ground = Ground::alone();
    ground.expect_keys_left();
    thread::scope(|scope| {
        for kind in KINDS {
            let server = ground.server_with(|plain| plain);
            let ground = &ground;
            scope.spawn(move || {
                let quick =
                    |plain: lockson::ClientBuilder| plain.lock_watchdog_timeout(millis(600));
                let holding = connect_to(ground, &server.url(), quick);
                let waiting = connect_to(ground, &server.url(), quick);
                let mut redis = server.connection();
                for (number, line) in CASES.into_iter().enumerate() {
                    let what = format!("{kind}: {line}");
                    let name = format!("L{number}");
                    let ours = face(&holding, kind, &name);
                    let theirs = face(&waiting, if kind == "read" { "write" } else { kind }, &name);
                    let guard = ours.any.try_lock().expect("answered").expect("free");
                    thread::scope(|scope| {
                        let waiter = scope.spawn(|| {
                            let got = in_time(&what, WAITS, || theirs.any.try_lock_for(WAITS));
                            got.map(|guard| guard.map(AnyGuard::unlock))
                        });
                        // On a busy machine its time may be over before this is seen.
                        eventually(SOON, "it waits", || {
                            waiting.state().waiters == 1 || waiter.is_finished()
                        });
                        let before = server.script_calls();
                        let began = Instant::now();
                        write(&mut redis, &name, line).expect(line);
                        let verified = in_time(&what, SOON, || guard.verify());
                        if verified.is_err() {
                            assert!(!guard.is_held(), "{what}: told {verified:?}");
                        }
                        answered(&what, "verify", verified);
                        answered(&what, "again", again(&ours.any));
                        answered(&what, "extend", guard.extend(millis(700)));
                        if let Some(questions) = &ours.questions {
                            answered(&what, "count", (questions.count)().map(drop));
                            answered(&what, "inspect", (questions.inspect)().map(drop));
                        }
                        match waiter.join().expect("no panic") {
                            Ok(Some(released)) => answered(&what, "its release", released),
                            Ok(None) => {}
                            Err(error) => answered(&what, "the wait", Err(error)),
                        }
                        answered(&what, "unlock", in_time(&what, SOON, || guard.unlock()));
                        let calls = server.script_calls() - before;
                        let most = most_calls(began.elapsed());
                        assert!(calls <= most, "{what}: {calls} calls");
                    });
                    assert_eq!(holding.state().holds + waiting.state().holds, 0, "{what}");
                    flush(&server);
                }
            });
        }
    });
}

#[test]
fn a_writer_that_goes_on_reading_has_an_answer_whatever_is_written_over_it() {
    let ground = Ground::new();
    ground.expect_keys_left();
    let server = ground.server();
    let client = connect_to(&ground, &server.url(), |plain| plain);
    let mut redis = server.connection();
    for (number, line) in CASES.into_iter().enumerate() {
        let lock = client.read_write_lock(format!("L{number}"));
        let writing = lock.try_write().expect("answered").expect("free");
        write(&mut redis, lock.name(), line).expect(line);
        match in_time(line, SOON, || writing.downgrade()) {
            Ok(reading) => answered(line, "unlock", reading.unlock()),
            Err((error, writing)) => {
                answered(line, "downgrade", Err(error));
                answered(line, "unlock", writing.unlock());
            }
        }
        flush(&server);
    }
    assert_eq!(client.state().holds, 0);
}

/// The lock was freed, but the release said that it was no lock, and told nobody.
#[test]
fn a_fair_release_is_one_whatever_stands_at_its_queue() {
    let ground = Ground::new();
    let server = ground.server();
    let [ours, theirs] = [(); 2].map(|()| connect_to(&ground, &server.url(), |plain| plain));
    let name = &ground.name("L");
    let mut redis = server.connection();
    for force in [false, true] {
        let fair = ours.fair_lock(name);
        let guard = fair.try_lock().expect("answered").expect("free");
        write(&mut redis, name, "SET {Q} x").expect("a string");
        let plain = theirs.reentrant_lock(name);
        let heard = thread::spawn(move || plain.lock()?.unlock());
        let channel = format!("redisson_lock__channel:{{{name}}}");
        eventually(SOON, "it listens", || {
            let counts: (String, u64) = redis::cmd("PUBSUB")
                .arg(&["NUMSUB", &channel])
                .query(&mut redis)
                .expect("PUBSUB");
            counts.1 > 0
        });
        if force {
            assert!(fair.force_unlock().expect("freed"));
            let error = guard.unlock().expect_err("gone");
            assert_eq!(error.kind(), lockson::ErrorKind::NotHeld);
        } else {
            guard.unlock().expect("released");
        }
        heard.join().expect("no panic").expect("its turn comes");
        write(&mut redis, name, "DEL {Q}").expect("DEL");
    }
}

/// Once more, and out again.
fn again(lock: &lockson::AnyLock) -> Result<()> {
    match lock.try_lock()? {
        Some(guard) => guard.unlock(),
        None => Ok(()),
    }
}

#[track_caller]
fn answered(what: &str, question: &str, answer: Result<()>) {
    if let Err(error) = answer {
        let what = format!("{what}: {question}: {error}");
        assert!(what.len() < 2000, "{what}");
        fits(&what, error.kind());
    }
}
