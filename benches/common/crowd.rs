//! What many held names and many waiting threads cost the process and the server.

use std::{
    fs,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use lockson::Client;
use serde_json::{Value, json};

use super::{BOUND, Outcome, allocations, server::Counters};

/// Holds so many names for a while, with a watchdog that renews them each second.
pub(crate) fn held(url: &str, count: usize, time: Duration) -> Outcome<Value> {
    allocations::count();
    let mut counters = Counters::of(url)?;
    let client = Client::builder()
        .lock_watchdog_timeout(INTERVAL * 3)
        .connect(url)?;
    // Every thread that takes names has been there once: connections, scripts, thread stacks.
    let (all_there, may_go) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    let mut names = 0;
    for number in 0..count {
        names += name(number).len();
    }
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (client, all_there, may_go) = (&client, &all_there, &may_go);
            scope.spawn(move || {
                let warm = client.reentrant_lock(format!("bench:warm:{thread}")).lock();
                let mine = (thread..count).step_by(THREADS);
                let mut guards = Vec::with_capacity(mine.len());
                all_there.wait();
                drop(warm);
                may_go.wait();
                for number in mine {
                    match client.reentrant_lock(name(number)).lock() {
                        Ok(guard) => guards.push(guard),
                        Err(error) => eprintln!("{error}"),
                    }
                }
                all_there.wait();
                may_go.wait();
                // Far quicker than to release each.
                guards.into_iter().for_each(std::mem::forget);
            });
        }
        all_there.wait();
        let bytes = allocations::bytes();
        let resident = resident();
        let began = Instant::now();
        may_go.wait();
        all_there.wait();
        let took = began.elapsed();
        let (bytes, resident) = (allocations::bytes() - bytes, self::resident() - resident);
        let (scripts, renewed) = (counters.script_calls()?, counters.calls("pexpire")?);
        let (cpu, began) = (cpu(), Instant::now());
        thread::sleep(time);
        let spent = self::cpu().saturating_sub(cpu).as_secs_f64() / began.elapsed().as_secs_f64();
        let scripts = counters.script_calls()? - scripts;
        let renewed = counters.calls("pexpire")? - renewed;
        let still = client.state().holds;
        may_go.wait();
        client.shutdown();
        let clean = redis::cmd("FLUSHDB");
        clean.query::<()>(counters.connection())?;
        Outcome::Ok(json!({
            "workload": format!("{count} names held"),
            "names": count,
            "held": still,
            "seconds_to_take": took.as_secs_f64(),
            "bytes_a_name": (bytes - names as i64) as f64 / count as f64,
            "resident_bytes_a_name": resident as f64 / count as f64,
            "names_a_script": renewed as f64 / (scripts as f64).max(1.0),
            "renewals_a_name": renewed as f64 / count as f64 / time.as_secs_f64(),
            "cpu": spent,
        }))
    })
}

/// Has so many threads wait for one name, and then take it one after the other.
pub(crate) fn waiting(url: &str, count: usize) -> Outcome<Value> {
    allocations::count();
    let mut counters = Counters::of(url)?;
    let client = Client::connect(url)?;
    let lock = client.reentrant_lock("bench:waiting");
    let first = lock.lock()?;
    let bytes = allocations::bytes();
    let resident = resident();
    thread::scope(|scope| {
        for _ in 0..count {
            let lock = &lock;
            thread::Builder::new()
                .stack_size(STACK)
                .spawn_scoped(scope, move || match lock.lock() {
                    Ok(guard) => drop(guard),
                    Err(error) => eprintln!("{error}"),
                })?;
        }
        let began = Instant::now();
        while client.state().waiters < count {
            if began.elapsed() > BOUND {
                return Err("they do not come to wait".into());
            }
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(100));
        let (bytes, resident) = (allocations::bytes() - bytes, self::resident() - resident);
        let (cpu, began) = (cpu(), Instant::now());
        let scripts = counters.script_calls()?;
        thread::sleep(REST);
        let asked = counters.script_calls()? - scripts;
        let spent = self::cpu().saturating_sub(cpu).as_secs_f64() / began.elapsed().as_secs_f64();
        let listening = counters.listening()?;
        let listeners = counters.listeners("redisson_lock__channel:{bench:waiting}")?;
        let scripts = counters.script_calls()?;
        let began = Instant::now();
        first.unlock()?;
        while client.state().waiters > 0 || lock.is_locked()? {
            if began.elapsed() > BOUND {
                return Err("they do not all get it".into());
            }
            thread::sleep(Duration::from_millis(1));
        }
        let took = began.elapsed();
        let scripts = counters.script_calls()? - scripts;
        Outcome::Ok(json!({
            "workload": format!("{count} threads wait"),
            "threads": count,
            "connections_that_listen": listening,
            "subscriptions": listeners,
            "scripts_a_second_while_waiting": asked as f64 / REST.as_secs_f64(),
            "cpu_while_waiting": spent,
            "bytes_a_thread": bytes as f64 / count as f64,
            "resident_bytes_a_thread": resident as f64 / count as f64,
            "scripts_an_unlock": scripts as f64 / (count + 1) as f64,
            "seconds_until_all_had_it": took.as_secs_f64(),
        }))
    })
}

fn name(number: usize) -> String {
    format!("bench:held:{number:06}")
}

/// How much memory of the process is really there; zero where the system does not say.
fn resident() -> i64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<i64>().ok());
    kibibytes.unwrap_or(0) * 1024
}

/// How long the processors have worked for this process.
fn cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program stands before, in parentheses, and may have spaces.
    let after = stat.rsplit_once(") ").map_or("", |(_, after)| after);
    let ticks = after.split(' ').skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|word| word.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

const THREADS: usize = 8;
const INTERVAL: Duration = Duration::from_secs(1);
const REST: Duration = Duration::from_secs(1);
const STACK: usize = 256 * 1024;
