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
use redis::Commands;

use super::{SOON, enqueue_dead, millis, nobody_waits, queue, queue_key, secs, times_key};
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
    /// As what they last stood in the queue.
    names: Vec<String>,
    /// Who waits, in the order of the places.
    line: VecDeque<usize>,
    random: Random,
    entries: u64,
    dead: u64,
    gave_up: u64,
    thrown_out: u64,
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
            names: vec![String::new(); WORKERS],
            line: VecDeque::new(),
            random: Random(seed),
            entries: 0,
            dead: 0,
            gave_up: 0,
            thrown_out: 0,
        };
        for _ in 0..rounds {
            play.step();
        }
        play.end();
        println!(
            "{} entries, {} gave up, {} dead entries passed, {} thrown out",
            play.entries, play.gave_up, play.dead, play.thrown_out
        );
        assert!(play.entries > u64::from(rounds) / 20);
        assert!(play.gave_up > 0 && play.thrown_out > 0);
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
            (State::Idle, 8) => self.throw_out(),
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
        let newcomer = |play: &Self| {
            let mut there = queue(play.server, &play.lock).into_iter();
            there.find(|one| !one.starts_with("dead") && !before.contains(one))
        };
        self.until("it has a place, or is done", |play| {
            !play.line.contains(&worker) || newcomer(play).is_some()
        });
        self.names[worker] = newcomer(self).unwrap_or_default();
    }

    /// Those of one client who stand at the head are taken for dead, and come back in any order:
    /// nobody notices.
    fn throw_out(&mut self) {
        // Free meanwhile, it would be for those behind.
        if !self.states.contains(&State::Holds) {
            return;
        }
        let there = queue(self.server, &self.lock);
        let client = |one: &str| one.rsplit_once(':').map(|(client, _)| client.to_owned());
        let run = there
            .iter()
            .take_while(|one| client(one) == client(&there[0]));
        let most = 1 + self.random.below(WORKERS as u64) as usize;
        let mut out: Vec<_> = (run.take(most))
            .filter_map(|one| self.names.iter().position(|name| name == one))
            .collect();
        let mut at_once = redis::pipe();
        at_once.atomic();
        for worker in &out {
            at_once.zrem(times_key(&self.lock), &self.names[*worker]);
            at_once.lrem(queue_key(&self.lock), 0, &self.names[*worker]);
        }
        let mut redis = self.server.connection();
        let _: Vec<u64> = at_once.query(&mut redis).expect("a list and a zset");
        self.thrown_out += out.len() as u64;
        let thrown = out.clone();
        while !out.is_empty() {
            let next = out.swap_remove(self.random.below(out.len() as u64) as usize);
            let (lock, name) = (self.lock.name(), &self.names[next]);
            let channel = format!("redisson_lock__channel:{{{lock}}}:{name}");
            let _: u64 = redis.publish(channel, "0").expect("PUBLISH");
        }
        self.until("they are back, or gave up", |play| {
            let there = queue(play.server, &play.lock);
            let is_back = |worker: &usize| there.contains(&play.names[*worker]);
            let mut thrown = thrown.iter();
            thrown.all(|worker| is_back(worker) || !play.line.contains(worker))
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
