//! Random operations on a read-write lock, by threads of three clients, against what may be true.
//!
//! `LOCKSON_SEED=7` repeats the choices of a run, `LOCKSON_ROUNDS=10000` makes it longer.

mod look;
mod world;

use std::{
    env,
    sync::Mutex,
    thread,
    time::{Duration, Instant, SystemTime},
};

use lockson::{
    AnyGuard, AnyOwnedGuard, CancelToken, ErrorKind, LostSignal, OwnedWriteGuard, ReadWriteLock,
    WriteGuard,
};

use self::world::{BLUR, Belief, LOWERED, Who, World};
use super::{millis, secs};
use crate::support::{
    Ground, Proxy, connect_to,
    proxy::{ALWAYS, Matcher},
    script,
};

const WORKERS: usize = 9;
/// More guards than this a worker does not have.
const DEPTH: u64 = 4;
/// Its watchdog asserts what others lower at each third of this.
const WATCHDOG: Duration = millis(1500);
/// What a reader takes that stays.
const STAYS: Duration = secs(20);
/// How long more than a lowered time somebody stays.
const MARGIN: Duration = millis(300);

#[test]
fn nobody_writes_beside_others() {
    play(None);
}

/// As above, with one of so many requests or its reply lost.
#[test]
fn nobody_writes_beside_others_when_requests_are_lost() {
    play(Some(15));
}

fn play(one_in: Option<u64>) {
    let seed: u64 = env::var("LOCKSON_SEED").map_or_else(
        |_| {
            let now = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
            now.subsec_nanos().into()
        },
        |seed| seed.parse().expect("LOCKSON_SEED is a number"),
    );
    let rounds: u64 = env::var("LOCKSON_ROUNDS").map_or(3_000, |rounds| {
        rounds.parse().expect("LOCKSON_ROUNDS is a number")
    });
    println!("LOCKSON_SEED={seed} LOCKSON_ROUNDS={rounds}");
    let ground = Ground::alone();
    let server = ground.server();
    let name = ground.name("L");
    let proxy = Proxy::to(server.addr());
    let (url, timeout) = match one_in {
        Some(_) => (proxy.url(), millis(200)),
        None => (server.url(), secs(3)),
    };
    let quick = || {
        connect_to(&ground, &url, |plain| {
            plain
                .lock_watchdog_timeout(WATCHDOG)
                .response_timeout(timeout)
        })
    };
    let clients = [quick(), quick(), quick()];
    if let Some(one_in) = one_in {
        let some = |seed| seldom(seed, one_in * 3, script(&name));
        proxy.swallow_replies(some(seed), ALWAYS);
        proxy.drop_requests(some(seed + 1), ALWAYS);
        proxy.cut_after(some(seed + 2), ALWAYS);
    }
    let world = World::new(&server, &name, WORKERS, one_in.is_some());
    thread::scope(|scope| {
        for number in 0..WORKERS {
            let lock = clients[number % clients.len()].read_write_lock(&name);
            let random = Random(seed ^ ((number as u64 + 1) << 32));
            let world = &world;
            // Made in its own thread: its guards must not leave it.
            scope.spawn(move || {
                let worker = Worker {
                    number,
                    lock,
                    world,
                    random,
                    guards: Vec::new(),
                    lingers: None,
                };
                worker.run();
            });
        }
        world.watch(rounds);
    });
    println!("{}", world.summary());
    world.assert_fair_play(rounds);
    let met = proxy.swallowed() + proxy.dropped() + proxy.cuts();
    assert_eq!(met > 0, one_in.is_some(), "{met} were lost");
    proxy.clear();
    world.assert_nothing_left();
    for client in &clients {
        let state = client.state();
        assert_eq!((state.holds, state.waiters, state.renewals), (0, 0, 0));
    }
}

/// A guard that a worker has. Owned ones are no thread's, so nothing lets them in or keeps them out.
enum Any {
    Bound(AnyGuard),
    Writing(WriteGuard),
    Owned(AnyOwnedGuard),
    OwnedWriting(OwnedWriteGuard),
}

/// The options of one half.
macro_rules! options {
    ($lock:ident, $token:ident, $wait:ident, $lease:ident) => {{
        let mut options = $lock.options().cancel(&$token);
        if let Some(wait) = $wait {
            options = options.wait(wait);
        }
        if let Some(lease) = $lease {
            options = options.lease(lease);
        }
        options
    }};
}

/// What all guards can do.
macro_rules! each {
    ($any:expr, $guard:ident => $work:expr) => {
        match $any {
            Any::Bound($guard) => $work,
            Any::Writing($guard) => $work,
            Any::Owned($guard) => $work,
            Any::OwnedWriting($guard) => $work,
        }
    };
}

impl Any {
    fn signal(&self) -> LostSignal {
        each!(self, guard => guard.lost())
    }

    fn remaining(&self) -> Duration {
        each!(self, guard => guard.remaining())
    }

