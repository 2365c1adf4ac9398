//! Random sequences of operations on a fair lock, against a simple model of a queue.
//!
//! `LOCKSON_SEED=7` repeats a run, `LOCKSON_ROUNDS=10000` makes it longer.

use std::{
    collections::VecDeque,
    env,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use lockson::{CancelToken, Ended, ErrorKind, FairLock};

use super::{SOON, enqueue_dead, millis, nobody_waits, queue, secs};
use crate::support::{Ground, Server, connect, eventually};

const WORKERS: usize = 9;

/// What a worker is told to do.
enum Order {
    /// Waits for ever, or so long; holds until told, or for this lease.
    Acquire {
        wait: Option<Duration>,
        lease: Option<Duration>,
        token: CancelToken,
    },
    Release,
}

#[derive(Debug)]
enum Told {
    Entered,
    /// Timed out or cancelled.
    GaveUp,
    /// Released, or its lease was over.
    Left,
}

/// What the model thinks of a worker.
#[derive(Clone, Debug, PartialEq)]
enum State {
    Idle,
    /// With a limit or without.
    Waits(bool),
    Holds,
    /// It holds for a lease, and will not release.
    Lingers,
}

struct Play<'a> {
    server: &'a Server,
    lock: FairLock,
    orders: Vec<Sender<Order>>,
    news: Receiver<(usize, Told)>,
    tokens: Vec<CancelToken>,
    states: Vec<State>,
    leased: Vec<bool>,
    /// Who waits, in the order of the places.
    line: VecDeque<usize>,
    random: Random,
    entries: u64,
    dead: u64,
    gave_up: u64,
}

#[test]
fn a_queue_is_a_queue() {
    let seed = env::var("LOCKSON_SEED").map_or_else(
        |_| {
            let now = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
            now.subsec_nanos().into()
        },
        |seed| seed.parse().expect("LOCKSON_SEED is a number"),
    );
    let rounds: u32 = env::var("LOCKSON_ROUNDS").map_or(3_000, |rounds| {
        rounds.parse().expect("LOCKSON_ROUNDS is a number")
    });
    println!("LOCKSON_SEED={seed} LOCKSON_ROUNDS={rounds}");
    let ground = Ground::alone();
    let server = ground.server();
    let clients = [connect(&ground), connect(&ground), connect(&ground)];
    let name = ground.name("L");
    let inside = AtomicBool::new(false);
    thread::scope(|scope| {
        let (tell, news) = mpsc::channel();
        let orders = (0..WORKERS)
            .map(|number| {
                let lock = clients[number % clients.len()].fair_lock(&name);
                let (order, orders) = mpsc::channel();
                let (tell, inside) = (tell.clone(), &inside);
                scope.spawn(move || work(&lock, &orders, inside, |told| tell.send((number, told))));
                order
            })
            .collect();
        let mut play = Play {
            server: &server,
            lock: clients[0].fair_lock(&name),
            orders,
            news,
            tokens: vec![CancelToken::new(); WORKERS],
            states: vec![State::Idle; WORKERS],
            leased: vec![false; WORKERS],
            line: VecDeque::new(),
            random: Random(seed),
            entries: 0,
            dead: 0,
            gave_up: 0,
        };
        for _ in 0..rounds {
            play.step();
        }
        play.end();
        println!(
            "{} entries, {} gave up, {} dead entries passed",
            play.entries, play.gave_up, play.dead
        );
        assert!(play.entries > u64::from(rounds) / 20 && play.gave_up > 0);
    });
    nobody_waits(&server, &clients.each_ref(), &clients[0].fair_lock(&name));
}

