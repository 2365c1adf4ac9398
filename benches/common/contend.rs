//! Threads that take and release again and again for a given time.

use std::{
    process,
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    BOUND, Outcome,
    samples::{Outturn, Samples},
};

/// What the threads did, and in how much time.
pub(crate) struct Contest {
    pub(crate) threads: Vec<Samples>,
    pub(crate) time: Duration,
    /// How long they held it, all together.
    pub(crate) held: Duration,
}

/// One turn of a thread: who takes says when it has.
pub(crate) struct Turn {
    asked: Instant,
    hold: Duration,
    held: Duration,
    samples: Samples,
}

impl Turn {
    /// It is held now: that ends the wait, and begins the time for which it is held.
    pub(crate) fn taken(&mut self) {
        self.samples.push(self.asked.elapsed());
        if !self.hold.is_zero() {
            let since = Instant::now();
            thread::sleep(self.hold);
            self.held += since.elapsed();
        }
    }
}

/// So many threads, each again and again as soon as it has released; says on standard error how
/// far it is. Each thread makes for itself what it does in a turn.
pub(crate) fn run<T>(
    label: &str,
    threads: usize,
    hold: Duration,
    time: Duration,
    make: impl Fn(usize) -> Outcome<T> + Sync,
) -> Outcome<Contest>
where
    T: FnMut(&mut Turn) -> Outcome,
{
    let over = AtomicBool::new(false);
    let done = AtomicU64::new(0);
    let start = Barrier::new(threads + 1);
    let worker = |number| {
        let made = make(number);
        start.wait();
        let mut turns = made?;
        let mut turn = Turn {
            asked: Instant::now(),
            hold,
            held: Duration::ZERO,
            samples: Samples::default(),
        };
        while !over.load(Ordering::Relaxed) {
            turn.asked = Instant::now();
            turns(&mut turn)?;
            done.fetch_add(1, Ordering::Relaxed);
        }
        Outcome::Ok((turn.samples, turn.held))
    };
    thread::scope(|scope| {
        let (ended, ends) = mpsc::channel();
        for number in 0..threads {
            let (worker, over, ended) = (&worker, &over, ended.clone());
            scope.spawn(move || {
                // One that fails ends the others too.
                let result = worker(number).inspect_err(|_| over.store(true, Ordering::Relaxed));
                let _ = ended.send(result);
            });
        }
        drop(ended);
        start.wait();
        let began = Instant::now();
        watch(label, &over, &done, time);
        over.store(true, Ordering::Relaxed);
        let mut contest = Contest {
            threads: Vec::with_capacity(threads),
            time: Duration::ZERO,
            held: Duration::ZERO,
        };
        for _ in 0..threads {
            let (samples, held) = match ends.recv_timeout(BOUND) {
                Ok(result) => result?,
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err("a thread panicked".into()),
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    // The scope would wait for it.
                    eprintln!("{label}: a thread still waits {BOUND:?} after the end");
                    process::exit(1);
                }
            };
            contest.threads.push(samples);
            contest.held += held;
        }
        contest.time = began.elapsed();
        Ok(contest)
    })
}

impl Contest {
    pub(crate) fn outturn(self) -> Outturn {
        let counts: Vec<u64> = self.threads.iter().map(|one| one.count() as u64).collect();
        let all = u32::try_from(counts.iter().sum::<u64>()).unwrap_or(u32::MAX);
        Outturn {
            counts,
            time: self.time,
            held: self.held / all.max(1),
            waits: Samples::all_of(self.threads).summary(),
        }
    }
}

/// Whether it says how far it is. Who is driven by another process does not.
pub(crate) static QUIET: AtomicBool = AtomicBool::new(false);

fn watch(label: &str, over: &AtomicBool, done: &AtomicU64, time: Duration) {
    let began = Instant::now();
    while !over.load(Ordering::Relaxed) {
        let passed = began.elapsed();
        let Some(left) = time.checked_sub(passed).filter(|left| !left.is_zero()) else {
            break;
        };
        if passed >= TICK && !QUIET.load(Ordering::Relaxed) {
            eprintln!(
                "{label}: {:.0} of {:.0} s, {} acquisitions",
                passed.as_secs_f64(),
                time.as_secs_f64(),
                done.load(Ordering::Relaxed)
            );
        }
        thread::sleep(left.min(TICK));
    }
}

const TICK: Duration = Duration::from_secs(1);
