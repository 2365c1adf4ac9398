//! The ground that the tests stand on: real servers, faults on the wire, and a check that nothing is left behind.

// Each test binary uses its own part of this.
#![allow(dead_code, unreachable_pub, unused_imports)]

pub mod certs;
pub mod child;
pub mod clients;
mod connect;
mod faults;
pub mod launch;
mod leaks;
mod link;
mod logged;
pub mod monitor;
pub mod process;
pub mod proxy;
mod resp;
pub mod server;
mod threads;
mod told;

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

pub use self::{
    certs::Certs,
    child::{Answer, Peer, Pending},
    clients::ClientEntry,
    connect::{connect, connect_to, connect_with, watched},
    logged::{log_everything, logged},
    monitor::{Monitor, without_lua},
    process::spawn_tied,
    proxy::{Proxy, command, containing, script},
    server::Server,
    threads::threads,
    told::Told,
};

/// What a test opens with, before anything else, so that it is dropped last and finds what is left.
///
/// One for each test: a second one in the same test waits for ever when a test that wants to be
/// alone stands in line between the two.
pub struct Ground {
    own: OnceLock<Arc<Server>>,
    servers: Mutex<Vec<Arc<Server>>>,
    tags: Mutex<Vec<String>>,
    keys_may_stay: AtomicBool,
    // Declared last: the turn ends when the servers are gone.
    _turn: Option<Turn>,
}

impl Ground {
    /// Opens a test that runs beside others.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self::with(Some(Turn::shared()))
    }

    /// Opens a test beside which no other runs, for those that measure time.
    pub fn alone() -> Self {
        Self::with(Some(Turn::alone()))
    }

    /// A second ground of the same test, for a part of it that runs at the same time.
    pub fn beside(&self) -> Self {
        Self::with(None)
    }

    fn with(turn: Option<Turn>) -> Self {
        Self {
            own: OnceLock::new(),
            servers: Mutex::default(),
            tags: Mutex::default(),
            keys_may_stay: AtomicBool::new(false),
            _turn: turn,
        }
    }

    /// The test's plain server, started at the first call.
    pub fn server(&self) -> Arc<Server> {
        Arc::clone(self.own.get_or_init(|| self.server_with(|plain| plain)))
    }

    /// Starts one more server, with options.
    pub fn server_with(
        &self,
        options: impl FnOnce(launch::Builder) -> launch::Builder,
    ) -> Arc<Server> {
        let server = Arc::new(options(Server::builder()).start());
        locked(&self.servers).push(Arc::clone(&server));
        server
    }

    /// A name that no other test of this process uses.
    pub fn name(&self, base: &str) -> String {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("{base}-{}-{number}", std::process::id())
    }

    /// Threads with this text in their name must be gone at the end of the test.
    ///
    /// The kernel keeps the first 15 bytes of a thread's name: the tag must lie within them.
    pub fn watch_tag(&self, tag: &str) {
        assert!(
            (1..=15).contains(&tag.len()),
            "the tag {tag:?} cannot show in a thread's name"
        );
        locked(&self.tags).push(tag.to_owned());
    }

    /// This test leaves keys behind on purpose.
    pub fn expect_keys_left(&self) {
        self.keys_may_stay.store(true, Ordering::Relaxed);
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let servers = locked(&self.servers);
        let left = if thread::panicking() {
            Vec::new()
        } else {
            let keys_may_stay = self.keys_may_stay.load(Ordering::Relaxed);
            leaks::find(&servers, &locked(&self.tags), keys_may_stay)
        };
        // A stray thread may still hold a handle: the server ends here nevertheless.
        for server in servers.iter() {
            server.kill();
        }
        assert!(
            left.is_empty(),
            "the test left behind:\n  {}",
            left.join("\n  ")
        );
    }
}

/// Waits for a fact: calls `fact` every few milliseconds until it is `true` or `Some`, and panics
/// with `what` when the bound has passed.
#[track_caller]
pub fn eventually<F: Fact>(bound: Duration, what: &str, fact: impl FnMut() -> F) -> F::Value {
    match within(bound, fact) {
        Some(value) => value,
        None => panic!("not within {bound:?}: {what}"),
    }
}

/// As [`eventually`], but answers `None` when the bound has passed.
pub fn within<F: Fact>(bound: Duration, mut fact: impl FnMut() -> F) -> Option<F::Value> {
    let deadline = Instant::now() + bound;
    loop {
        // Read before the fact: a check that began in time counts even if it took long.
        let late = Instant::now() >= deadline;
        if let Some(value) = fact().value() {
            return Some(value);
        }
        if late {
            return None;
        }
        thread::sleep(Duration::from_millis(3));
    }
}

/// Something that is so or not yet so.
pub trait Fact {
    type Value;

    fn value(self) -> Option<Self::Value>;
}

impl Fact for bool {
    type Value = ();

    fn value(self) -> Option<()> {
        self.then_some(())
    }
}

impl<T> Fact for Option<T> {
    type Value = T;

    fn value(self) -> Self {
        self
    }
}

/// Locks without regard to poison: one test's panic is no other test's business.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A test's right to run. The standard `RwLock` is not used because it promises no preference for
/// writers: a test that wants to be alone could starve.
struct Turn {
    alone: bool,
}

impl Turn {
    fn shared() -> Self {
        let mut line = locked(&LINE);
        while line.alone || line.wanting_alone > 0 {
            line = wait_for_turn(line);
        }
        line.running += 1;
        Self { alone: false }
    }

    fn alone() -> Self {
        let mut line = locked(&LINE);
        line.wanting_alone += 1;
        while line.alone || line.running > 0 {
            line = wait_for_turn(line);
        }
        line.wanting_alone -= 1;
        line.alone = true;
        Self { alone: true }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut line = locked(&LINE);
        if self.alone {
            line.alone = false;
        } else {
            line.running -= 1;
        }
        TURN_ENDED.notify_all();
    }
}

struct Line {
    running: usize,
    alone: bool,
    wanting_alone: usize,
}

fn wait_for_turn(line: MutexGuard<'_, Line>) -> MutexGuard<'_, Line> {
    TURN_ENDED
        .wait(line)
        .unwrap_or_else(PoisonError::into_inner)
}

static LINE: Mutex<Line> = Mutex::new(Line {
    running: 0,
    alone: false,
    wanting_alone: 0,
});
static TURN_ENDED: Condvar = Condvar::new();
