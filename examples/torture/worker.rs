//! A process that locks: threads that act, and what they share.

use std::{
    collections::HashMap,
    env, fs,
    io::{self, BufRead},
    path::PathBuf,
    process,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, Sender};
use lockson::{AnyLock, AnyOwnedGuard, CancelToken, Client, ClientBuilder, MultiLock, RedLock};

use crate::{
    actor::Actor,
    history::{
        History,
        event::{Event, Kind},
    },
    pen::Pen,
};

/// What the dead leave is gone after that, or after twice that if they wrote.
pub(crate) const LONGEST_LEASE: Duration = Duration::from_millis(1500);

/// How long the watchdog's holds live.
pub(crate) const WATCHDOG: Duration = Duration::from_millis(900);

/// What the driver tells a worker by its environment: lines of `key=value`.
pub(crate) const ORDERS: &str = "LOCKSON_TORTURE_WORKER";

/// What all threads of a process share.
pub(crate) struct World {
    pub(crate) pen: Pen,
    pub(crate) counters: String,
    pub(crate) plain: Client,
    pub(crate) members: Vec<Client>,
    /// Owned guards on their way to another thread, with their call, names and kind.
    pub(crate) given: Sender<Handed>,
    pub(crate) taken: Receiver<Handed>,
    pub(crate) kinds: Vec<(u64, Kind)>,
    number: u64,
    /// Threads that may still wait for a lock, or give one away.
    pub(crate) acting: AtomicU64,
    calls: AtomicU64,
    /// How many processes have died: the fair lock's name ends in it.
    deaths: AtomicU64,
    stopping: AtomicBool,
    tokens: Mutex<Vec<(Instant, CancelToken)>>,
}

/// An owned guard with what its next keeper has to know.
pub(crate) struct Handed {
    pub(crate) call: u64,
    pub(crate) kind: Kind,
    pub(crate) names: Vec<String>,
    pub(crate) guard: AnyOwnedGuard,
}

/// Runs until the input ends; its lines are the numbers of deaths.
pub(crate) fn run(orders: &str) -> ! {
    crash_on_panic();
    let orders: HashMap<String, String> = orders
        .split('\n')
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let order = |key: &str| &*orders[key];
    let number: u64 = order("number").parse().expect("a number");
    let seed: u64 = order("seed").parse().expect("a number");
    let file = PathBuf::from(order("dir")).join(History::file_of(number));
    let threads: u64 = order("threads").parse().expect("a number");
    let connect = |url: &str| settings().connect_lazy(url).expect("the URL is good");
    let (given, taken) = crossbeam_channel::unbounded();
    let members: Vec<Client> = order("members").split_whitespace().map(connect).collect();
    let world = World {
        pen: Pen::new(&file).expect("the directory is writable"),
        counters: order("counters").to_owned(),
        plain: connect(order("url")),
        kinds: kinds(!members.is_empty()),
        members,
        given,
        taken,
        number,
        acting: AtomicU64::new(threads),
        calls: AtomicU64::new(1),
        deaths: AtomicU64::new(order("deaths").parse().expect("a number")),
        stopping: AtomicBool::new(false),
        tokens: Mutex::default(),
    };
    for client in world.members.iter().chain([&world.plain]) {
        let id = client.id().to_owned();
        world.pen.note(Event::Client { id });
    }
    world.figures("at the start");
    thread::scope(|scope| {
        scope.spawn(|| world.cancel_in_time());
        let mut keeper = Actor::new(&world, seed, number * 1000 + 999);
        scope.spawn(move || keeper.keep());
        for thread in 0..threads {
            let mut actor = Actor::new(&world, seed, number * 1000 + thread);
            scope.spawn(move || {
                actor.act();
                actor.go();
            });
        }
        world.obey();
    });
    world.figures("at the end");
    world.end();
    process::exit(0);
}

