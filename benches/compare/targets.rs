//! What the comparison has to come to, and what it came to.

use crate::{
    LOCKSON, PLAIN, REDIS_BENCHMARK, REDISSON,
    results::{Pick, Results},
};

/// One target and the number that was measured for it, if it was.
pub(crate) struct Target {
    pub(crate) what: String,
    pub(crate) bound: Bound,
    pub(crate) measured: Option<f64>,
}

#[derive(Clone, Copy)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Target {
    pub(crate) fn is_met(&self) -> Option<bool> {
        let measured = self.measured?;
        Some(match self.bound {
            Bound::AtLeast(bound) => measured >= bound,
            Bound::AtMost(bound) => measured <= bound,
        })
    }
}

pub(crate) fn all(results: &Results) -> Vec<Target> {
    let mut targets = Vec::new();
    let mut add = |what: String, bound, measured| {
        targets.push(Target {
            what,
            bound,
            measured,
        });
    };
    let rate = |workload: &str, other: &str| ratio(results, workload, other, |one| one.rate);
    for (threads, limit, beside_limit, beside_java) in [
        (1, PLAIN, 0.95, 1.7),
        (16, REDIS_BENCHMARK, 0.85, 4.0),
        (64, REDIS_BENCHMARK, 0.9, 3.3),
    ] {
        let workload = format!("distinct/{threads}");
        for (other, bound) in [(limit, beside_limit), (REDISSON, beside_java)] {
            add(
                format!("uncontended, {}: rate beside {other}", count(threads)),
                Bound::AtLeast(bound),
                rate(&workload, other),
            );
        }
    }
    for threads in [2, 8, 32] {
        let workload = format!("hot/{threads}");
        let hot = format!("hot, {}", count(threads));
        let ours = results.median(LOCKSON, &workload);
        add(
            format!("{hot}: rate beside {REDISSON}"),
            Bound::AtLeast(3.0),
            rate(&workload, REDISSON),
        );
        if threads > 2 {
            add(
                format!("{hot}: p99 beside {REDISSON}"),
                Bound::AtMost(0.1),
                ratio(results, &workload, REDISSON, |one| one.p99),
            );
        }
        add(
            format!("{hot}: scripts an acquisition"),
            Bound::AtMost(1.2),
            ours.and_then(|ours| ours.scripts),
        );
        add(
            format!("{hot}: the least of a thread beside the most"),
            Bound::AtLeast(0.8),
            ours.map(|ours| ours.evenness),
        );
    }
    add(
        format!("one thread of {REDISSON} against 8 of ours, held 200 µs: its p99 in ms"),
        Bound::AtMost(10.0),
        results
            .median(REDISSON, "beside")
            .map(|theirs| theirs.p99 / 1e3),
    );
    for (workload, what, bound) in [
        ("fair/2", "fair, 2 threads", 3.0),
        ("fair/8", "fair, 8 threads", 3.0),
        ("fair/32", "fair, 32 threads", 3.0),
        ("read/8", "reading, 8 threads", 2.5),
        ("mixed/8", "reading 90 %, writing 10 %, 8 threads", 2.5),
        ("multi/1", "MultiLock of 3, 1 thread", 3.0),
        ("multi/8", "MultiLock of the same 3, 8 threads", 3.0),
        ("red/1", "RedLock on 5 servers, 1 thread", 3.0),
        ("red/8", "RedLock on 5 servers, 8 threads", 3.0),
    ] {
        add(
            format!("{what}: rate beside {REDISSON}"),
            Bound::AtLeast(bound),
            rate(workload, REDISSON),
        );
    }
    add(
        format!("woken up by another process: p50 beside {REDISSON}"),
        Bound::AtMost(0.6),
        ratio(results, "wake", REDISSON, |one| one.p50),
    );
    for (what, number, bound) in [
        (
            "10,000 names held: bytes for each, beside its name",
            "bytes_a_name",
            Bound::AtMost(1024.0),
        ),
        (
            "10,000 names held: names that one script renews",
            "names_a_script",
            Bound::AtLeast(99.0),
        ),
        (
            "1,000 threads wait for one name: subscriptions",
            "subscriptions",
            Bound::AtMost(1.0),
        ),
        (
            "1,000 threads wait for one name: scripts an unlock",
            "scripts_an_unlock",
            Bound::AtMost(2.0),
        ),
    ] {
        add(what.to_owned(), bound, results.of_crowd(number));
    }
    targets
}

fn ratio(results: &Results, workload: &str, other: &str, number: Pick) -> Option<f64> {
    let ours = number(&results.median(LOCKSON, workload)?);
    let theirs = number(&results.median(other, workload)?);
    Some(ours / theirs)
}

fn count(threads: usize) -> String {
    match threads {
        1 => "1 thread".to_owned(),
        several => format!("{several} threads"),
    }
}
