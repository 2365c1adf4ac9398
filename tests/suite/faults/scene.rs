//! What a fault is tried on: a server, a proxy before it, and clients on both sides.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use lockson::{AnyGuard, AnyLock, Client, ClientBuilder, Event, LostReason};
use redis::Commands;

use super::Kind;
use crate::support::{
    Ground, Proxy, Server, command, connect_to, containing, eventually, proxy::Matcher, watched,
};

pub(super) struct Scene<'a> {
    pub(super) kind: &'static Kind,
    pub(super) name: String,
    pub(super) proxy: Arc<Proxy>,
    pub(super) server: Arc<Server>,
    pub(super) ground: &'a Ground,
}

impl<'a> Scene<'a> {
    pub(super) fn new(ground: &'a Ground, kind: &'static Kind) -> Self {
        Self::at(ground, kind, ground.server())
    }

    /// The same on another server.
    pub(super) fn moved_to(&self, server: Arc<Server>) -> Self {
        Self::at(self.ground, self.kind, server)
    }

    /// The same with another lock.
    pub(super) fn renamed(&self) -> Self {
        Self {
            kind: self.kind,
            name: self.ground.name("L"),
            proxy: Arc::clone(&self.proxy),
            server: Arc::clone(&self.server),
            ground: self.ground,
        }
    }

    fn at(ground: &'a Ground, kind: &'static Kind, server: Arc<Server>) -> Self {
        Self {
            kind,
            name: ground.name("L"),
            proxy: Arc::new(Proxy::to(server.addr())),
            server,
            ground,
        }
    }

    /// A client behind the proxy, with a watchdog that does not disturb.
    pub(super) fn client(&self) -> Client {
        self.client_with(LONG, |settings| settings)
    }

