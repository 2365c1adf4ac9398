//! One writer under a stream of readers: what it must expect, since the lock is not fair.

mod common;

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use common::{
    BOUND, Outcome,
    contend::Contest,
    private_server::PrivateServer,
    report::{Report, Row},
    samples::Samples,
    server::Counters,
};
use lockson::{Client, ReadWriteLock};

fn main() -> Outcome {
    let time = common::time_of_a_workload()?;
    let server = PrivateServer::unless_given();
    let mut counters = Counters::of(&server.url())?;
    eprintln!("server {}, {time:?} a workload", counters.version()?);
    let mut report = Report::default();
    let client = Client::connect(&server.url())?;
    let lock = client.read_write_lock("bench:readers");
    for (readers, hold, pause) in STREAMS {
        run(
            &mut report,
            &mut counters,
            &lock,
            (readers, hold, pause),
            time,
        )?;
    }
    report.table();
    Ok(())
}

/// How many read, for how long each time, and how long they pause between.
const STREAMS: [(usize, Duration, Duration); 5] = [
    (1, Duration::ZERO, Duration::ZERO),
    (4, Duration::ZERO, Duration::ZERO),
    (8, Duration::ZERO, Duration::ZERO),
    (4, Duration::from_millis(1), Duration::from_millis(1)),
    (8, Duration::from_millis(1), Duration::from_millis(1)),
];

/// The writer gives up after this much, and tries again: that is what it must expect.
const PATIENCE: Duration = Duration::from_secs(2);

fn run(
    report: &mut Report,
    counters: &mut Counters,
    lock: &ReadWriteLock,
    (readers, hold, pause): (usize, Duration, Duration),
    time: Duration,
) -> Outcome {
    let stream = format!("{readers} readers, {hold:?} in and {pause:?} out");
    let (over, reads, gave_up) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let before = counters.script_calls()?;
    let began = Instant::now();
    let (read, wrote) = thread::scope(|scope| {
        let threads: Vec<_> = (0..readers)
            .map(|_| scope.spawn(|| read(lock, hold, pause, &over, &reads)))
            .collect();
        let writer = scope.spawn(|| write(lock, &over, &gave_up));
        while began.elapsed() < time && !over.load(Ordering::Relaxed) {
            thread::sleep(
                time.saturating_sub(began.elapsed())
                    .min(Duration::from_secs(1)),
            );
            let seconds = began.elapsed().as_secs_f64();
            eprintln!(
                "{stream}: {seconds:.0} s, {} reads",
                reads.load(Ordering::Relaxed)
            );
        }
        over.store(true, Ordering::Relaxed);
        let ended = threads
            .into_iter()
            .map(|one| one.join().map_err(|_| "a reader panicked")?);
        let read = ended.collect::<Outcome<Vec<Samples>>>()?;
        let wrote = writer.join().map_err(|_| "the writer panicked")??;
        Outcome::Ok((read, wrote))
    })?;
    let time = began.elapsed();
    let all = read.iter().map(Samples::count).sum::<usize>() + wrote.count();
    let scripts = Some((counters.script_calls()? - before) as f64 / all as f64);
    let gave_up = gave_up.into_inner();
    let writer = format!("a writer beside them, gave up {gave_up} times after {PATIENCE:?}");
    for (workload, threads) in [(stream, read), (writer, vec![wrote])] {
        let contest = Contest {
            threads,
            time,
            held: Duration::ZERO,
        };
        report.add(Row {
            workload,
            outturn: contest.outturn(),
            scripts,
        });
    }
    Ok(())
}

fn read(
    lock: &ReadWriteLock,
    hold: Duration,
    pause: Duration,
    over: &AtomicBool,
    reads: &AtomicU64,
) -> Outcome<Samples> {
    let mut samples = Samples::default();
    while !over.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let guard = lock.try_read_for(BOUND)?;
        samples.push(asked.elapsed());
        let guard = guard.ok_or_else(|| format!("nobody let us in for {BOUND:?}"))?;
        thread::sleep(hold);
        guard.unlock()?;
        reads.fetch_add(1, Ordering::Relaxed);
        thread::sleep(pause);
    }
    Ok(samples)
}

fn write(lock: &ReadWriteLock, over: &AtomicBool, gave_up: &AtomicU64) -> Outcome<Samples> {
    let mut samples = Samples::default();
    while !over.load(Ordering::Relaxed) {
        let asked = Instant::now();
        match lock.try_write_for(PATIENCE)? {
            Some(guard) => {
                samples.push(asked.elapsed());
                guard.unlock()?;
            }
            None => {
                gave_up.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    Ok(samples)
}
