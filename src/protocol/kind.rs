//! What the engine has to know of a kind of lock: the description that each kind gives of itself.

use std::{fmt, sync::Arc, time::Duration};

use super::request::Ask;

/// A kind of lock, as the requests it makes.
///
/// Every request may run twice with one effect: counts are absolute, and every TTL is raised only.
pub(crate) trait Kind: fmt::Debug + Send + Sync {
    /// Tells the kinds apart.
    fn name(&self) -> &'static str;

    /// The names that this kind derives from the key, in its own order.
    fn companions(&self, key: &str) -> Box<[Arc<str>]>;

    fn acquire(&self, subject: &Subject, claim: &Claim<'_>) -> Ask<Acquired>;

    /// Brings the count of `holder` down to `left`; 0 is the full release, with its message.
    fn release(&self, subject: &Subject, holder: &Arc<str>, left: u32) -> Ask<Released>;

    /// Gives the lock from one holder to the next with count 1 and this lease, in one request and
    /// without a message. `None` where a kind cannot.
    fn hand_over(
        &self,
        subject: &Subject,
        holder: &Arc<str>,
        heir: &Claim<'_>,
    ) -> Option<Ask<HandedOver>>;

    /// Where a waiter hears of a release.
    fn channel(&self, subject: &Subject) -> Arc<str>;

    /// Raises the TTL of many holds, each checked for its owner, in one request.
    fn renew(&self, holds: &[Renewal<'_>]) -> Ask<Vec<Renewed>>;

    fn force_unlock(&self, subject: &Subject) -> Ask<Released>;

    fn is_locked(&self, subject: &Subject) -> Ask<bool>;

    fn is_held(&self, subject: &Subject, holder: &Arc<str>) -> Ask<bool>;

    fn hold_count(&self, subject: &Subject, holder: &Arc<str>) -> Ask<u64>;

    /// In milliseconds, as `PTTL` counts: -2 for no key, -1 for no expiry.
    fn ttl(&self, subject: &Subject) -> Ask<i64>;

    fn inspect(&self, subject: &Subject) -> Ask<Holdings>;
}

/// One lock: its kind and the names it goes by.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) kind: &'static dyn Kind,
    /// What the user calls it.
    pub(crate) name: Arc<str>,
    /// What Redis calls it.
    pub(crate) key: Arc<str>,
    pub(crate) companions: Box<[Arc<str>]>,
}

impl Subject {
    pub(crate) fn new(kind: &'static dyn Kind, name: Arc<str>, key: Arc<str>) -> Self {
        Self {
            kind,
            companions: kind.companions(&key),
            name,
            key,
        }
    }
}

/// What one acquisition asks for.
#[derive(Debug)]
pub(crate) struct Claim<'a> {
    pub(crate) holder: &'a Arc<str>,
    /// The count to reach: 1 for a new hold, more for a re-entry.
    pub(crate) count: u32,
    pub(crate) lease: Duration,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Acquired {
    Held,
    /// Somebody else has it; what is left of its TTL in milliseconds, as `PTTL` counts.
    Refused(i64),
    /// The hold to re-enter is gone.
    Lost,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Released {
    /// Done; how many heard the message.
    Done(u64),
    /// Nothing of this hold is there.
    Gone,
    /// Released, but the message for the waiters was refused.
    Unannounced,
}

#[derive(Debug, PartialEq)]
pub(crate) enum HandedOver {
    Done,
    /// Released in the usual way, or not there, instead.
    Instead(Released),
}

#[derive(Debug)]
pub(crate) struct Renewal<'a> {
    pub(crate) subject: &'a Subject,
    pub(crate) holder: &'a Arc<str>,
    pub(crate) lease: Duration,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Renewed {
    Done,
    Gone,
    Failed(String),
}

/// What stands at the key of a lock, whoever wrote it.
#[derive(Debug, PartialEq)]
pub(crate) struct Holdings {
    /// As `PTTL` counts.
    pub(crate) ttl: i64,
    pub(crate) mode: Option<String>,
    pub(crate) holders: Vec<(String, u64)>,
}
