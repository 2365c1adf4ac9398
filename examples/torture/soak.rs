//! One process with very many names, for long: nothing is lost, and nothing grows.

use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use lockson::{AnyOwnedGuard, CancelToken, Client, ErrorKind};

use crate::{
    dice::Dice,
    support::{Ground, Server, within},
    worker::{count, memory},
};

/// What the command line asks for.
pub(crate) struct Options {
    pub(crate) names: u64,
    pub(crate) held_for: Duration,
    pub(crate) cycles: u64,
    pub(crate) seed: u64,
}

/// Holds all names for so long, then takes and releases them so often.
pub(crate) fn run(options: &Options) -> ExitCode {
    let ground = Ground::new();
    let server = ground.server();
    let mut trouble = hold(options, &server);
    trouble.extend(cycle(options, &server));
    for what in &trouble {
        println!("VIOLATION soak: {what}");
    }
    println!("{} violations", trouble.len());
    if trouble.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// All names are held by one process with a short watchdog's timeout.
fn hold(options: &Options, server: &Arc<Server>) -> Vec<String> {
    let client = Client::builder()
        .lock_watchdog_timeout(WATCHDOG)
        .connect(&server.url())
        .expect("the server is there");
    let began = Instant::now();
    let guards = take_all(&client, options.names);
    println!("{} names taken in {:.1?}", options.names, began.elapsed());
    let (scripts, renewals) = (server.script_calls(), calls(server, "pexpire"));
    let mut least = WATCHDOG.as_millis() as i64;
    let (mut lost, mut looks) = (0, 0);
    let began = Instant::now();
    while began.elapsed() < options.held_for {
        thread::sleep(Duration::from_millis(200));
        least = least.min(least_ttl(server, options.names));
        lost = lost.max(guards.iter().filter(|guard| !guard.is_held()).count());
        looks += 1;
    }
    let held = began.elapsed();
    let renewed = calls(server, "pexpire") - renewals;
    println!(
        "held for {held:.1?} with a watchdog's timeout of {WATCHDOG:?}: {lost} lost; {renewed} renewals by {} scripts, {:.1} for each name; the least TTL of any, at {looks} looks, was {least} ms",
        server.script_calls() - scripts,
        renewed as f64 / options.names as f64,
    );
    let unverified = guards
        .iter()
        .filter(|guard| guard.verify().is_err())
        .count();
    let unreleased = guards
        .into_iter()
        .filter_map(|guard| guard.unlock().err())
        .count();
    let mut trouble = Vec::new();
    let mut expect = |so: bool, what: String| {
        if !so {
            trouble.push(what);
        }
    };
    // At each third of the timeout, from a third after the start on, give or take one.
    let thirds = (held.as_millis() * 3 / WATCHDOG.as_millis()) as u64;
    let expected = thirds.saturating_sub(2) * options.names;
    expect(lost == 0, format!("{lost} holds were lost"));
    expect(
        unverified == 0,
        format!("{unverified} holds were not in Redis"),
    );
    expect(
        unreleased == 0,
        format!("{unreleased} holds could not be released"),
    );
    expect(
        least > 0,
        format!("a key was gone or had a TTL of {least} ms"),
    );
    expect(
        renewed >= expected,
        format!("{renewed} renewals, expected {expected}"),
    );
    trouble
}

/// Threads take and release, others come, wait for a little and go; before and after, figures.
fn cycle(options: &Options, server: &Arc<Server>) -> Vec<String> {
    let client = Client::builder()
        .pool_size(POOL)
        .connect(&server.url())
        .expect("the server is there");
    // All connections and buffers that there will be.
    let warm = work(&client, options.seed, options.names, options.cycles / 10);
    settle(server);
    let before = Figures::of(server);
    let began = Instant::now();
    let done = work(&client, options.seed + 1, options.names, options.cycles);
    println!(
        "{} cycles over {} names in {:.1?} (after {} to get warm): {} times a waiter got in, {} times it went without, {} times it had no answer in time",
        done.cycles,
        options.names,
        began.elapsed(),
        warm.cycles,
        done.got,
        done.left,
        done.unanswered,
    );
    settle(server);
    let after = Figures::of(server);
    println!("before: {before:?}\nafter:  {after:?}");
    let state = client.state();
    let mut trouble = Vec::new();
    if !after.is_back(&before) {
        trouble.push(format!("not back: {before:?}, then {after:?}"));
    }
    if state.holds + state.waiters + state.renewals > 0 {
        trouble.push(format!("not empty: {state:?}"));
    }
    trouble
}

/// The notifier lets go of channels late, and of its own when there is no other.
fn settle(server: &Server) {
    let _ = within(Duration::from_secs(10), || {
        Figures::of(server).channels == 0
    });
}

#[derive(Debug)]
struct Figures {
    memory_kib: u64,
    threads: u64,
    connections: usize,
    channels: usize,
    keys: u64,
}

impl Figures {
    fn of(server: &Server) -> Self {
        let mut redis = server.connection();
        let channels: Vec<String> = redis::cmd("PUBSUB")
            .arg("CHANNELS")
            .query(&mut redis)
            .expect("it answers");
        let keys = redis::cmd("DBSIZE").query(&mut redis).expect("it answers");
        drop(redis);
        Self {
            memory_kib: memory(),
            threads: count("/proc/self/task"),
            connections: server.clients().len(),
            channels: channels.len(),
            keys,
        }
    }

    fn is_back(&self, before: &Self) -> bool {
        self.memory_kib <= before.memory_kib + MOST_GROWTH
            && self.threads <= before.threads
            && self.connections <= MOST_CONNECTIONS
            && self.channels <= before.channels
            && self.keys == 0
    }
}

struct Done {
    cycles: u64,
    got: u64,
    left: u64,
    unanswered: u64,
}

fn work(client: &Client, seed: u64, names: u64, cycles: u64) -> Done {
    let left = AtomicU64::new(cycles);
    let [got, gone, unanswered] = [0; 3].map(AtomicU64::new);
    let take = &|| {
        let taken = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            left.checked_sub(1)
        });
        taken.is_ok()
    };
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let mut dice = Dice::new(seed, worker);
            scope.spawn(move || {
                while take() {
                    let most = if dice.percent(20) { HOT } else { names };
                    let lock = client.reentrant_lock(format!("name-{}", dice.below(most)));
                    let guard = lock.lock().expect("the server is there");
                    if dice.percent(5) {
                        thread::sleep(dice.millis(0..3));
                    }
                    guard.unlock().expect("it is held");
                }
            });
        }
        for waiter in 0..WAITERS {
            let mut dice = Dice::new(seed, 1000 + waiter);
            let (left, got, gone) = (&left, &got, &gone);
            let unanswered = &unanswered;
            scope.spawn(move || {
                while left.load(Ordering::SeqCst) > 0 {
                    let name = format!("name-{}", dice.below(HOT));
                    let token = CancelToken::new();
                    if dice.percent(10) {
                        token.cancel();
                    }
                    let lock = client.reentrant_lock(name);
                    let options = lock.options().wait(dice.millis(1..30)).cancel(&token);
                    match options.acquire() {
                        Ok(Some(guard)) => {
                            got.fetch_add(1, Ordering::Relaxed);
                            thread::sleep(dice.millis(0..3));
                            guard.unlock().expect("it is held");
                        }
                        Ok(None) => drop(gone.fetch_add(1, Ordering::Relaxed)),
                        Err(error) if error.kind() == ErrorKind::Cancelled => {
                            gone.fetch_add(1, Ordering::Relaxed);
                        }
                        // A busy machine may not answer within so short a time.
                        Err(error) if error.is_retryable() => {
                            unanswered.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => panic!("{error}"),
                    }
                    thread::sleep(dice.millis(0..10));
                }
            });
        }
    });
    Done {
        cycles,
        got: got.into_inner(),
        left: gone.into_inner(),
        unanswered: unanswered.into_inner(),
    }
}

