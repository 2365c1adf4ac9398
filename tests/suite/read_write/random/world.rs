//! What is known of all workers: who believes to hold what, and whether that can be.

use std::{
    collections::BTreeSet,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use lockson::{CancelToken, Error, ErrorKind, LostSignal, ReadWriteLock};
use redis::Commands;

use super::{
    super::{SOON, millis},
    look::look,
};
use crate::support::{Server, eventually};

/// What the time of all readers is lowered to.
pub(super) const LOWERED: Duration = millis(1500);
/// Redis counts in milliseconds, and its clock is not ours.
pub(super) const BLUR: Duration = millis(3);
/// Rounds between two quiet moments.
const STRETCH: u64 = 40;

/// Lowers the time of all readers, as Redisson's watchdog does.
const LOWER: &str = "
    if redis.call('hget', KEYS[1], 'mode') == 'read' and redis.call('pttl', KEYS[1]) > tonumber(ARGV[1]) then
        return redis.call('pexpire', KEYS[1], ARGV[1])
    end
    return 0";

/// That somebody believes to hold the lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Belief(u64);

/// Who has a guard.
#[derive(Debug)]
pub(super) struct Who {
    pub(super) holder: String,
    /// None for a guard that owns itself.
    pub(super) thread: Option<usize>,
    pub(super) writes: bool,
    pub(super) signal: LostSignal,
}

#[derive(Debug)]
pub(super) struct Entry {
    belief: Belief,
    pub(super) who: Who,
    /// The lock was freed by force in its time: it may believe in what is not so.
    pub(super) tainted: bool,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    rounds: u64,
    reads: u64,
    writes: u64,
    downgrades: u64,
    lost: u64,
    forced: u64,
    lowered: u64,
    quiet: u64,
    pub(super) found: u64,
    failed: u64,
}

pub(super) struct State {
    pub(super) entries: Vec<Entry>,
    next: u64,
    /// Goes up when the lock is freed by force.
    generation: u64,
    forcing: u32,
    /// Who was sent away by force; as in Redisson, its slots may stay for their time.
    forced: BTreeSet<String>,
    pub(super) lowered: Option<Instant>,
    /// Whether requests are lost.
    faulty: bool,
    quiet: bool,
    over: bool,
    tokens: Vec<CancelToken>,
    /// When the guards of each worker end that does nothing at the moment.
    pub(super) ends: Vec<Option<Vec<(Belief, Instant)>>>,
    pub(super) counts: Counts,
}

pub(super) struct World<'a> {
    server: &'a Server,
    name: &'a str,
    state: Mutex<State>,
    changed: Condvar,
}

/// Ends the play when a part of it does, also by a panic.
pub(super) struct Curtain<'a>(&'a World<'a>);

impl Drop for Curtain<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.over = true;
        state.tokens.iter().for_each(CancelToken::cancel);
        self.0.changed.notify_all();
    }
}

impl<'a> World<'a> {
    pub(super) fn new(server: &'a Server, name: &'a str, workers: usize, faulty: bool) -> Self {
        Self {
            server,
            name,
            state: Mutex::new(State {
                entries: Vec::new(),
                next: 0,
                generation: 0,
                forcing: 0,
                forced: BTreeSet::new(),
                lowered: None,
                faulty,
                quiet: false,
                over: false,
                tokens: vec![CancelToken::new(); workers],
                ends: vec![None; workers],
                counts: Counts::default(),
            }),
            changed: Condvar::new(),
        }
    }