impl World {
    pub(crate) fn next_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }

    /// Says it of each write, so that no two are equal.
    pub(crate) fn value(&self, session: u64) -> String {
        format!("{}.{session}.{}", self.number, self.next_call())
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    pub(crate) fn fair_name(&self) -> String {
        format!("fair-{}", self.deaths.load(Ordering::SeqCst))
    }

    pub(crate) fn lock(&self, kind: Kind, names: &[String]) -> AnyLock {
        let name = &names[0];
        match kind {
            Kind::Fair => self.plain.fair_lock(name).into(),
            Kind::Lock => self.plain.reentrant_lock(name).into(),
            Kind::Multi => {
                let members = names.iter().map(|name| self.plain.reentrant_lock(name));
                let lock = MultiLock::new(members.map(AnyLock::from));
                lock.expect("it has members").into()
            }
            Kind::Read => self.plain.read_write_lock(name).read_lock().into(),
            Kind::Red => {
                let members = self.members.iter().map(|one| one.reentrant_lock(name));
                let lock = RedLock::new(members.map(AnyLock::from));
                lock.expect("it has members").into()
            }
            Kind::Write => self.plain.read_write_lock(name).write_lock().into(),
        }
    }

    /// A token that is cancelled after this time.
    pub(crate) fn token(&self, after: Duration) -> CancelToken {
        let token = CancelToken::new();
        let mut tokens = self.tokens.lock().expect("no panics");
        tokens.push((Instant::now() + after, token.clone()));
        token
    }

    fn cancel_in_time(&self) {
        while !self.is_stopping() || !self.tokens.lock().expect("no panics").is_empty() {
            thread::sleep(Duration::from_millis(5));
            // Who waits behind the dead in a queue would keep everybody from going home.
            let stopping = self.is_stopping();
            let mut tokens = self.tokens.lock().expect("no panics");
            let now = Instant::now();
            let (due, rest) = std::mem::take(&mut *tokens)
                .into_iter()
                .partition(|(at, _)| stopping || *at <= now);
            *tokens = rest;
            drop(tokens);
            let due: Vec<(Instant, CancelToken)> = due;
            due.iter().for_each(|(_, token)| token.cancel());
        }
    }

    fn obey(&self) {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if let Ok(deaths) = line.parse() {
                self.deaths.store(deaths, Ordering::SeqCst);
            }
        }
        self.stopping.store(true, Ordering::SeqCst);
    }

    fn figures(&self, when: &str) {
        let state = self.plain.state();
        let when = when.replace(' ', "-");
        for (what, number) in [
            ("memory", memory()),
            ("sockets", sockets()),
            ("holds", state.holds as u64),
            ("waiters", state.waiters as u64),
            ("reconnects", state.reconnects),
        ] {
            let what = format!("{what}-{when}");
            self.pen.note(Event::Figure { what, number });
        }
    }

    /// Ends the clients, and says how many threads are left then.
    fn end(self) {
        let Self {
            pen,
            plain,
            members,
            ..
        } = self;
        // Not only dropped: guards that were forgotten keep a client alive.
        plain.shutdown();
        members.iter().for_each(Client::shutdown);
        drop((plain, members));
        // A joined thread may still be in the kernel's list for a moment.
        let end = Instant::now() + Duration::from_secs(2);
        while count("/proc/self/task") > 1 && Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
        }
        let what = "threads-left".to_owned();
        let number = count("/proc/self/task");
        pen.note(Event::Figure { what, number });
        let what = "sockets-left".to_owned();
        let number = sockets();
        pen.note(Event::Figure { what, number });
    }
}

/// How often each kind is taken.
fn kinds(with_members: bool) -> Vec<(u64, Kind)> {
    let mut kinds = vec![
        (30, Kind::Lock),
        (20, Kind::Fair),
        (20, Kind::Read),
        (12, Kind::Write),
        (10, Kind::Multi),
    ];
    if with_members {
        kinds.push((8, Kind::Red));
    }
    kinds
}

fn settings() -> ClientBuilder {
    Client::builder()
        .lock_watchdog_timeout(WATCHDOG)
        // Short: what was taken for lost shall arrive late now and then.
        .response_timeout(Duration::from_millis(400))
        .connect_timeout(Duration::from_millis(800))
        .pool_size(8)
}

/// In KiB.
pub(crate) fn memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}

pub(crate) fn count(dir: &str) -> u64 {
    fs::read_dir(dir).map_or(0, |entries| entries.count() as u64)
}

fn sockets() -> u64 {
    let files = fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten();
    let links = files.filter_map(|file| fs::read_link(file.path()).ok());
    let sockets = links.filter(|link| link.to_string_lossy().starts_with("socket:"));
    sockets.count() as u64
}

/// A panic of the crate or of this program shall be seen by the driver.
fn crash_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        process::abort();
    }));
}

/// The orders of this process, if it is a worker.
pub(crate) fn orders() -> Option<String> {
    env::var(ORDERS).ok()
}
