//! One uncontended lock and unlock: what it allocates, and what it takes beside its two round trips.

mod common;

use std::time::{Duration, Instant};

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
    ours.run(one, NAME, time / 10)?;
    let (mut pairs, mut spent) = ([0, 0], [Duration::ZERO; 2]);
    // In short turns: whatever else the machine does meets both alike.
    for turn in 0..TURNS * 2 {
        let plainly = turn % 2;
        let outturn = match plainly {
            0 => ours.run(one, NAME, time / TURNS)?.outturn(),
            _ => plain::run(&url, one, NAME, time / TURNS)?.outturn(),
        };
        pairs[plainly as usize] += outturn.count();
        spent[plainly as usize] += outturn.time;
    }
    let micros = |side: usize| spent[side].as_secs_f64() * 1e6 / pairs[side].max(1) as f64;
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
            "us_a_pair": micros(0),
            "us_a_pair_plain": micros(1),
            "ratio": micros(1) / micros(0),
            "allocations_of_lock": each(counted[0]),
            "allocations_of_unlock": each(counted[1]),
            "us_a_handle": handle.as_secs_f64() * 1e6 / f64::from(ROUNDS),
        })
    );
    Ok(())
}

const NAME: &str = "bench:once";
const TURNS: u32 = 10;
const ROUNDS: u32 = 200;
