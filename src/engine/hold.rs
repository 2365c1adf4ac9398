//! A hold: what this process knows of one entry in a lock's hash, and the clock it lives by.

mod state;

use std::{
    fmt,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use self::state::{Renewed, Share, State};
use super::watch::Watch;
use crate::{
    error::Shortened,
    event::{Ended, LostReason},
    protocol::{Left, Part, Subject},
    sync::{Condvar, Mutex, MutexGuard},
    transport::Fence,
};

/// One hold, shared by the guards of its acquisitions.
pub(crate) struct Hold {
    pub(crate) subject: Arc<Subject>,
    /// `uuid:number`; no other hold ever had this number, so that a late copy of a request for one
    /// hold can never touch the next.
    pub(crate) holder: Arc<str>,
    /// The thread that may re-enter; none for an owned hold.
    pub(crate) thread: Option<u64>,
    /// How long its acquisition may be silent in a queue: who leaves one gives this time back.
    pub(crate) patience: Duration,
    /// The holder of the hold of the same thread that lets this one in.
    pub(crate) under: Option<Arc<str>>,
    /// Whether another part's hold has gone by this holder. Once only: what a late copy does to the
    /// first must not hit a second.
    lent: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

/// How often the lock went from thread to thread within this client, and since when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    pub(crate) handed: u32,
    pub(crate) since: Instant,
}

impl Chain {
    fn begin(since: Instant) -> Self {
        Self { handed: 0, since }
    }
}

/// How an acquisition wants to be kept.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keep {
    /// To the end of its lease.
    Leased,
    /// By the watchdog, for so long from its grant at most.
    Renewed(Option<Duration>),
}

/// For whom Redis has raised a TTL.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Raised {
    /// For nobody: others may have lowered it.
    Again,
    For(u64),
    /// For all acquisitions that are renewed.
    Renewed,
}

/// How one acquisition of a hold ended; set once.
pub(crate) type Fate = Arc<OnceLock<Ended>>;

impl Hold {
    pub(crate) fn new(
        subject: Arc<Subject>,
        holder: Arc<str>,
        thread: Option<u64>,
        patience: Duration,
    ) -> Self {
        Self {
            subject,
            holder,
            thread,
            patience,
            under: None,
            lent: AtomicBool::new(false),
            state: Mutex::new(State {
                count: 0,
                shares: Vec::with_capacity(1),
                next_share: 0,
                chain: None,
                deadline: Instant::now(),
                span: Duration::ZERO,
                lost: None,
                let_go: false,
                doubtful: false,
                copies: Vec::new(),
                watches: Vec::new(),
            }),
            changed: Condvar::new(),
        }
    }

    /// A hold of another part that this one lets in, under the same holder if nobody had that yet.
    pub(crate) fn beneath(
        &self,
        subject: Arc<Subject>,
        fresh: Arc<str>,
        patience: Duration,
    ) -> Self {
        let holder = match self.lent.swap(true, Ordering::Relaxed) {
            false => Arc::clone(&self.holder),
            true => fresh,
        };
        Self {
            under: Some(Arc::clone(&self.holder)),
            ..Self::new(subject, holder, self.thread, patience)
        }
    }

    pub(crate) fn part(&self) -> Part {
        self.subject.kind.part()
    }