    pub(super) fn curtain(&self) -> Curtain<'_> {
        Curtain(self)
    }

    pub(super) fn is_over(&self) -> bool {
        self.lock().over
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.lock().quiet
    }

    pub(super) fn count_round(&self) {
        self.lock().counts.rounds += 1;
        self.changed.notify_all();
    }

    /// How many of ten want to write. It changes: beside many readers hardly anybody would get in.
    pub(super) fn share_of_writers(&self) -> u64 {
        [10, 7, 3][(self.lock().counts.quiet / 5 % 3) as usize]
    }

    pub(super) fn count_failure(&self) {
        self.lock().counts.failed += 1;
    }

    /// Whether this is what comes of lost requests.
    pub(super) fn may_have_failed(&self, error: &Error) -> bool {
        let passing = matches!(error.kind(), ErrorKind::Connection | ErrorKind::Timeout);
        let may = passing && self.lock().faulty;
        if may {
            self.count_failure();
        }
        may
    }

    pub(super) fn count_downgrade(&self) {
        self.lock().counts.downgrades += 1;
    }

    /// Before an operation: how often the lock was freed by force so far. Who waits is cancelled by
    /// the token when all shall be quiet.
    pub(super) fn begin(&self, worker: usize, token: &CancelToken) -> u64 {
        let mut state = self.lock();
        state.tokens[worker] = token.clone();
        if state.quiet || state.over {
            token.cancel();
        }
        state.generation
    }

    /// Somebody has the lock since an operation that began then: nobody else may be in its way.
    #[track_caller]
    pub(super) fn believe(&self, who: Who, began: u64) -> Belief {
        let mut state = self.lock();
        let belief = Belief(state.next);
        state.next += 1;
        match who.writes {
            true => state.counts.writes += 1,
            false => state.counts.reads += 1,
        }
        let entry = Entry {
            belief,
            who,
            tainted: state.forcing > 0 || state.generation != began,
        };
        let mut conflict = state.conflict(&entry);
        if conflict.is_some() {
            // With everybody kept from going on: it is more than a blur if it lasts.
            thread::sleep(BLUR);
            conflict = state.conflict(&entry);
        }
        if let Some(conflict) = conflict {
            drop(state);
            panic!("{entry:?} beside {conflict}");
        }
        state.entries.push(entry);
        belief
    }

    /// Its belief ends; answers the generation in which it was right, if it was.
    pub(super) fn stop(&self, belief: Belief) -> Option<u64> {
        let sure = self.sure(belief);
        let mut state = self.lock();
        let place = state.place(belief);
        let entry = state.entries.swap_remove(place);
        state.counts.lost += u64::from(entry.who.signal.is_lost());
        if entry.tainted {
            state.forced.insert(entry.who.holder);
        }
        sure
    }

    pub(super) fn set_writes(&self, belief: Belief, writes: bool) {
        let mut state = self.lock();
        let place = state.place(belief);
        state.entries[place].who.writes = writes;
    }

    /// The generation in which this is held as it is believed, unless the lock was freed by force.
    pub(super) fn sure(&self, belief: Belief) -> Option<u64> {
        let state = self.lock();
        let tainted = state.entries[state.place(belief)].tainted;
        (!tainted && state.forcing == 0).then_some(state.generation)
    }

    /// Whether nobody has freed the lock by force since.
    pub(super) fn is_still(&self, sure: Option<u64>) -> bool {
        let state = self.lock();
        state.forcing == 0 && sure == Some(state.generation)
    }

    pub(super) fn force(&self, lock: &ReadWriteLock, writes: bool) {
        self.taint(1);
        let forced = match writes {
            true => lock.write_lock().force_unlock(),
            false => lock.read_lock().force_unlock(),
        };
        self.taint(0);
        match forced {
            Ok(forced) => self.lock().counts.forced += u64::from(forced),
            Err(error) => assert!(self.may_have_failed(&error), "{error}"),
        }
    }

    fn taint(&self, forcing: u32) {
        let mut state = self.lock();
        match forcing {
            0 => state.forcing -= 1,
            more => state.forcing += more,
        }
        state.generation += 1;
        for entry in &mut state.entries {
            entry.tainted = true;
        }
    }

    pub(super) fn lower(&self) {
        let lowered: u64 = redis::cmd("EVAL")
            .arg(LOWER)
            .arg(1)
            .arg(self.name)
            .arg(LOWERED.as_millis() as u64)
            .query(&mut self.server.connection())
            .expect("answered");
        let mut state = self.lock();
        state.lowered = Some(Instant::now());
        state.counts.lowered += lowered;
    }

    /// Says what a worker has, and stays until it may go on.
    pub(super) fn be_quiet(&self, worker: usize, ends: Vec<(Belief, Instant)>) {
        let mut state = self.lock();
        state.ends[worker] = Some(ends);
        self.changed.notify_all();
        while state.quiet && !state.over {
            state = self.wait(state);
        }
        state.ends[worker] = None;
    }

    /// Lets the workers go on for so many rounds, with quiet moments in between.
    pub(super) fn watch(&self, rounds: u64) {
        let _curtain = self.curtain();
        for end in (STRETCH..=rounds).step_by(STRETCH as usize) {
            let mut state = self.until("they go on", |state| state.counts.rounds >= end);
            state.quiet = true;
            state.tokens.iter().for_each(CancelToken::cancel);
            drop(state);
            let mut state = self.until("all are quiet", |state| {
                state.ends.iter().all(Option::is_some)
            });
            if state.over {
                return;
            }
            let deadline = Instant::now() + SOON;
            while let Err(wrong) = look(self.server, self.name, &mut state) {
                // What came of requests that were given up is put right behind our back.
                let may_pass = !state.is_exact() && Instant::now() < deadline;
                assert!(may_pass, "{wrong}");
                thread::sleep(millis(50));
            }
            state.counts.quiet += 1;
            state.quiet = false;
            self.changed.notify_all();
        }
    }

    fn until(&self, what: &str, fact: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let deadline = Instant::now() + 3 * SOON;
        let mut state = self.lock();
        while !state.over && !fact(&state) {
            assert!(Instant::now() < deadline, "not in time: {what}");
            state = self.wait(state);
        }
        state
    }

    pub(super) fn summary(&self) -> String {
        format!("{:?}", self.lock().counts)
    }

    /// All of it happened.
    pub(super) fn assert_fair_play(&self, rounds: u64) {
        let state = self.lock();
        let counts = &state.counts;
        assert!(counts.rounds >= rounds && counts.quiet >= rounds / STRETCH);
        for seldom in [
            counts.downgrades,
            counts.lost,
            counts.forced,
            counts.lowered,
            counts.found,
        ] {
            assert!(seldom > 0, "{counts:?}");
        }
        assert!(counts.reads.min(counts.writes) > rounds / 100, "{counts:?}");
    }

    #[track_caller]
    pub(super) fn assert_nothing_left(&self) {
        let left = self.keys();
        if self.lock().is_exact() {
            assert_eq!(left, Vec::<String>::new());
        }
        eventually(SOON, "nothing is left", || self.keys().is_empty());
    }

    fn keys(&self) -> Vec<String> {
        let mut redis = self.server.connection();
        let (state, stem) = (self.lock(), format!("{{{}}}:", self.name));
        let mut keys: Vec<String> = redis.keys(format!("*{}*", self.name)).expect("KEYS");
        keys.retain(|key| {
            let forced = state.is_of_forced(key, &stem);
            if forced {
                let _: u64 = redis.del(key).expect("DEL");
            }
            !forced
        });
        keys
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        let waited = self.changed.wait_timeout(state, millis(100));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl State {
    /// Whether nothing was given up on its way to Redis, to be put right by what comes next.
    pub(super) fn is_exact(&self) -> bool {
        !self.faulty && self.counts.failed == 0
    }

    pub(super) fn place(&self, belief: Belief) -> usize {
        let mut entries = self.entries.iter();
        let place = entries.position(|entry| entry.belief == belief);
        place.expect("it is believed")
    }

    pub(super) fn is_of_forced(&self, slot: &str, stem: &str) -> bool {
        let holder = slot.strip_prefix(stem).and_then(|rest| {
            let (holder, _) = rest.split_once(":rwlock_timeout:")?;
            Some(holder)
        });
        holder.is_some_and(|holder| self.forced.contains(holder))
    }

    /// Whom this one must not be beside, as both believe at the same time.
    fn conflict(&self, new: &Entry) -> Option<String> {
        // Read first: who is seen to believe later did so then, being there before.
        if new.tainted || new.who.signal.is_lost() {
            return None;
        }
        let believes = |entry: &&Entry| !entry.tainted && !entry.who.signal.is_lost();
        let thread = new.who.thread;
        let own = |entry: &&Entry| thread.is_some() && entry.who.thread == thread;
        let mut written = self.entries.iter().filter(own);
        let wrote = written.any(|entry| entry.who.writes);
        let mut others = self.entries.iter();
        let conflict = others.find(|entry| {
            let kept_out = match own(entry) {
                // Who writes may read, and write again; who reads may not write.
                true => new.who.writes && !entry.who.writes && !wrote,
                false => new.who.writes || entry.who.writes,
            };
            kept_out && believes(entry)
        });
        conflict.map(|entry| format!("{entry:?}"))
    }
}
