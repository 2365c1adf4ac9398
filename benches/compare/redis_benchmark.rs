//! The limit of clients that do not pipeline: `redis-benchmark -P 1` with the same two scripts.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use crate::common::{
    Outcome, plain,
    samples::{Outturn, Summary},
};

/// Locks fresh names and releases prepared ones, each for so long; answers what a client would get
/// that does one after the other, as often: half the harmonic mean.
pub(crate) fn run(
    url: &str,
    redis: &mut redis::Connection,
    clients: usize,
    time: Duration,
) -> Outcome<Outturn> {
    let began = Instant::now();
    let acquire = plain::load(redis, plain::ACQUIRE)?;
    let release = plain::load(redis, plain::RELEASE)?;
    let lock = [&*acquire, "1", KEY, "30000", HOLDER, "1"];
    let unlock = [&*release, "1", KEY, HOLDER, "0", CHANNEL];
    // A first few say how many fit into the time.
    let (guess, _) = benchmark(url, clients, FEW, MANY, &lock)?;
    let count = ((guess * time.as_secs_f64()) as u64).max(FEW);
    redis::cmd("FLUSHDB").query::<()>(redis)?;
    let (locks, p99) = benchmark(url, clients, count, MANY, &lock)?;
    redis::cmd("FLUSHDB").query::<()>(redis)?;
    // It takes names by chance: of ten times as many, it seldom takes one twice.
    prepare(redis, count * 10)?;
    let (unlocks, _) = benchmark(url, clients, count, count * 10, &unlock)?;
    redis::cmd("FLUSHDB").query::<()>(redis)?;
    let pairs = 1.0 / (1.0 / locks + 1.0 / unlocks);
    let time = began.elapsed();
    Ok(Outturn {
        counts: vec![(pairs * time.as_secs_f64()) as u64],
        time,
        held: Duration::ZERO,
        waits: Summary {
            p50: Duration::ZERO,
            p99,
            max: Duration::ZERO,
        },
    })
}

/// Commands a second, and the 99th percentile.
fn benchmark(
    url: &str,
    clients: usize,
    count: u64,
    names: u64,
    script: &[&str],
) -> Outcome<(f64, Duration)> {
    let port = url
        .trim_end_matches('/')
        .rsplit(':')
        .next()
        .ok_or("a port")?;
    let output = Command::new("redis-benchmark")
        .args(["-h", "127.0.0.1", "-p", port, "-P", "1", "--csv"])
        .args(["-c", &clients.to_string(), "-n", &count.to_string()])
        .args(["-r", &names.to_string(), "EVALSHA"])
        .args(script)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers = text.lines().last().unwrap_or_default().split("\",\"");
    let numbers: Vec<&str> = numbers.map(|word| word.trim_matches('"')).collect();
    // "test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms",…
    let number = |place: usize| {
        let number = numbers.get(place).and_then(|word| word.parse::<f64>().ok());
        number.ok_or_else(|| format!("redis-benchmark says {text:?}"))
    };
    let p99 = Duration::try_from_secs_f64(number(numbers.len().saturating_sub(2))? / 1e3)?;
    let rate = number(numbers.len().saturating_sub(7))?;
    Ok((rate, p99))
}

fn prepare(redis: &mut redis::Connection, count: u64) -> Outcome {
    for first in (0..count).step_by(PORTION as usize) {
        redis::cmd("EVAL")
            .arg(PREPARE)
            .arg(0)
            .arg(first)
            .arg((first + PORTION).min(count))
            .arg(HOLDER)
            .query::<()>(redis)?;
    }
    Ok(())
}

const PREPARE: &str = "
for number = ARGV[1], ARGV[2] - 1 do
    local key = string.format('bench:%012d', number)
    redis.call('hset', key, ARGV[3], 1)
    redis.call('pexpire', key, 300000)
end";
const KEY: &str = "bench:__rand_int__";
const CHANNEL: &str = "redisson_lock__channel:{bench:000000000000}";
const HOLDER: &str = "6ab1fd60-36f4-4ef2-9d4d-ffeb5c01b1a5:1";
const FEW: u64 = 2000;
const MANY: u64 = 1_000_000_000;
const PORTION: u64 = 20_000;
