//! One acquisition as its guard holds it.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Core, Terms, Wait,
    hold::{Fate, Hold},
    joint::Part,
    release::Parting,
    signal::{Fated, Signal},
};
use crate::{
    error::{Error, ErrorKind, Result},
    event::LostReason,
    protocol::{Kind, Subject},
};

/// What every guard is made of. Dropping it releases.
pub(crate) struct Grip {
    core: Arc<Core>,
    hold: Arc<Hold>,
    share: u64,
    fate: Fate,
    /// As the caller knows the lock: another name or kind may have begun the hold.
    subject: Arc<Subject>,
    released: bool,
}

impl Grip {
    pub(super) fn new(
        core: Arc<Core>,
        subject: &Arc<Subject>,
        hold: Arc<Hold>,
        (share, fate): (u64, Fate),
    ) -> Self {
        Self {
            core,
            hold,
            share,
            fate,
            subject: Arc::clone(subject),
            released: false,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.subject.name
    }

    pub(crate) fn holder(&self) -> &str {
        &self.hold.holder
    }

    pub(crate) fn is_held(&self) -> bool {
        !self.core.is_closed() && self.hold.is_held()
    }

    pub(crate) fn remaining(&self) -> Duration {
        if self.core.is_closed() {
            return Duration::ZERO;
        }
        self.hold.remaining()
    }

    /// What is left of its time, less what clocks may drift.
    pub(super) fn counted_on(&self, margin: Duration) -> Duration {
        self.remaining().saturating_sub(self.hold.drift(margin))
    }

    pub(crate) fn verify(&self) -> Result<()> {
        self.verify_within(None)
    }

    pub(super) fn verify_within(&self, limit: Option<Duration>) -> Result<()> {
        self.core.check_open()?;
        self.core.verify(&self.hold, limit)
    }

    pub(crate) fn extend(&self, lease: Duration) -> Result<()> {
        self.extend_within(lease, None)
    }

    pub(super) fn extend_within(&self, lease: Duration, limit: Option<Duration>) -> Result<()> {
        self.core.check_open()?;
        self.core.extend(&self.hold, self.share, lease, limit)
    }

    pub(crate) fn signal(&self) -> Signal {
        Signal::of_one(self.fated())
    }

    pub(super) fn fated(&self) -> Fated {
        Fated {
            alive: self.core.alive(),
            hold: Arc::clone(&self.hold),
            fate: Arc::clone(&self.fate),
        }
    }

    pub(crate) fn unlock(mut self) -> Result<()> {
        self.released = true;
        self.core.release(&self.subject, &self.hold, self.share)
    }

    /// Begins to release it; it is not waited for longer than until the deadline.
    pub(super) fn part(&mut self, deadline: Instant) -> Result<Parting<'_>> {
        self.released = true;
        let Self { core, hold, .. } = &*self;
        let mut parting = core.parting(&self.subject, hold, self.share, Some(deadline))?;
        parting.begin();
        Ok(parting)
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(super) fn subject(&self) -> &Arc<Subject> {
        &self.subject
    }

    /// Leaves it to somebody else to release it.
    pub(super) fn into_part(mut self) -> Part {
        self.released = true;
        Part {
            subject: Arc::clone(&self.subject),
            hold: Arc::clone(&self.hold),
            share: self.share,
        }
    }

    /// Takes another part of the same lock, as this one is held, and gives this one up.
    ///
    /// On an error nothing has changed, unless this one was lost in the middle of it.
    pub(crate) fn exchange(mut self, part: &'static dyn Kind) -> Result<Self, (Error, Box<Self>)> {
        let other = match self.beside(part) {
            Ok(other) => other,
            Err(error) => return Err((error, Box::new(self))),
        };
        self.released = true;
        match self.core.release(&self.subject, &self.hold, self.share) {
            Err(error) if error.kind() == ErrorKind::NotHeld => {
                // Then nothing let the other in, and it goes.
                Err((error, Box::new(self)))
            }
            Err(error) => {
                self.tell_failed(error);
                Ok(other)
            }
            Ok(()) => Ok(other),
        }
    }

    fn beside(&self, part: &'static dyn Kind) -> Result<Self> {
        self.core.check_open()?;
        self.core.check_live(&self.hold)?;
        let (lease, max_hold) = self.hold.kept(self.share);
        let terms = Terms {
            wait: Wait::Not,
            lease,
            max_hold,
            owned: self.hold.thread.is_none(),
            ahead: false,
            cancel: None,
        };
        let (name, key) = (&self.subject.name, &self.subject.key);
        let subject = Arc::new(Subject::new(part, Arc::clone(name), Arc::clone(key)));
        let taken = self.core.acquire_beneath(&self.hold, &subject, &terms)?;
        taken.ok_or_else(|| {
            // Refused, although this one would have let it in.
            self.core.lose(&self.hold, LostReason::Gone);
            super::release::not_held().about(&self.subject.key)
        })
    }

    fn tell_failed(&self, error: Error) {
        let name = Arc::clone(&self.subject.name);
        self.core.tell_not_released(name, error);
    }
}

impl Drop for Grip {
    fn drop(&mut self) {
        if self.released || self.core.is_closed() {
            return;
        }
        if let Err(error) = self.core.release(&self.subject, &self.hold, self.share) {
            self.tell_failed(error);
        }
    }
}

impl fmt::Debug for Grip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.hold, f)
    }
}
