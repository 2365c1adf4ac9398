//! Bad data before anybody comes: each kind answers as the table says.

use std::thread;

use lockson::Result;

use super::{KINDS, SOON, WAIT, face, fits, flush, in_time, most_calls, write};
use crate::support::{Ground, Server, connect_to};

/// What is written, and for each kind what a single try and a wait come to: F it is taken, T others
/// have it, W the error is `WrongType`.
const CASES: [(&str, &str); 41] = [
    ("SET {L} x", "WW WW WW WW WW"),
    ("SET {L} 9223372036854775807", "WW WW WW WW WW"),
    ("RPUSH {L} x:1", "WW WW WW WW WW"),
    ("SADD {L} x:1", "WW WW WW WW WW"),
    ("ZADD {L} 1 x:1", "WW WW WW WW WW"),
    ("XADD {L} * a b", "WW WW WW WW WW"),
    ("PFADD {L} a", "WW WW WW WW WW"),
    // Counts.
    ("HSET {L} x:1 1", "TT TT TT TT TT"),
    ("HSET {L} x:1 0", "TT TT TT TT TT"),
    ("HSET {L} x:1 much", "TT TT TT TT TT"),
    ("HSET {L} x:1 -9223372036854775808", "TT TT TT TT TT"),
    ("HSET {L} x:1 99999999999999999999", "TT TT TT TT TT"),
    ("HSET {L} x:1 BIN BIN EMPTY", "TT TT TT TT TT"),
    ("HSET {L} EMPTY EMPTY", "TT TT TT TT TT"),
    ("HSET {L} MB MB", "TT TT TT TT TT"),
    (
        "HSET {L} x:1 1 | PEXPIRE {L} 9000000000000000000",
        "TT TT TT TT TT",
    ),
    // Modes.
    ("HSET {L} mode neither x:1 1", "TT TT TT TT TT"),
    ("HSET {L} mode EMPTY", "TT TT TT TT TT"),
    ("HSET {L} mode MB", "TT TT TT TT TT"),
    ("HSET {L} mode READ x:1 1", "TT TT TT TT TT"),
    ("HSET {L} mode write", "TT TT TT TT TT"),
    ("HSET {L} mode read", "TT TT FF TT TT"),
    (
        "HSET {L} mode read x:1 9223372036854775807",
        "TT TT FF TT TT",
    ),
    (
        "HSET {L} mode read x:1 nan x:2 inf x:3 -inf x:4 0x7f",
        "TT TT FF TT TT",
    ),
    (
        "HSET {L} mode read MB 9223372036854775807",
        "TT TT FF TT TT",
    ),
    ("HSET {L} mode read x:1:write 1", "TT TT FF TT TT"),
    ("HSET {L} mode read mode:write 1 MB MB", "TT TT FF TT TT"),
    // Slots.
    ("SET {S}:x:1:rwlock_timeout:1 1", "FF FF FF FF FF"),
    (
        "HSET {L} mode read x:1 1 | RPUSH {S}:x:1:rwlock_timeout:1 a",
        "TT TT FF TT TT",
    ),
    (
        "HSET {L} x:1 1 | SET {S}:x:1:rwlock_timeout:1 1",
        "TT TT TT TT TT",
    ),
    // The queue of the fair lock, and its times.
    ("SET {Q} x", "FF WW FF FF FF"),
    ("SET {T} x", "FF FF FF FF FF"),
    ("RPUSH {Q} x:1 | SET {T} x", "FF WW FF FF FF"),
    ("HSET {L} x:1 1 | SET {T} x", "TT TW TT TT TT"),
    ("RPUSH {Q} x:1 x:2 EMPTY BIN", "FF FF FF FF FF"),
    ("ZADD {T} NOW+60000 x:1 -1 x:2", "FF FF FF FF FF"),
    (
        "RPUSH {Q} x:1 x:1 x:2 x:1 | ZADD {T} -1 x:1 -inf x:2",
        "FF FF FF FF FF",
    ),
    (
        "RPUSH {Q} x:1 x:1 | ZADD {T} NOW+60000 x:1",
        "FF TT FF FF FF",
    ),
    (
        "RPUSH {Q} MB | ZADD {T} 9223372036854775807.5 MB",
        "FF TT FF FF FF",
    ),
    ("RPUSH {Q} x:1 | ZADD {T} inf x:1", "FF FF FF FF FF"),
    (
        "HSET {L} x:1 1 | RPUSH {Q} x:1 x:2 | ZADD {T} NOW+60000 x:1 inf x:2",
        "TT TT TT TT TT",
    ),
];

