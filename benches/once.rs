//! One uncontended lock and unlock: what it allocates, and what it takes beside its two round trips.
//!
//! `-- --only N` does it N times and nothing else, for a profiler.

mod common;

use std::time::Instant;

use common::{
    Outcome, allocations,
    ours::Ours,
    plain,
    private_server::PrivateServer,
    workload::{What, Workload},
};
use serde_json::json;

fn main() -> Outcome {
    let time = common::time_of_a_workload()?;
    let server = PrivateServer::unless_given();
    let (url, one) = (server.url(), Workload::new(What::Distinct, 1));
    let ours = Ours::on(std::slice::from_ref(&url));
    if let Some(rounds) = common::argument("--only")? {
        let lock = ours.client(0)?.reentrant_lock(NAME);
        for _ in 0..rounds.parse::<u64>()? {
            lock.lock()?.unlock()?;
        }
        return Ok(());
    }
    ours.run(one, NAME, time / 10)?;
    // In short turns, and the middle of them: whatever else the machine does meets both alike.
    let mut turns = Vec::new();
    for _ in 0..TURNS {
        let ours = ours.run(one, NAME, time / TURNS / 2)?.outturn();
        let plainly = plain::run(&url, one, NAME, time / TURNS / 2)?.outturn();
        turns.push([1e6 / ours.rate(), 1e6 / plainly.rate()]);
    }
    let middle = |number: fn(&[f64; 2]) -> f64| {
        let mut numbers: Vec<f64> = turns.iter().map(number).collect();
        numbers.sort_unstable_by(f64::total_cmp);
        numbers[numbers.len() / 2]
    };
    let lock = ours.client(0)?.reentrant_lock(NAME);
    lock.lock()?.unlock()?;
    allocations::count();
    let mut counted = [0; 3];
    for _ in 0..ROUNDS {
        let before = allocations::allocations();
        let guard = lock.lock()?;
        let between = allocations::allocations();
        guard.unlock()?;
        counted[0] += between - before;
        counted[1] += allocations::allocations() - between;
    }
    let began = Instant::now();
    for _ in 0..ROUNDS {
        let held = ours.client(0)?.reentrant_lock(NAME);
        drop(held);
    }
    let handle = began.elapsed();
    let each = |number: i64| number as f64 / f64::from(ROUNDS);
    println!(
        "{}",
        json!({
            "us_a_pair": middle(|turn| turn[0]),
            "us_a_pair_plain": middle(|turn| turn[1]),
            "ratio_of_rates": middle(|turn| turn[1] / turn[0]),
            "allocations_of_lock": each(counted[0]),
            "allocations_of_unlock": each(counted[1]),
            "us_a_handle": handle.as_secs_f64() * 1e6 / f64::from(ROUNDS),
        })
    );
    Ok(())
}

const NAME: &str = "bench:once";
const TURNS: u32 = 50;
const ROUNDS: u32 = 200;
