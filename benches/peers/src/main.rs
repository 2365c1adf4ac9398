//! The workloads of `benches/` on other Rust crates that block, by the same orders and with the same answers.
//!
//! `lockson-peers CRATE URL`; see `benches/common/serve.rs` for the orders.

use std::{
    error::Error,
    io::{self, BufRead},
    process,
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use redisson::{RedissonClient, RedissonConfig};
use redlock::RedLock;
use serde_json::{Value, json};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Takes it, says so, and releases it.
type Turns<'a> = Box<dyn FnMut(&mut dyn FnMut()) -> Outcome + 'a>;

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let peer = arguments.next().ok_or("which crate?")?;
    let url = arguments.next().ok_or("which server?")?;
    let redlock = RedLock::new(vec![url.as_str()]);
    let config = RedissonConfig::single_server(&url).with_pool_size(64);
    let redisson = RedissonClient::new(config)?;
    let (sender, orders) = std::sync::mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
        // Whatever is under way: nobody is there any more to hear of it.
        process::exit(0);
    });
    println!("ready");
    for order in orders {
        let make = |name: &str, number: usize| match &*peer {
            "redlock" => Ok(of_redlock(&redlock, name)),
            "redisson" => Ok(of_redisson(&redisson, name)),
            other => Err(format!("no crate {other} at thread {number}").into()),
        };
        let answer = follow(&order, &make);
        println!(
            "{}",
            answer.unwrap_or_else(|error| json!({"error": error.to_string()}))
        );
    }
    Ok(())
}

fn of_redlock<'a>(manager: &'a RedLock, name: &str) -> Turns<'a> {
    let name = name.as_bytes().to_vec();
    Box::new(move |taken| {
        let guard = manager.acquire(&name, 30_000)?;
        taken();
        drop(guard);
        Ok(())
    })
}

fn of_redisson<'a>(client: &RedissonClient, name: &str) -> Turns<'a> {
    let lock = client.get_lock(name);
    Box::new(move |taken| {
        lock.lock_with_lease_time(Duration::from_secs(30))?;
        taken();
        // It answers `false` where it has released.
        lock.unlock()?;
        Ok(())
    })
}

fn follow<'a>(
    order: &str,
    make: &(dyn Fn(&str, usize) -> Outcome<Turns<'a>> + Sync),
) -> Outcome<Value> {
    let words: Vec<&str> = order.split(' ').collect();
    let ["run", workload, seconds, name] = words[..] else {
        return Err(format!("no order: {order:?}").into());
    };
    let parts: Vec<&str> = workload.split('/').collect();
    let threads: usize = parts.get(1).ok_or("how many threads?")?.parse()?;
    let hold = Duration::from_micros(parts.get(2).map_or(Ok(0), |hold| hold.parse())?);
    let time = Duration::try_from_secs_f64(seconds.parse()?)?;
    let is_distinct = match parts[0] {
        "distinct" => true,
        "hot" => false,
        other => return Err(format!("no workload: {other}").into()),
    };
    let over = AtomicBool::new(false);
    let start = Barrier::new(threads + 1);
    let worker = |number: usize| {
        let own = format!("{name}:{number}");
        let made = make(if is_distinct { &own } else { name }, number);
        start.wait();
        let mut turns = made?;
        let (mut waits, mut held) = (Vec::new(), Duration::ZERO);
        while !over.load(Ordering::Relaxed) {
            let asked = Instant::now();
            turns(&mut || {
                waits.push(asked.elapsed());
                if !hold.is_zero() {
                    let since = Instant::now();
                    thread::sleep(hold);
                    held += since.elapsed();
                }
            })?;
        }
        Outcome::Ok((waits, held))
    };
    let (results, time) = thread::scope(|scope| {
        let worker = &worker;
        let workers: Vec<_> = (0..threads)
            .map(|number| scope.spawn(move || worker(number)))
            .collect();
        start.wait();
        let began = Instant::now();
        thread::sleep(time);
        over.store(true, Ordering::Relaxed);
        let ended = workers
            .into_iter()
            .map(|one| one.join().map_err(|_| "a thread panicked")?);
        let results = ended.collect::<Outcome<Vec<_>>>()?;
        Outcome::Ok((results, began.elapsed()))
    })?;
    let counts: Vec<usize> = results.iter().map(|(waits, _)| waits.len()).collect();
    let held: Duration = results.iter().map(|(_, held)| *held).sum();
    let mut all: Vec<Duration> = results.into_iter().flat_map(|(waits, _)| waits).collect();
    all.sort_unstable();
    let at = |part: f64| {
        let rank = (all.len() as f64 * part).ceil() as usize;
        let wait = all.get(rank.saturating_sub(1)).copied().unwrap_or_default();
        wait.as_secs_f64() * 1e6
    };
    Ok(json!({
        "counts": counts,
        "seconds": time.as_secs_f64(),
        "held_us": held.as_secs_f64() * 1e6 / all.len().max(1) as f64,
        "p50_us": at(0.50),
        "p99_us": at(0.99),
        "max_us": at(1.0),
    }))
}
