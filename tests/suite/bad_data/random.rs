//! Random junk at all keys while threads use them in random ways.
//!
//! `LOCKSON_SEED=7` repeats what is written and what each thread does (not how they meet);
//! `LOCKSON_ROUNDS=10000` makes it longer.

use std::{
    env,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant, SystemTime},
};

use lockson::{CancelToken, Client, ErrorKind, Result};

use super::{KINDS, SOON, face, flush, millis, most_calls, write};
use crate::support::{Ground, connect_with, eventually};

const WORKERS: u64 = 6;
const NAMES: [&str; 2] = ["A", "B"];

#[test]
fn junk_at_every_key_is_answered_in_time() {
    let seed = env::var("LOCKSON_SEED").map_or_else(
        |_| {
            let now = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
            now.subsec_nanos().into()
        },
        |seed| seed.parse().expect("LOCKSON_SEED is a number"),
    );
    let rounds: u32 = env::var("LOCKSON_ROUNDS").map_or(1_000, |rounds| {
        rounds.parse().expect("LOCKSON_ROUNDS is a number")
    });
    println!("LOCKSON_SEED={seed} LOCKSON_ROUNDS={rounds}");
    let ground = Ground::alone();
    ground.expect_keys_left();
    let server = ground.server();
    let quick = |plain: lockson::ClientBuilder| plain.lock_watchdog_timeout(millis(300));
    let clients = [connect_with(&ground, quick), connect_with(&ground, quick)];
    let (over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let (began, before) = (Instant::now(), server.script_calls());
    let written = thread::scope(|scope| {
        for worker in 0..WORKERS {
            let client = &clients[worker as usize % clients.len()];
            let (over, done) = (&over, &done);
            scope.spawn(move || {
                let mut random = Random(seed ^ (worker + 1));
                while !over.load(Ordering::Relaxed) {
                    act(client, &mut random);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // However this ends, the workers do too.
        let _over = Over(&over);
        let (mut random, mut written) = (Random(seed), 0);
        let mut redis = server.connection();
        for _ in 0..rounds {
            let name = random.of(&NAMES);
            let line = junk(&mut random);
            // Half of it meets a key of another type and is refused.
            written += u32::from(write(&mut redis, name, &line).is_ok());
            thread::sleep(millis(random.below(4)));
            if random.below(20) == 0 {
                flush(&server);
            }
        }
        written
    });
    let (calls, done) = (server.script_calls() - before, done.into_inner());
    println!("{written} pieces of junk, {done} calls of threads, {calls} scripts");
    assert!(written > rounds / 3 && done > u64::from(rounds) / 20);
    // What each call costs at most, and what the watchdogs and those who wait do meanwhile.
    let most = done * 12 + WORKERS * most_calls(began.elapsed()) * 4;
    assert!(calls <= most, "{calls} scripts, not {most} at most");
    flush(&server);
    for (client, kind) in clients.iter().flat_map(|one| KINDS.map(|kind| (one, kind))) {
        let lock = face(client, kind, NAMES[0]).any;
        // What was abandoned in doubt may be released only now.
        eventually(SOON, "all is well again", || {
            lock.try_lock().is_ok_and(|got| got.is_some())
        });
        assert_eq!(client.state().waiters, 0, "{kind}");
        assert_eq!(client.state().holds, 0, "{kind}");
    }
}

/// One thing that a thread may do with a lock; with its bound in time, and its possible errors.
fn act(client: &Client, random: &mut Random) {
    let kind = random.of(&KINDS);
    let face = face(client, kind, random.of(&NAMES));
    let wait = millis(random.below(60));
    let began = Instant::now();
    let (what, result): (&str, Result<()>) = match random.below(12) {
        0..=2 => ("try", face.any.try_lock().and_then(|got| used(got, random))),
        3..=5 => {
            let got = face.any.try_lock_for(wait);
            ("wait", got.and_then(|got| used(got, random)))
        }
        6 => {
            let got = face.any.try_lock_for_with_lease(wait, wait + millis(1));
            ("lease", got.and_then(|got| used(got, random)))
        }
        7 => {
            // It waits for ever, until somebody cancels.
            let token = CancelToken::new();
            let got = thread::scope(|scope| {
                let canceller = token.clone();
                scope.spawn(move || {
                    thread::sleep(wait);
                    canceller.cancel();
                });
                face.any.options().cancel(&token).acquire()
            });
            ("for ever", got.and_then(|got| used(got, random)))
        }
        question => match &face.questions {
            None => ("none", Ok(())),
            Some(all) => match question {
                8 => ("inspect", (all.inspect)().map(drop)),
                9 => (
                    "count",
                    (all.count)().and_then(|_| (all.locked)()).map(drop),
                ),
                10 => ("ttl", (all.ttl)().map(drop)),
                _ => ("force", (all.force)().map(drop)),
            },
        },
    };
    let took = began.elapsed();
    assert!(took < wait + LATE, "{kind} {what} {wait:?}: {took:?}");
    if let Err(error) = result {
        let known = [
            ErrorKind::Cancelled,
            ErrorKind::Lost,
            ErrorKind::NotHeld,
            ErrorKind::Protocol,
            ErrorKind::WouldDeadlock,
            ErrorKind::WrongType,
        ];
        assert!(known.contains(&error.kind()), "{kind} {what}: {error:?}");
    }
}

/// Holds for a moment, and lets go in one way or another.
fn used(guard: Option<lockson::AnyGuard>, random: &mut Random) -> Result<()> {
    let Some(guard) = guard else { return Ok(()) };
    thread::sleep(millis(random.below(8)));
    match random.below(4) {
        0 => {
            drop(guard);
            Ok(())
        }
        1 => guard.verify().and_then(|()| guard.extend(millis(50))),
        _ => guard.unlock(),
    }
}

fn junk(random: &mut Random) -> String {
    let member = |random: &mut Random| {
        let odd = [
            "x:1",
            "x:2",
            "{H}",
            "mode",
            "mode:write",
            "EMPTY",
            "BIN",
            "MB",
            "{H}:write",
        ];
        random.of(&odd)
    };
    let value = |random: &mut Random| {
        random.of(&[
            "1",
            "2",
            "0",
            "-1",
            "much",
            "read",
            "write",
            "EMPTY",
            "BIN",
            "nan",
            "inf",
            "1e300",
            "9223372036854775807",
            "-9223372036854775808",
            "99999999999999999999",
            "0x10",
            "4096",
        ])
    };
    let time = |random: &mut Random| {
        random.of(&[
            "NOW+0",
            "NOW+30",
            "NOW+60000",
            "inf",
            "-inf",
            "0",
            "-1",
            "1e308",
            "0.5",
        ])
    };
    let key = |random: &mut Random| random.of(&["{L}", "{Q}", "{T}", "{S}:{H}:rwlock_timeout:1"]);
    let ttl = |random: &mut Random| random.of(&["1", "20", "500", "9000000000000000000", "-5"]);
    match random.below(12) {
        0 => format!("DEL {}", key(random)),
        1 => format!("SET {} {}", key(random), value(random)),
        2 => {
            let key = key(random);
            format!("DEL {key} | RPUSH {key} {}", member(random))
        }
        3 => {
            let key = key(random);
            format!(
                "DEL {key} | HSET {key} {} {}",
                member(random),
                value(random)
            )
        }
        4..=5 => format!("HSET {{L}} {} {}", member(random), value(random)),
        6 => format!("HSET {{L}} mode {}", value(random)),
        7 => format!("LPUSH {{Q}} {} {}", member(random), member(random)),
        8 => format!("ZADD {{T}} {} {}", time(random), member(random)),
        9 => format!("RPUSH {{Q}} x:3 | ZADD {{T}} {} x:3", time(random)),
        10 => format!("PEXPIRE {} {}", key(random), ttl(random)),
        _ => format!("PERSIST {}", key(random)),
    }
}

/// Tells the workers that it is over, also when the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// More than a call may be late on a busy machine: a wait for a slot of 4096 included.
const LATE: Duration = Duration::from_secs(4);
