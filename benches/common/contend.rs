//! Threads that take and release one lock for a given time.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use lockson::Lock;

use super::{BOUND, Outcome, samples::Samples};

/// What the threads did, and in how much time.
pub(crate) struct Contest {
    pub(crate) threads: Vec<Samples>,
    pub(crate) time: Duration,
}

/// So many threads, each again and again as soon as it has released; says on standard error how
/// far it is.
pub(crate) fn run(
    label: &str,
    lock: &(impl Lock + Sync),
    threads: usize,
    time: Duration,
) -> Outcome<Contest> {
    let over = AtomicBool::new(false);
    let done = AtomicU64::new(0);
    let start = Barrier::new(threads + 1);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    // One that fails ends the others too.
                    until(&over, lock, &done).inspect_err(|_| over.store(true, Ordering::Relaxed))
                })
            })
            .collect();
        start.wait();
        let began = Instant::now();
        watch(label, &over, &done, time);
        over.store(true, Ordering::Relaxed);
        let ended = workers
            .into_iter()
            .map(|one| one.join().map_err(|_| "a thread panicked")?);
        let threads = ended.collect::<Outcome<Vec<Samples>>>()?;
        Ok(Contest {
            threads,
            time: began.elapsed(),
        })
    })
}

/// One thread's part: takes and releases until it is over.
pub(crate) fn until(over: &AtomicBool, lock: &impl Lock, done: &AtomicU64) -> Outcome<Samples> {
    let mut samples = Samples::default();
    while !over.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let guard = lock.try_lock_for(BOUND)?;
        samples.push(asked.elapsed());
        let guard = guard.ok_or_else(|| format!("nobody let us in for {BOUND:?}"))?;
        lockson::Guard::unlock(guard)?;
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(samples)
}

fn watch(label: &str, over: &AtomicBool, done: &AtomicU64, time: Duration) {
    let began = Instant::now();
    while !over.load(Ordering::Relaxed) {
        let passed = began.elapsed();
        let Some(left) = time.checked_sub(passed).filter(|left| !left.is_zero()) else {
            break;
        };
        if passed >= TICK {
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