    /// When it is over if nobody renews it.
    fn end(&self) -> Instant {
        Instant::now() + self.remaining()
    }

    fn holder(&self) -> &str {
        each!(self, guard => guard.holder())
    }

    fn is_owned(&self) -> bool {
        matches!(self, Self::Owned(_) | Self::OwnedWriting(_))
    }

    fn writes(&self) -> bool {
        matches!(self, Self::Writing(_) | Self::OwnedWriting(_))
    }
}

struct Held {
    guard: Any,
    belief: Belief,
    lease: Option<Duration>,
}

struct Worker<'a> {
    number: usize,
    lock: ReadWriteLock,
    world: &'a World<'a>,
    random: Random,
    guards: Vec<Held>,
    /// It keeps what it has until then.
    lingers: Option<Instant>,
}

impl Worker<'_> {
    fn run(mut self) {
        let _curtain = self.world.curtain();
        while !self.world.is_over() {
            if self.world.is_quiet() {
                let ends = self.guards.iter().map(Held::end).collect();
                self.world.be_quiet(self.number, ends);
                continue;
            }
            if self.lingers.is_some_and(|until| Instant::now() < until) {
                thread::sleep(millis(2));
                continue;
            }
            self.lingers = None;
            self.world.count_round();
            self.step();
        }
        while !self.guards.is_empty() {
            self.release();
        }
    }

    fn step(&mut self) {
        let has = self.guards.len() as u64;
        match self.random.below(1000) {
            0..3 => {
                let writes = self.random.below(2) == 0;
                self.world.force(&self.lock, writes);
            }
            3..6 => self.world.lower(),
            6..10 if has == 0 => self.linger(),
            10..280 if has < DEPTH => self.acquire(),
            280..310 => {
                while !self.guards.is_empty() {
                    self.release();
                }
            }
            310..330 if has > 0 => self.would_deadlock(),
            330..400 if has > 0 => self.downgrade(),
            400..450 if has > 0 => self.extend(),
            450..480 if has > 0 => self.verify(),
            480..530 if has > 0 => self.outlive(),
            530..550 => thread::sleep(millis(self.random.below(4))),
            _ if has > 0 => self.release(),
            _ => self.acquire(),
        }
    }

    fn acquire(&mut self) {
        let token = CancelToken::new();
        let alone = self.guards.is_empty();
        let owned = self.random.below(8) == 0;
        let writes = self.random.below(10) < self.world.share_of_writers();
        // Who has something may wait for himself, but not for ever.
        let wait = match self.random.below(4) {
            0 => Some(Duration::ZERO),
            1 if alone && !owned => None,
            _ => Some(millis(1 + self.random.below(40))),
        };
        let lease = match self.random.below(6) {
            0 | 1 => Some(millis(15 + self.random.below(80))),
            2 => Some(millis(500 + self.random.below(3000))),
            _ => None,
        };
        let began = self.world.begin(self.number, &token);
        let taken = match writes {
            false => {
                let read = self.lock.read_lock();
                let options = options!(read, token, wait, lease);
                match owned {
                    false => options
                        .acquire()
                        .map(|got| got.map(|got| Any::Bound(got.into()))),
                    true => options
                        .acquire_owned()
                        .map(|got| got.map(|got| Any::Owned(got.into()))),
                }
            }
            true => {
                let write = self.lock.write_lock();
                let options = options!(write, token, wait, lease);
                match owned {
                    false => options.acquire().map(|got| got.map(Any::Writing)),
                    true => options
                        .acquire_owned()
                        .map(|got| got.map(Any::OwnedWriting)),
                }
            }
        };
        match taken {
            Ok(Some(guard)) => self.keep(guard, began, lease),
            Ok(None) => assert!(wait.is_some(), "it waits for ever"),
            // A short wait is a short time for a busy machine to answer in.
            Err(error) if error.kind() == ErrorKind::Timeout => self.world.count_failure(),
            Err(error) if self.world.may_have_failed(&error) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}"),
        }
    }

    fn keep(&mut self, guard: Any, began: u64, lease: Option<Duration>) {
        let who = Who {
            holder: guard.holder().to_owned(),
            thread: (!guard.is_owned()).then_some(self.number),
            writes: guard.writes(),
            signal: guard.signal(),
        };
        let belief = self.world.believe(who, began);
        self.guards.push(Held {
            guard,
            belief,
            lease,
        });
    }

    fn pick(&mut self) -> Held {
        let place = self.random.below(self.guards.len() as u64) as usize;
        self.guards.remove(place)
    }

    fn release(&mut self) {
        let Held { guard, belief, .. } = self.pick();
        let beside = |held: &Held| held.guard.holder() == guard.holder();
        // What a reader leaves lives by what is left of its leases, from the moment it begins to go.
        let end = match guard.writes() || !self.guards.iter().any(beside) {
            true => guard.end(),
            false => Instant::now(),
        };
        // From here on it believes in nothing.
        let sure = self.world.stop(belief);
        if self.random.below(4) == 0 {
            drop(guard);
            return;
        }
        let released = each!(guard, guard => guard.unlock());
        self.may_fail(released, end, sure, "released");
    }

    /// A reader that stays, whose time others lower: it is in nobody's way to be lost.
    fn linger(&mut self) {
        let token = CancelToken::new();
        let began = self.world.begin(self.number, &token);
        let read = self.lock.read_lock();
        let options = read.options().wait(millis(100)).lease(STAYS).cancel(&token);
        if let Ok(Some(guard)) = options.acquire() {
            self.keep(Any::Bound(guard.into()), began, Some(STAYS));
            self.world.lower();
            self.lingers = Some(Instant::now() + LOWERED + MARGIN);
        }
    }

    /// Who reads and would wait for itself to write is told.
    fn would_deadlock(&mut self) {
        let reads = |held: &Held| matches!(held.guard, Any::Bound(_)) && held.lease.is_none();
        let Some(held) = self.guards.iter().find(|held| reads(held)) else {
            return;
        };
        let signal = held.guard.signal();
        if self.guards.iter().any(|held| held.guard.writes()) {
            return;
        }
        let token = CancelToken::new();
        let began = self.world.begin(self.number, &token);
        match self.lock.write_lock().options().cancel(&token).acquire() {
            Ok(guard) => {
                assert!(signal.is_lost(), "it reads");
                self.keep(Any::Writing(guard.expect("for ever")), began, None);
            }
            Err(error) if error.kind() == ErrorKind::Cancelled => {}
            Err(error) if self.world.may_have_failed(&error) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldDeadlock, "{error}"),
        }
    }

    fn downgrade(&mut self) {
        let place = self.guards.iter().position(|held| held.guard.writes());
        let Some(place) = place else {
            return;
        };
        let Held {
            guard,
            belief,
            lease,
        } = self.guards.remove(place);
        let end = guard.end();
        let sure = self.world.sure(belief);
        let began = self.world.begin(self.number, &CancelToken::new());
        // Others may read before we are told that it is done.
        self.world.set_writes(belief, false);
        let (guard, failed) = match guard {
            Any::Writing(guard) => match guard.downgrade() {
                Ok(guard) => (Any::Bound(guard.into()), None),
                Err((error, guard)) => (Any::Writing(guard), Some(error)),
            },
            Any::OwnedWriting(guard) => match guard.downgrade() {
                Ok(guard) => (Any::Owned(guard.into()), None),
                Err((error, guard)) => (Any::OwnedWriting(guard), Some(error)),
            },
            Any::Bound(_) | Any::Owned(_) => unreachable!("it writes"),
        };
        let Some(error) = failed else {
            self.world.stop(belief);
            self.keep(guard, began, lease);
            self.world.count_downgrade();
            return;
        };
        self.world.set_writes(belief, true);
        let failed = self.world.may_have_failed(&error);
        assert!(guard.remaining().is_zero() || failed, "it was lost");
        self.may_fail(Err(error), end, sure, "downgraded");
        self.guards.push(Held {
            guard,
            belief,
            lease,
        });
    }

    fn extend(&mut self) {
        let lease = millis(20 + self.random.below(1000));
        let held = self.pick();
        let end = held.guard.end();
        let sure = self.world.sure(held.belief);
        let extended = each!(&held.guard, guard => guard.extend(lease));
        self.may_fail(extended, end, sure, "extended");
        self.guards.push(held);
    }

    fn verify(&mut self) {
        let held = self.pick();
        let end = held.guard.end();
        let sure = self.world.sure(held.belief);
        let verified = each!(&held.guard, guard => guard.verify());
        self.may_fail(verified, end, sure, "verified");
        self.guards.push(held);
    }

    /// A hold that was lost says so; one that cannot have been lost does not.
    #[track_caller]
    fn may_fail(&self, result: lockson::Result<()>, end: Instant, sure: Option<u64>, what: &str) {
        if let Err(error) = result {
            if self.world.may_have_failed(&error) {
                return;
            }
            let must = Instant::now() + BLUR < end && self.world.is_still(sure);
            assert!(!must, "not {what}: {error}");
            let kind = error.kind();
            let lost = matches!(kind, ErrorKind::Lost | ErrorKind::NotHeld);
            assert!(lost, "not {what}: {error}");
        }
    }

    /// Waits for the end of a short lease.
    fn outlive(&mut self) {
        let short = |held: &&Held| held.lease.is_some_and(|lease| lease < millis(100));
        if let Some(held) = self.guards.iter().find(short) {
            held.guard.signal().wait(millis(120));
        }
    }
}

impl Held {
    fn end(&self) -> (Belief, Instant) {
        (self.belief, self.guard.end())
    }
}

/// One of so many of those that match.
fn seldom(seed: u64, one_in: u64, matches: impl Matcher) -> impl Matcher {
    let random = Mutex::new(Random(seed));
    move |request: &[u8]| {
        let mut random = random.lock().expect("no panic");
        matches(request) && random.below(one_in) == 0
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
