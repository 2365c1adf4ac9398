//! What a caller asks for when it acquires.

use std::time::{Duration, Instant};

use super::{LONGEST_LEASE, hold::Keep};
use crate::{
    cancel::CancelToken,
    error::{Error, Result},
};

/// The terms of one acquisition.
///
/// Public because the sealed half of the public trait hands it on; nobody outside can name it.
#[allow(unnameable_types, unreachable_pub)]
#[derive(Clone, Debug)]
pub struct Terms {
    pub(crate) wait: Wait,
    /// None: the watchdog keeps it.
    pub(crate) lease: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    /// Whether the hold belongs to its guard rather than to the thread.
    pub(crate) owned: bool,
    /// Whether it goes before the others of this client: it has waited for one of several already.
    pub(crate) ahead: bool,
    pub(crate) cancel: Option<CancelToken>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Wait {
    /// One try.
    Not,
    ForEver,
    Until(Instant),
}

impl Terms {
    /// How the hold wants to be kept.
    pub(super) fn keep(&self) -> Keep {
        match self.lease {
            Some(_) => Keep::Leased,
            None => Keep::Renewed(self.max_hold),
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        if let Some(lease) = self.lease {
            check_lease(lease)?;
            if self.max_hold.is_some() {
                return Err(Error::config(
                    "max_hold is for holds that are renewed: a lease ends by itself",
                ));
            }
        }
        if self.max_hold.is_some_and(|most| most.is_zero()) {
            return Err(Error::config("max_hold must be longer than zero"));
        }
        Ok(())
    }
}

pub(super) fn check_lease(lease: Duration) -> Result<()> {
    if lease.is_zero() {
        return Err(Error::config("a lease must be longer than zero"));
    }
    if lease > LONGEST_LEASE {
        return Err(Error::config("a lease must not be longer than ten years"));
    }
    Ok(())
}
