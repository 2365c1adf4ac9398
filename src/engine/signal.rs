//! What a watcher of a guard has: the ends of its acquisitions, of which so many must be held.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Alive,
    hold::{Fate, Hold},
    watch::Watch,
};
use crate::event::{Ended, LostReason};

/// How the acquisitions of a guard end.
#[derive(Clone)]
pub(crate) struct Signal {
    members: Arc<[Fated]>,
    needed: usize,
    /// So much of the time of each is not counted on.
    margin: Duration,
}

/// How one acquisition ends.
#[derive(Clone)]
pub(crate) struct Fated {
    /// Not the core: who watches does not keep the client alive.
    pub(super) alive: Alive,
    pub(super) hold: Arc<Hold>,
    pub(super) fate: Fate,
}

impl Signal {
    pub(super) fn of_one(member: Fated) -> Self {
        Self::of_many([member].into(), 1, Duration::ZERO)
    }

    pub(super) fn of_many(members: Arc<[Fated]>, needed: usize, margin: Duration) -> Self {
        Self {
            members,
            needed,
            margin,
        }
    }

    pub(crate) fn now(&self) -> Option<Ended> {
        let mut lost = None;
        let (mut held, mut released) = (0, 0);
        for member in self.members.iter() {
            match member.now(self.margin) {
                None => held += 1,
                Some(end @ Ended::Lost(_)) => lost = lost.or(Some(end)),
                Some(_) => released += 1,
            }
        }
        if held + released < self.needed {
            return lost;
        }
        (held < self.needed).then_some(Ended::Released)
    }

    pub(crate) fn wait(&self, timeout: Duration) -> Ended {
        // So far away that it cannot be counted: for ever.
        let until = Instant::now().checked_add(timeout);
        if self.margin.is_zero()
            && let [member] = &*self.members
        {
            return member.wait(until);
        }
        // First, since after a fork nothing else may be touched.
        if let Some(ended) = self.now() {
            return ended;
        }
        let watch = Arc::new(Watch::default());
        for member in self.members.iter() {
            member.hold.watch(&watch);
        }
        loop {
            let seen = watch.rung();
            if let Some(ended) = self.now() {
                return ended;
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ended::TimedOut;
            }
            watch.wait(seen, self.alarm(until));
        }
    }

    /// When the clock may change the answer.
    fn alarm(&self, until: Option<Instant>) -> Instant {
        let now = Instant::now();
        let ends = self.members.iter().filter_map(|member| {
            let left = member.hold.remaining().checked_sub(self.margin)?;
            Some(now + left)
        });
        ends.chain(until)
            .filter(|end| *end > now)
            .min()
            .unwrap_or(now + FAR)
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.members.iter().map(|member| &member.hold))
            .finish()
    }
}

impl Fated {
    fn now(&self, margin: Duration) -> Option<Ended> {
        if self.alive.is_closed() {
            return Some(self.closed());
        }
        let over = || self.hold.remaining() <= margin;
        let end = self.hold.fate(&self.fate);
        end.or_else(|| over().then_some(Ended::Lost(LostReason::Expired)))
    }

    fn wait(&self, until: Option<Instant>) -> Ended {
        if self.alive.is_closed() {
            return self.closed();
        }
        self.hold.wait(&self.fate, until)
    }

    /// A closed client has told its guards; after a fork nobody has, and nothing may be touched.
    fn closed(&self) -> Ended {
        let closed = Ended::Lost(LostReason::Closed);
        *self.fate.get().unwrap_or(&closed)
    }
}

/// Nothing changes by the clock: somebody rings.
const FAR: Duration = Duration::from_secs(3600);