impl Play<'_> {
    fn step(&mut self) {
        while let Ok(news) = self.news.try_recv() {
            self.note(news);
        }
        if !self.is_held() {
            // It is told, or the TTL is over: it does not sleep for the three seconds of those who
            // know nothing.
            self.until_within(secs(2), "the first enters", |play| {
                play.is_held() || play.line.is_empty()
            });
        }
        let worker = self.random.below(WORKERS as u64) as usize;
        match (self.states[worker].clone(), self.random.below(10)) {
            (State::Idle, 0..=6) => self.acquire(worker),
            (State::Idle, 7) if self.line.len() < WORKERS => {
                // Somebody who died: passed as soon as it is first.
                self.dead += 1;
                let holder = format!("dead:{}", self.dead);
                let silent_for = millis(self.random.below(4));
                enqueue_dead(self.server, &self.lock, &holder, Some(silent_for));
            }
            (State::Waits(_), 0) => {
                self.tokens[worker].cancel();
                self.until("it gave up or got in", |play| !play.line.contains(&worker));
            }
            (State::Holds, _) => self.release(worker),
            // Time passes.
            _ => {
                if let Ok(news) = self.news.recv_timeout(millis(2)) {
                    self.note(news);
                }
            }
        }
    }

    fn acquire(&mut self, worker: usize) {
        let wait = (self.random.below(3) == 0).then(|| millis(5 + self.random.below(60)));
        let lease = (self.random.below(4) == 0).then(|| millis(20 + self.random.below(60)));
        let token = CancelToken::new();
        self.tokens[worker] = token.clone();
        self.states[worker] = State::Waits(wait.is_some());
        self.leased[worker] = lease.is_some();
        // Its place is known: nobody else takes one before this one is taken.
        self.line.push_back(worker);
        let before = queue(self.server, &self.lock);
        let order = Order::Acquire { wait, lease, token };
        self.orders[worker].send(order).expect("it listens");
        self.until("it has a place, or is done", |play| {
            !play.line.contains(&worker)
                || queue(play.server, &play.lock)
                    .iter()
                    .any(|one| !one.starts_with("dead") && !before.contains(one))
        });
    }

    fn release(&mut self, worker: usize) {
        self.orders[worker]
            .send(Order::Release)
            .expect("it listens");
        self.until("it left", |play| play.states[worker] == State::Idle);
    }

    /// Whoever entered must have been first: those before it have given up in this moment.
    fn note(&mut self, (worker, told): (usize, Told)) {
        match told {
            Told::Entered => {
                let place = self.line.iter().position(|one| *one == worker);
                let place = place.expect("it waited");
                for before in self.line.iter().take(place) {
                    let gives_up = self.states[*before] == State::Waits(true)
                        || self.tokens[*before].is_cancelled();
                    assert!(gives_up, "{worker} passed {before}: {:?}", self.line);
                }
                self.line.remove(place);
                self.entries += 1;
                self.states[worker] = match self.leased[worker] {
                    true => State::Lingers,
                    false => State::Holds,
                };
            }
            Told::GaveUp => {
                self.line.retain(|one| *one != worker);
                self.states[worker] = State::Idle;
                self.gave_up += 1;
            }
            Told::Left => self.states[worker] = State::Idle,
        }
    }

    fn is_held(&self) -> bool {
        let held = |state: &State| matches!(state, State::Holds | State::Lingers);
        self.states.iter().any(held)
    }

    #[track_caller]
    fn until(&mut self, what: &str, fact: impl Fn(&Self) -> bool) {
        self.until_within(SOON, what, fact);
    }

    #[track_caller]
    fn until_within(&mut self, bound: Duration, what: &str, fact: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + bound;
        while !fact(self) {
            assert!(Instant::now() < deadline, "not in time: {what}");
            if let Ok(news) = self.news.recv_timeout(millis(2)) {
                self.note(news);
            }
        }
    }

    fn end(&mut self) {
        while self.states.iter().any(|state| *state != State::Idle) {
            match self.states.iter().position(|state| *state == State::Holds) {
                Some(holder) => self.release(holder),
                None => {
                    let news = self.news.recv_timeout(SOON).expect("somebody goes on");
                    self.note(news);
                }
            }
        }
        self.orders.clear();
        // The dead who are left have nobody behind them who would pass them.
        eventually(SOON, "the dead are passed", || {
            drop(self.lock.try_lock().expect("answered"));
            queue(self.server, &self.lock).is_empty()
        });
    }
}

fn work<E>(
    lock: &FairLock,
    orders: &Receiver<Order>,
    inside: &AtomicBool,
    tell: impl Fn(Told) -> Result<(), E>,
) {
    while let Ok(Order::Acquire { wait, lease, token }) = orders.recv() {
        let mut options = lock.options().cancel(&token);
        if let Some(wait) = wait {
            options = options.wait(wait);
        }
        if let Some(lease) = lease {
            options = options.lease(lease);
        }
        let guard = match options.acquire() {
            Ok(Some(guard)) => guard,
            Ok(None) => {
                let _ = tell(Told::GaveUp);
                continue;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
                let _ = tell(Told::GaveUp);
                continue;
            }
        };
        if lease.is_some() {
            // It believes in it no longer than its lease, so nobody else can be inside.
            let _ = tell(Told::Entered);
            assert!(matches!(guard.lost().wait(SOON), Ended::Lost(_)));
            drop(guard);
        } else {
            assert!(!inside.swap(true, Ordering::SeqCst), "two are inside");
            let _ = tell(Told::Entered);
            assert!(matches!(orders.recv(), Ok(Order::Release)));
            assert!(inside.swap(false, Ordering::SeqCst));
            guard.unlock().expect("held");
        }
        let _ = tell(Told::Left);
    }
}

/// Splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}