fn take_all(client: &Client, names: u64) -> Vec<AnyOwnedGuard> {
    thread::scope(|scope| {
        let takers: Vec<_> = (0..WORKERS)
            .map(|taker| {
                scope.spawn(move || {
                    let mine = (taker..names).step_by(WORKERS as usize);
                    let take = |name| {
                        let guard = client.reentrant_lock(format!("name-{name}")).lock_owned();
                        AnyOwnedGuard::from(guard.expect("nobody has it"))
                    };
                    mine.map(take).collect::<Vec<_>>()
                })
            })
            .collect();
        let all = takers
            .into_iter()
            .map(|taker| taker.join().expect("no panics"));
        all.flatten().collect()
    })
}

/// Of all names; negative if a key is not there.
fn least_ttl(server: &Server, names: u64) -> i64 {
    let mut pipe = redis::pipe();
    for name in 0..names {
        pipe.cmd("PTTL").arg(format!("name-{name}"));
    }
    let all: Vec<i64> = pipe.query(&mut server.connection()).expect("it answers");
    all.into_iter().min().unwrap_or(-2)
}

/// How often a command was called, by scripts too.
fn calls(server: &Server, command: &str) -> u64 {
    let stats: String = redis::cmd("INFO")
        .arg("commandstats")
        .query(&mut server.connection())
        .expect("it answers");
    let prefix = format!("cmdstat_{command}:calls=");
    let line = stats.lines().find_map(|line| line.strip_prefix(&*prefix));
    let number = line.and_then(|rest| rest.split(',').next()?.parse().ok());
    number.unwrap_or(0)
}

const WATCHDOG: Duration = Duration::from_secs(3);
/// Smaller than the threads are many, so that all of it is in use.
const POOL: usize = 16;

/// Two more for releases, the watchdog's and the notifier's.
const MOST_CONNECTIONS: usize = POOL + 4;
const WORKERS: u64 = 8;
const WAITERS: u64 = 24;

/// The names for which threads have to wait.
pub(crate) const HOT: u64 = 20;

/// In KiB: an allocator does not give all back.
const MOST_GROWTH: u64 = 4 * 1024;