#[test]
fn each_kind_answers_as_the_table_says() {
    let ground = Ground::alone();
    ground.expect_keys_left();
    thread::scope(|scope| {
        for (place, kind) in KINDS.into_iter().enumerate() {
            let server = ground.server_with(|plain| plain);
            let ground = &ground;
            scope.spawn(move || {
                let client = connect_to(ground, &server.url(), |plain| plain);
                let mut wrong = Vec::new();
                for (number, (line, expected)) in CASES.into_iter().enumerate() {
                    let expected = expected.split(' ').nth(place).expect("five kinds");
                    let name = format!("L{number}");
                    let asked = ask(&client, &server, kind, &name, line);
                    if asked != expected {
                        wrong.push(format!("{kind}: {line}: {asked}, not {expected}"));
                    }
                }
                assert!(wrong.is_empty(), "{wrong:#?}");
            });
        }
    });
}

/// What a try and a wait come to; all else must be answered, or name an error.
fn ask(client: &lockson::Client, server: &Server, kind: &str, name: &str, line: &str) -> String {
    let what = format!("{kind}: {line}");
    let face = face(client, kind, name);
    let mut redis = server.connection();
    let mut said = String::new();
    for wait in [None, Some(WAIT)] {
        flush(server);
        write(&mut redis, name, line).expect(line);
        let before = server.script_calls();
        let got = in_time(&what, WAIT, || match wait {
            None => face.any.try_lock(),
            Some(wait) => face.any.try_lock_for(wait),
        });
        let calls = server.script_calls() - before;
        assert!(calls <= most_calls(WAIT), "{what}: {calls} calls");
        said.push(match got {
            Ok(Some(guard)) => {
                guard.verify().expect(line);
                guard.unlock().expect(line);
                'F'
            }
            Ok(None) => 'T',
            Err(error) if error.kind() == lockson::ErrorKind::WrongType => {
                assert_eq!(error.name(), Some(name), "{what}: {error:?}");
                'W'
            }
            Err(error) => panic!("{what}: {error:?}"),
        });
        nobody_is_left_behind(&mut redis, &what, name, client.id());
    }
    flush(server);
    write(&mut redis, name, line).expect(line);
    if let Some(questions) = &face.questions {
        let answered = |question: &str, failed: Option<lockson::Error>| {
            let what = format!("{what}: {question}");
            if let Some(error) = failed {
                fits(&what, error.kind());
                assert!(error.to_string().len() < 2000, "{what}: too long");
                assert!(format!("{error:?}").len() < 4000, "{what}: too long");
            }
        };
        answered("is_locked", (questions.locked)().err());
        answered("hold_count", (questions.count)().err());
        answered("remaining_ttl", (questions.ttl)().err());
        answered("inspect", (questions.inspect)().err());
        let forced = in_time(&what, SOON, || (questions.force)());
        if let Ok(true) = forced {
            let left = face.any.try_lock().map(|guard| guard.is_some());
            assert!(
                matches!(left, Ok(true)) || kind == "fair",
                "{what}: {left:?}"
            );
        }
        answered("force_unlock", forced.err());
    }
    said
}

/// No entry of ours stays in a queue or a hash that we were refused.
#[track_caller]
fn nobody_is_left_behind(redis: &mut redis::Connection, what: &str, name: &str, client: &str) {
    let queue = format!("redisson_lock_queue:{{{name}}}");
    let times = format!("redisson_lock_timeout:{{{name}}}");
    let found = |answer: redis::RedisResult<Vec<Vec<u8>>>| {
        let mut items = answer.unwrap_or_default().into_iter();
        items.any(|item| item.starts_with(client.as_bytes()))
    };
    let left: Result<[bool; 3], ()> = Ok([
        found(redis::cmd("LRANGE").arg(&queue).arg(0).arg(-1).query(redis)),
        found(redis::cmd("ZRANGE").arg(&times).arg(0).arg(-1).query(redis)),
        found(redis::cmd("HKEYS").arg(name).query(redis)),
    ]);
    assert_eq!(left, Ok([false; 3]), "{what}: queue, times, hash");
}
