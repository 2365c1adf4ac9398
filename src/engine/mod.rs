//! What all locks share: acquiring, releasing, the holds, the watchdog.

mod acquire;
mod ask;
mod bid;
mod bundle;
mod contest;
mod ear;
mod grip;
mod herald;
mod hold;
mod joint;
mod line;
#[cfg(all(test, lockson_model))]
mod model;
mod multi;
mod orphan;
mod parallel;
mod red;
mod registry;
mod release;
mod rest;
mod signal;
mod terms;
mod thread;
mod threads;
mod watch;
mod watchdog;

use std::{
    fmt::{self, Write as _},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

pub(crate) use bundle::Bundle;
pub(crate) use ear::Bell;
pub(crate) use grip::Grip;
use hold::Hold;
pub(crate) use multi::{Member, acquire as acquire_all};
use orphan::Orphan;
pub(crate) use red::{acquire as acquire_majority, majority};
pub(crate) use signal::Signal;
pub(crate) use terms::{Terms, Wait};
use threads::Threads;

use crate::{
    error::{Error, ErrorKind, Result, Shortened},
    event::{Event, LostReason},
    protocol::{Malformed, Standing},
    settings::Settings,
    transport::{Budget, Endpoint, Fence, HEARTBEAT, Notice, Transport},
};

/// What client, handles and guards own together: the last one gone ends the threads.
pub(crate) struct Core {
    shared: Arc<Shared>,
    threads: Threads,
}

/// What the threads may keep: nothing that would keep themselves alive.
pub(crate) struct Shared {
    id: Arc<str>,
    settings: Arc<Settings>,
    transport: Transport,
    registry: registry::Registry,
    contests: line::Contests,
    watchdog: watchdog::Watchdog,
    herald: Option<herald::Herald>,
    next_number: AtomicU64,
    alive: Alive,
}

/// Whether a client may still be used: all that a watcher of its guards has to keep of it.
#[derive(Clone)]
pub(crate) struct Alive {
    closed: Arc<AtomicBool>,
    process: u32,
}

impl Alive {
    pub(crate) fn is_closed(&self) -> bool {
        // The process first: after a fork nothing else may be touched.
        self.is_forked() || self.closed.load(Ordering::Acquire)
    }

    fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }
}

impl Core {
    pub(crate) fn start(
        id: Arc<str>,
        endpoint: Endpoint,
        settings: Arc<Settings>,
    ) -> Result<Arc<Self>> {
        let shared = Arc::new(Shared {
            transport: Transport::new(endpoint, Arc::clone(&id), &settings),
            registry: registry::Registry::default(),
            contests: line::Contests::default(),
            watchdog: watchdog::Watchdog::default(),
            herald: settings.on_event.as_ref().map(|_| herald::Herald::new()),
            next_number: AtomicU64::new(1),
            alive: Alive {
                closed: Arc::default(),
                process: std::process::id(),
            },
            id,
            settings,
        });
        // Complete before the first thread: if the second cannot be started, the first ends.
        let core = Arc::new(Self {
            shared,
            threads: Threads::default(),
        });
        core.threads.spawn("w", &core.shared, watchdog::run)?;
        core.threads.spawn("n", &core.shared, |shared| {
            shared
                .transport
                .notifier()
                .run(&|notice| shared.notice(notice));
        })?;
        if core.herald.is_some() {
            core.threads.spawn(HERALD, &core.shared, herald::run)?;
        }
        Ok(core)
    }

    /// Closes the client: guards are lost, threads end, nothing is released in Redis.
    pub(crate) fn shut_down(&self) {
        if self.shared.is_forked() {
            return;
        }
        let end = Instant::now() + self.shared.settings.response_timeout;
        if !self.shared.close(end) {
            return;
        }
        self.threads.join(end, |role| role != HERALD);
        // Last: what the others came upon in their last moment is told, too.
        if let Some(herald) = &self.shared.herald {
            herald.stop();
        }
        let soon = Instant::now() + FAREWELL;
        self.threads.join(end.max(soon), |role| role == HERALD);
    }
}

impl std::ops::Deref for Core {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if self.shared.is_forked() {
            // The threads and whatever they had locked exist in the other process only.
            std::mem::forget(Arc::clone(&self.shared));
            self.threads.forget();
            return;
        }
        self.shut_down();
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("id", &self.shared.id)
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    pub(crate) fn held(&self) -> usize {
        let holds = self.registry.all();
        holds.iter().filter(|hold| hold.is_held()).count()
    }

    pub(crate) fn renewed(&self) -> usize {
        let timeout = self.settings.lock_watchdog_timeout;
        let holds = self.registry.all();
        holds
            .iter()
            .filter(|hold| hold.wanted(timeout).is_some())
            .count()
    }

    pub(crate) fn in_doubt(&self) -> usize {
        self.watchdog.in_doubt()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.contests.waiters()
    }

    pub(crate) fn waiting_for(&self, key: &str) -> usize {
        let contests = self.contests.of(key);
        contests.iter().map(|contest| contest.len()).sum()
    }

    pub(crate) fn dropped_events(&self) -> u64 {
        self.herald.as_ref().map_or(0, herald::Herald::dropped)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.alive.is_closed()
    }