    /// A client behind the proxy that has been used: the server knows its scripts.
    pub(super) fn client_with(
        &self,
        watchdog: Duration,
        settings: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Client {
        self.client_at(&self.proxy.url(), watchdog, settings)
    }

    pub(super) fn client_at(
        &self,
        url: &str,
        watchdog: Duration,
        settings: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Client {
        let builder = Client::builder()
            .lock_watchdog_timeout(watchdog)
            .response_timeout(TIMEOUT)
            .red_lock_member_timeout(2 * TIMEOUT);
        let client = watched(self.ground, settings(builder).connect(url));
        let guard = taken(&(self.kind.lock)(&client, &self.ground.name("warm-up")));
        guard.extend(Duration::from_millis(1)).expect("held");
        guard.unlock().expect("held");
        client
    }

    /// Another client, which nothing happens to.
    pub(super) fn other_client(&self) -> Client {
        connect_to(self.ground, &self.server.url(), |plain| plain)
    }

    pub(super) fn lock(&self, client: &Client) -> AnyLock {
        (self.kind.lock)(client, &self.name)
    }

    /// A lock that is not to be had while [`lock`](Self::lock) is held.
    pub(super) fn rival(&self, client: &Client) -> AnyLock {
        (self.kind.rival)(client, &self.name)
    }

    /// A lock whose release tells those who wait for [`lock`](Self::lock).
    pub(super) fn teller(&self, client: &Client) -> AnyLock {
        (self.kind.teller)(client, &self.name)
    }

    /// What calls have the server do to this lock.
    pub(super) fn calls(&self) -> impl Matcher + use<> {
        self.calls_about(&self.name)
    }

    pub(super) fn calls_about(&self, name: &str) -> impl Matcher + use<> {
        let (scripts, is_call) = (scripts(name), self.kind.is_call);
        move |request: &[u8]| scripts(request) && is_call(request)
    }

    /// What calls and the watchdog have the server do to this lock.
    pub(super) fn scripts(&self) -> impl Matcher + use<> {
        scripts(&self.name)
    }

    pub(super) fn ttl(&self) -> i64 {
        (self.kind.ttl)(&mut self.server.connection(), &self.name)
    }

    pub(super) fn holders(&self) -> Vec<(String, u64)> {
        self.holders_of(&self.name)
    }

    pub(super) fn holders_of(&self, name: &str) -> Vec<(String, u64)> {
        (self.kind.holders)(&mut self.server.connection(), name)
    }

    /// This guard is the only holder, so often, and the hold has an end.
    #[track_caller]
    pub(super) fn assert_held(&self, holder: &str, count: u64) {
        assert_eq!(self.holders(), [(holder.to_owned(), count)]);
        assert!(self.ttl() > 0, "it ends by itself");
    }

    #[track_caller]
    pub(super) fn assert_free(&self) {
        assert_eq!(self.keys(), Vec::<String>::new());
    }

    #[track_caller]
    pub(super) fn eventually_free(&self, bound: Duration) {
        eventually(bound, "nothing of the lock is left", || {
            self.keys().is_empty()
        });
    }

    /// Whatever Redis has of this scene's lock, under any name.
    pub(super) fn keys(&self) -> Vec<String> {
        let pattern = format!("*{}*", self.name);
        self.server.connection().keys(pattern).expect("KEYS")
    }

    /// The channels on which somebody listens for the release of this lock.
    pub(super) fn channels(&self) -> Vec<String> {
        let mut channels: Vec<String> = redis::cmd("PUBSUB")
            .arg("CHANNELS")
            .arg(format!("*{}*", self.name))
            .query(&mut self.server.connection())
            .expect("PUBSUB");
        // By which a listener is woken itself.
        channels.retain(|channel| !channel.ends_with(":wake"));
        channels
    }

    pub(super) fn messages(&self) -> u64 {
        self.count("commandstats", "cmdstat_publish:calls=")
    }

    /// Keys that ended by their time instead of being released.
    pub(super) fn expired(&self) -> u64 {
        let mut redis = self.server.connection();
        eventually(BOUND, "the server has counted what ended", || {
            let keys: Vec<String> = redis.keys("*").expect("KEYS");
            let all: usize = redis::cmd("DBSIZE").query(&mut redis).expect("DBSIZE");
            all == keys.len()
        });
        self.count("stats", "expired_keys:")
    }

    /// How often the server has refused with this code, or, as Redis 6.2 counts what scripts are
    /// refused, with any.
    pub(super) fn refusals(&self, code: &str) -> u64 {
        let of = |code: &str| self.count("errorstats", &format!("errorstat_{code}:count="));
        of(code) + of("ERR")
    }

    pub(super) fn info(&self, section: &str) -> String {
        redis::cmd("INFO")
            .arg(section)
            .query(&mut self.server.connection())
            .expect("INFO")
    }

    /// A number that INFO tells behind these words.
    pub(super) fn count(&self, section: &str, head: &str) -> u64 {
        let info = self.info(section);
        let number = info.lines().find_map(|line| {
            let rest = line.strip_prefix(head)?;
            rest.split(|c: char| !c.is_ascii_digit()).next()
        });
        number.map_or(0, |number| number.parse().expect("a number"))
    }

    /// Waits until the server has done, or can never do, what came by connections that are closed.
    #[track_caller]
    pub(super) fn settle(&self, client: &Client) {
        let name = format!("lockson-{}", client.id());
        eventually(BOUND, "the server has closed what the client has", || {
            let clients = self.server.clients();
            let there = clients.iter().filter(|one| one.name() == name).count();
            there <= self.proxy.open()
        });
    }

    /// Counts the connections that clients behind the proxy have the server kill from now on.
    ///
    /// MONITOR does not show them.
    pub(super) fn count_kills(&self) -> Arc<AtomicUsize> {
        let kills = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&kills);
        let kill = containing("\r\nKILL\r\n");
        let spy = move |request: &[u8]| {
            seen.fetch_add(kill(request).into(), Ordering::SeqCst);
            false
        };
        self.proxy.hold(spy, 1);
        kills
    }
}

/// What a client has the server do to this lock.
pub(super) fn scripts(name: &str) -> impl Matcher + use<> {
    let about = containing(name.to_owned());
    let (eval, evalsha) = (command("eval"), command("evalsha"));
    move |request: &[u8]| (eval(request) || evalsha(request)) && about(request)
}

/// The guard of a lock that is free, or the caller's own.
#[track_caller]
pub(super) fn taken(lock: &AnyLock) -> AnyGuard {
    lock.try_lock().expect("an answer").expect("free")
}

#[track_caller]
pub(super) fn refused(lock: &AnyLock) {
    assert!(lock.try_lock().expect("an answer").is_none(), "it is held");
}

/// Tries until the lock is had; says when that was.
#[track_caller]
pub(super) fn enter(lock: &AnyLock, bound: Duration) -> (AnyGuard, Instant) {
    let guard = eventually(bound, "the lock is to be had", || {
        lock.try_lock().expect("an answer")
    });
    (guard, Instant::now())
}

pub(super) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    (work(), start.elapsed())
}

/// The holds that a client said it lost, and when.
#[derive(Clone, Default)]
pub(super) struct Losses(Arc<Mutex<Vec<(String, LostReason, Instant)>>>);

impl Losses {
    pub(super) fn listen(&self) -> impl Fn(&Event) + Send + Sync + 'static {
        let losses = Arc::clone(&self.0);
        move |event| {
            if let Event::Lost { holder, reason, .. } = event {
                let loss = (holder.to_string(), *reason, Instant::now());
                let mut losses = losses.lock().unwrap_or_else(PoisonError::into_inner);
                losses.push(loss);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        let losses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        losses.is_empty()
    }

    /// Waits for the loss of this hold.
    #[track_caller]
    pub(super) fn of(&self, holder: &str) -> (LostReason, Instant) {
        eventually(BOUND, "the loss is told", || {
            let losses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let mut of_holder = losses.iter().filter(|(who, ..)| who == holder);
            let found = of_holder.next().map(|&(_, reason, at)| (reason, at));
            assert!(of_holder.next().is_none(), "it is told once");
            found
        })
    }
}

/// How long the clients here wait for a reply.
pub(super) const TIMEOUT: Duration = Duration::from_millis(300);
/// For what takes no time but that of a busy machine.
pub(super) const SLACK: Duration = Duration::from_millis(700);
/// A lease whose end no test sees.
pub(super) const LONG: Duration = Duration::from_secs(60);
pub(super) const BOUND: Duration = Duration::from_secs(10);