    /// Which of the holds of its client it is, by when they began.
    pub(crate) fn number(&self) -> u64 {
        let number = self.holder.rsplit(':').next();
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// The chain that goes on when this hold is handed over.
    pub(crate) fn chain(&self) -> Chain {
        let chain = self.state.lock().chain;
        chain.unwrap_or_else(|| Chain::begin(Instant::now()))
    }

    /// Says before the grant that it comes from another thread's hold.
    pub(crate) fn handed_over(&self, chain: Chain) {
        self.state.lock().chain = Some(chain);
    }

    pub(crate) fn count(&self) -> u32 {
        self.state.lock().count
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.state.lock().deadline
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.state.lock().remaining()
    }

    /// How much of its time is not counted on where clocks may drift, this much at least.
    pub(crate) fn drift(&self, least: Duration) -> Duration {
        match least.is_zero() {
            true => Duration::ZERO,
            false => least.max(drift_of(self.state.lock().span)),
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Whether Redis had it when its release began.
    pub(crate) fn is_released_in_time(&self) -> bool {
        let state = self.state.lock();
        state.let_go || !state.is_over()
    }

    /// Adds an acquisition that Redis confirmed. The clock moves forward, as the TTL in Redis does
    /// (and back only where a hold lives by its leases, when one is released); `None` when the time was over before the answer came: nobody may believe again
    /// in a hold that was not held for a moment.
    pub(crate) fn grant(&self, keep: Keep, deadline: Instant) -> Option<(u64, Fate)> {
        let mut state = self.state.lock();
        if state.count > 0 && state.is_over() {
            return None;
        }
        let now = Instant::now();
        state.count += 1;
        state.note_span(now, deadline);
        state.chain.get_or_insert_with(|| Chain::begin(now));
        state.deadline = state.deadline.max(deadline);
        let share = Share {
            number: state.next_share,
            renewed: match keep {
                Keep::Leased => Renewed::Not,
                Keep::Renewed(None) => Renewed::ForEver,
                Keep::Renewed(Some(most)) => now
                    .checked_add(most)
                    .map_or(Renewed::ForEver, Renewed::Until),
            },
            end: deadline,
            leaves: false,
            fate: Fate::default(),
        };
        state.next_share += 1;
        state.shares.push(share.clone());
        self.notify(&mut state);
        Some((share.number, share.fate))
    }

    /// Notes that Redis raised the TTL; false when the time was over before the answer came.
    #[must_use]
    pub(crate) fn confirm(&self, raised: Raised, deadline: Instant) -> bool {
        let mut state = self.state.lock();
        if state.is_over() {
            state.doubtful = true;
            return false;
        }
        state.note_span(Instant::now(), deadline);
        for one in &mut state.shares {
            let until = match (raised, one.renewed) {
                (Raised::For(number), _) if number == one.number => deadline,
                (Raised::Renewed, Renewed::ForEver) => deadline,
                (Raised::Renewed, Renewed::Until(end)) => deadline.min(end),
                _ => continue,
            };
            one.end = one.end.max(until);
        }
        // What was renewed for somebody who has left meanwhile is not for those who stay.
        let deadline = match self.part().lives_by_leases() {
            true => state.longest_lease().unwrap_or(deadline),
            false => deadline,
        };
        if state.deadline < deadline {
            state.deadline = deadline;
            self.notify(&mut state);
        }
        true
    }

    /// Notes that a request that raises the TTL went unanswered.
    pub(crate) fn doubt(&self) {
        self.state.lock().doubtful = true;
    }

    /// Notes where late copies of a request for it may be, for who asks next.
    pub(crate) fn note_copies(&self, fences: &[Fence]) {
        self.state.lock().copies.extend_from_slice(fences);
    }

    pub(crate) fn take_copies(&self) -> Option<Vec<Fence>> {
        let copies = std::mem::take(&mut self.state.lock().copies);
        Some(copies).filter(|copies| !copies.is_empty())
    }

    pub(crate) fn is_doubtful(&self) -> bool {
        self.state.lock().doubtful
    }

    /// Whether Redis may keep it although its time is over by the clock; says so once for each
    /// doubt.
    pub(crate) fn take_doubt(&self) -> bool {
        let mut state = self.state.lock();
        let over = state.is_over() && state.reason(LostReason::Expired) == LostReason::Expired;
        over && std::mem::take(&mut state.doubtful)
    }

    /// How long it should live in Redis, where others may lower that: as long as we believe in it.
    pub(crate) fn asserted(&self) -> Option<Duration> {
        let lives = self.part().lives_by_leases().then(|| self.remaining());
        lives.filter(|left| !left.is_zero())
    }

    /// Whether an acquisition is left that only its own release ends.
    pub(crate) fn is_unbounded(&self) -> bool {
        let state = self.state.lock();
        let mut shares = state.shares.iter();
        !state.is_over() && shares.any(|share| matches!(share.renewed, Renewed::ForEver))
    }

    /// For how long the watchdog should keep it from now on, if it should at all.
    pub(crate) fn wanted(&self, timeout: Duration) -> Option<Duration> {
        let state = self.state.lock();
        if state.is_over() {
            return None;
        }
        let now = Instant::now();
        let longest = state.shares.iter().filter_map(|share| match share.renewed {
            Renewed::Not => None,
            Renewed::ForEver => Some(timeout),
            Renewed::Until(end) => Some(timeout.min(end.saturating_duration_since(now))),
        });
        longest.max().filter(|ttl| !ttl.is_zero())
    }

    /// Takes an acquisition out; answers what is left.
    ///
    /// What the answer will be is not known yet: [`end_share`](Self::end_share) tells its watchers.
    pub(crate) fn begin_release(&self, number: u64) -> Left {
        let mut state = self.state.lock();
        state.count = state.count.saturating_sub(1);
        if let Some(share) = state.shares.iter_mut().find(|share| share.number == number) {
            // Not renewed for this one any more, whatever comes back.
            share.renewed = Renewed::Not;
            share.leaves = true;
        }
        let mut lives = state.remaining();
        if self.part().lives_by_leases()
            && !lives.is_zero()
            && let Some(end) = state.longest_lease().filter(|end| *end < state.deadline)
        {
            // The release may lower the TTL as soon as it runs, and need not lower it so far.
            state.deadline = end;
            lives = state.remaining();
            // What goes with this release is not the watchdog's to release: it could be first.
            state.doubtful = !lives.is_zero();
            if lives.is_zero() {
                // Their leases are over: with this one all goes, and only this one is released.
                state.count = 0;
                state.let_go = true;
                let released = state.shares.iter().find(|share| share.number == number);
                let _ = released.map(|share| share.fate.set(Ended::Released));
            }
            self.notify(&mut state);
        }
        Left {
            count: state.count,
            lives,
        }
    }

    /// What Redis should have of it.
    pub(crate) fn left(&self) -> Left {
        let state = self.state.lock();
        Left {
            count: state.count,
            lives: state.remaining(),
        }
    }

    /// The lease and the longest time of an acquisition that takes the place of this one.
    pub(crate) fn kept(&self, number: u64) -> (Option<Duration>, Option<Duration>) {
        let state = self.state.lock();
        let a_moment = Duration::from_millis(1);
        let left = state.remaining().max(a_moment);
        let share = state.shares.iter().find(|share| share.number == number);
        match share.map_or(Renewed::Not, |share| share.renewed) {
            Renewed::Not => (Some(left), None),
            Renewed::Until(end) => {
                let most = end.saturating_duration_since(Instant::now());
                (None, Some(most.max(a_moment)))
            }
            Renewed::ForEver => (None, None),
        }
    }

    pub(crate) fn end_share(&self, number: u64) {
        let mut state = self.state.lock();
        state.let_go = false;
        if let Some(place) = state.shares.iter().position(|share| share.number == number) {
            let share = state.shares.swap_remove(place);
            let _ = share.fate.set(match state.is_over() {
                true => Ended::Lost(state.reason(LostReason::Expired)),
                false => Ended::Released,
            });
            self.notify(&mut state);
        }
    }

    /// Closes the hold for all its guards; false if it was closed already.
    pub(crate) fn lose(&self, reason: LostReason) -> bool {
        let mut state = self.state.lock();
        if state.lost.is_some() {
            return false;
        }
        let reason = state.reason(reason);
        state.lost = Some(reason);
        for share in &state.shares {
            let _ = share.fate.set(Ended::Lost(reason));
        }
        self.notify(&mut state);
        true
    }

    /// How it was lost, if it was.
    pub(crate) fn lost(&self) -> Option<LostReason> {
        let state = self.state.lock();
        state.is_over().then(|| state.reason(LostReason::Expired))
    }

    /// How an acquisition ended, if it did.
    ///
    /// The clock decides by itself: no thread has to notice that the time is over.
    pub(crate) fn fate(&self, fate: &Fate) -> Option<Ended> {
        self.fate_in(&self.state.lock(), fate)
    }

    /// Waits for the end of an acquisition.
    pub(crate) fn wait(&self, fate: &Fate, until: Option<Instant>) -> Ended {
        let mut state = self.state.lock();
        loop {
            if let Some(ended) = self.fate_in(&state, fate) {
                return ended;
            }
            let alarm = until.map_or(state.deadline, |until| until.min(state.deadline));
            self.changed.wait_until(&mut state, alarm);
            if until.is_some_and(|until| Instant::now() >= until) {
                return self.fate_in(&state, fate).unwrap_or(Ended::TimedOut);
            }
        }
    }

    /// Has a watch ring whenever something changes.
    pub(crate) fn watch(&self, watch: &Arc<Watch>) {
        let mut state = self.state.lock();
        state.watches.retain(|other| other.strong_count() > 0);
        state.watches.push(Arc::downgrade(watch));
    }

    fn notify(&self, state: &mut State) {
        self.changed.notify_all();
        for watch in state.watches.iter().filter_map(Weak::upgrade) {
            watch.ring();
        }
    }

    fn fate_in(&self, state: &MutexGuard<'_, State>, fate: &Fate) -> Option<Ended> {
        if let Some(ended) = fate.get() {
            return Some(*ended);
        }
        (Instant::now() >= state.deadline).then_some(Ended::Lost(LostReason::Expired))
    }
}

/// What clocks may differ by after so long that run at different speeds, and a bit for short times.
pub(crate) fn drift_of(span: Duration) -> Duration {
    span.mul_f64(0.01) + Duration::from_millis(2)
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("name", &Shortened(&self.subject.name))
            .field("holder", &self.holder)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
