//! One acquisition as its guard holds it.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Alive, Core,
    hold::{Fate, Hold},
};
use crate::{
    error::{ErrorKind, Result},
    event::{Ended, Event},
    protocol::Subject,
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

/// How an acquisition ends, for those who watch it.
#[derive(Clone)]
pub(crate) struct Fated {
    /// Not the core: who watches does not keep the client alive.
    alive: Alive,
    hold: Arc<Hold>,
    fate: Fate,
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

    pub(crate) fn verify(&self) -> Result<()> {
        self.core.check_open()?;
        self.core.verify(&self.hold)
    }

    pub(crate) fn extend(&self, lease: Duration) -> Result<()> {
        self.core.check_open()?;
        self.core.extend(&self.hold, lease)
    }

    pub(crate) fn fated(&self) -> Fated {
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
}

impl Drop for Grip {
    fn drop(&mut self) {
        if self.released || self.core.is_closed() {
            return;
        }
        if let Err(error) = self.core.release(&self.subject, &self.hold, self.share) {
            if error.kind() == ErrorKind::NotHeld {
                // Lost, and that was told already.
                return;
            }
            log::warn!("a guard was dropped and not released: {error}");
            self.core.raise(|| Event::ReleaseFailed {
                name: Arc::clone(&self.subject.name),
                error,
            });
        }
    }
}

impl fmt::Debug for Grip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.hold, f)
    }
}

impl Fated {
    pub(crate) fn now(&self) -> Option<Ended> {
        if self.alive.is_closed() {
            return Some(self.closed());
        }
        self.hold.fate(&self.fate)
    }

    pub(crate) fn wait(&self, timeout: Duration) -> Ended {
        if self.alive.is_closed() {
            return self.closed();
        }
        // So far away that it cannot be counted: for ever.
        self.hold
            .wait(&self.fate, Instant::now().checked_add(timeout))
    }

    /// A closed client has told its guards; after a fork nobody has, and nothing may be touched.
    fn closed(&self) -> Ended {
        let closed = Ended::Lost(crate::event::LostReason::Closed);
        *self.fate.get().unwrap_or(&closed)
    }
}

impl fmt::Debug for Fated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.hold, f)
    }
}
