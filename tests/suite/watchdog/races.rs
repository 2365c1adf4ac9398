//! Renewals and releases at the same time.

use std::{
    collections::HashSet,
    env,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use lockson::ReentrantLock;

use super::{millis, watching};
use crate::support::{Ground, Monitor};

/// `RedissonLockTest.testConcurrencyTryLockUnLock`, with a watchdog that is always at work.
///
/// 16 threads × 1,000 acquisitions and releases; `LOCKSON_ROUNDS` in the environment is another
/// number than 1,000.
#[test]
fn test_concurrency_try_lock_un_lock() {
    let ground = Ground::alone();
    let server = ground.server();
    let (client, told) = watching(&ground, TIMEOUT);
    let lock = client.reentrant_lock(ground.name("L"));
    let rounds = rounds();
    let seen = Seen::default();
    let mut renewals = Renewals::default();
    let monitor = server.monitor();
    thread::scope(|scope| {
        let _stop = Stop(&seen.stop);
        let threads: Vec<_> = (0..THREADS)
            .map(|_| scope.spawn(|| take_turns(&lock, rounds, &seen)))
            .collect();
        while !threads.iter().all(|thread| thread.is_finished()) {
            renewals.read(&monitor);
            thread::sleep(millis(50));
        }
    });
    renewals.read(&monitor);
    drop(monitor);

    let slow = seen.slow.load(Ordering::Relaxed);
    println!(
        "{} holds released, {slow} of them after a pause of the machine; {} renewals, {} more met \
         no hold any more",
        rounds * THREADS,
        renewals.done,
        renewals.too_late,
    );
    assert!(renewals.done > 0, "the watchdog was at work");
    assert_eq!(renewals.after_release, Vec::<String>::new());
    assert!(slow * 10 <= rounds * THREADS, "the machine stood still");
    let released = seen.released.lock().unwrap_or_else(PoisonError::into_inner);
    for (_, holder, reason) in told.lost() {
        assert!(!released.contains(&holder), "{holder}: {reason:?}");
    }
    assert!(!lock.is_locked().expect("answered"));
    assert_eq!((client.state().holds, client.state().renewals), (0, 0));
}

fn take_turns(lock: &ReentrantLock, rounds: usize, seen: &Seen) {
    for round in 0..rounds {
        let (start, guard) = loop {
            if seen.stop.load(Ordering::Relaxed) {
                return;
            }
            let start = Instant::now();
            if let Some(guard) = lock.try_lock().expect("answered") {
                break (start, guard);
            }
            // The server has better things to do than to refuse.
            thread::sleep(Duration::from_micros(200));
        };
        if round % 250 == 0 {
            // Long enough to be renewed.
            thread::sleep(TIMEOUT / 2);
        }
        let holder = guard.holder().to_owned();
        let held = guard.is_held();
        // The watchdog's thread, too, may have stood still when this one did.
        if start.elapsed() > TIMEOUT - millis(20) {
            seen.slow.fetch_add(1, Ordering::Relaxed);
            let _ = guard.unlock();
            continue;
        }
        assert!(held, "lost after {:?}", start.elapsed());
        if let Err(error) = guard.unlock() {
            // The pause may also come on the way to Redis.
            assert!(start.elapsed() > TIMEOUT - millis(20), "{error}");
            seen.slow.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        let mut released = seen.released.lock().unwrap_or_else(PoisonError::into_inner);
        released.insert(holder);
    }
}

#[derive(Default)]
struct Seen {
    /// The holders that were released in time.
    released: Mutex<HashSet<String>>,
    slow: AtomicUsize,
    stop: AtomicBool,
}

/// Ends the threads of a test that has failed.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// What MONITOR says of renewals and releases, in the order in which they were done.
#[derive(Default)]
struct Renewals {
    dead: HashSet<String>,
    asked: Option<String>,
    done: usize,
    too_late: usize,
    after_release: Vec<String>,
}

impl Renewals {
    fn read(&mut self, monitor: &Monitor) {
        for line in monitor.take() {
            self.read_line(&line);
        }
    }

    fn read_line(&mut self, line: &str) {
        let Some((origin, command)) = line.split_once("] ") else {
            return;
        };
        let words: Vec<&str> = command
            .split(' ')
            .map(|word| word.trim_matches('"'))
            .collect();
        if !origin.ends_with(" lua") {
            self.asked = None;
            // EVALSHA digest 1 key holder ttl: a renewal. A release has "0" and the channel
            // behind the holder, an acquisition the lease before it.
            match words[..] {
                [_, _, "1", _, holder, "0", _] => {
                    self.dead.insert(holder.to_owned());
                }
                [_, _, "1", _, holder, _] if holder.contains(':') => {
                    self.asked = Some(holder.to_owned());
                    self.too_late += 1;
                }
                _ => {}
            }
        } else if let ["pttl", _] = words[..]
            && let Some(holder) = self.asked.take()
        {
            // Only asked for when the holder is there.
            self.too_late -= 1;
            self.done += 1;
            if self.dead.contains(&holder) {
                self.after_release.push(holder);
            }
        }
    }
}

fn rounds() -> usize {
    match env::var("LOCKSON_ROUNDS") {
        Ok(rounds) => rounds.parse().expect("LOCKSON_ROUNDS is a number"),
        Err(_) => 1000,
    }
}

const THREADS: usize = 16;
const TIMEOUT: Duration = millis(90);