    /// Whether this is the process that made the client.
    pub(crate) fn is_at_home(&self) -> bool {
        !self.is_forked()
    }

    pub(crate) fn alive(&self) -> Alive {
        self.alive.clone()
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed() {
            return Err(Error::closed());
        }
        Ok(())
    }

    /// The same for who is in the middle of a call, and so in the process where it began: to ask
    /// which process this is takes a system call.
    fn check_still_open(&self) -> Result<()> {
        match self.alive.closed.load(Ordering::Acquire) {
            true => Err(Error::closed()),
            false => Ok(()),
        }
    }

    fn is_forked(&self) -> bool {
        self.alive.is_forked()
    }

    /// Ends everything but the herald by then, as far as it can; false when somebody else did.
    fn close(&self, end: Instant) -> bool {
        if self.alive.closed.swap(true, Ordering::AcqRel) {
            return false;
        }
        for hold in self.registry.all() {
            self.lose(&hold, LostReason::Closed);
        }
        for contest in self.contests.all() {
            contest.close();
        }
        // They leave by themselves, and need their connections for it. Who has to wait for an answer
        // first may leave the rest to the watchdog.
        let rest = self.settings.response_timeout / 4;
        self.contests.wait_for_queues(end - rest);
        self.watchdog.stop(end);
        self.transport.notifier().stop();
        // The reader sleeps in its socket: half a heartbeat is worth trying to wake it.
        let left = end.saturating_duration_since(Instant::now());
        self.transport.wake_notifier(left.min(HEARTBEAT / 2));
        self.transport.close();
        true
    }

    fn new_holder(&self) -> Arc<str> {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        // With room for the number: growing it would copy the id once more.
        let mut holder = String::with_capacity(self.id.len() + 1 + MOST_DIGITS);
        holder.push_str(&self.id);
        let _ = write!(holder, ":{number}");
        holder.into()
    }

    /// Closes a hold: its guards are told, nobody re-enters it, nobody renews it.
    fn lose(&self, hold: &Arc<Hold>, reason: LostReason) {
        let first = hold.lose(reason);
        self.registry.remove(hold);
        for contest in self.contests.of(&hold.subject.key) {
            // Who stands in a queue is told through it, or asks when the TTL is over.
            if contest.standing() != Standing::Queued {
                contest.news();
            }
        }
        self.settle(hold);
        if !first {
            return;
        }
        let reason = hold.lost().unwrap_or(reason);
        log::warn!(
            "lock {}: hold {} lost: {reason:?}",
            Shortened(&hold.subject.name),
            hold.holder
        );
        self.raise(|| Event::Lost {
            name: Arc::clone(&hold.subject.name),
            holder: Arc::clone(&hold.holder),
            reason,
        });
    }

    /// A request that raises the TTL of a hold went unanswered.
    fn doubt(&self, hold: &Arc<Hold>) {
        hold.doubt();
        self.settle(hold);
        // It wakes up when the time of this hold is over.
        self.watchdog.knock();
    }

    /// Redis may have heard what we were not told: nobody shall be kept out for a hold that nobody
    /// believes in.
    fn settle(&self, hold: &Arc<Hold>) {
        if hold.take_doubt() {
            let left = LONGEST_DOUBT.max(self.settings.lock_watchdog_timeout);
            self.watchdog.adopt(Orphan::hold(hold, left, Vec::new()));
        }
    }

    /// Late copies that could not be killed just now are killed later.
    fn tie_up(&self, loose: Vec<Fence>) {
        if !loose.is_empty() {
            self.watchdog.adopt(Orphan::copies(loose));
        }
    }

    fn lose_expired(&self) {
        let now = Instant::now();
        for hold in self.registry.all() {
            if hold.deadline() <= now {
                self.lose(&hold, LostReason::Expired);
            }
        }
    }

    fn notice(&self, notice: Notice) {
        match notice {
            Notice::Connected => self.watchdog.knock(),
            Notice::Disconnected(error) => {
                log::warn!("waiting threads are not told of releases: {error}");
                self.raise(|| Event::NotifierDisconnected { error });
            }
            Notice::Reconnected => self.raise(|| Event::NotifierReconnected),
        }
    }

    fn raise(&self, event: impl FnOnce() -> Event) {
        if let Some(herald) = &self.herald {
            herald.raise(event());
        }
    }

    /// One attempt and one repetition.
    fn short_budget(&self) -> Budget {
        Budget {
            attempts: 2,
            deadline: Instant::now() + self.settings.response_timeout * 2,
            repeats: true,
        }
    }

    fn malformed(&self, Malformed(reply): Malformed) -> Error {
        Error::new(
            ErrorKind::Protocol,
            format!(
                "the server answered something unexpected: {}",
                Shortened(&format!("{reply:?}"))
            ),
        )
    }
}

/// The role of the herald among the threads.
const HERALD: &str = "e";

/// What the herald has to end where the others took all the time there was.
const FAREWELL: Duration = Duration::from_millis(50);

/// For how long an extension that was not answered may keep a hold, as far as it is worth trying.
const LONGEST_DOUBT: Duration = Duration::from_secs(3600);

const MOST_DIGITS: usize = u64::MAX.ilog10() as usize + 1;

/// Ten years: beyond it Redis would refuse the TTL after it took the lock.
pub(crate) const LONGEST_LEASE: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
