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

    /// Takes back whatever an acquisition of this holder did: the hold, and its place in a queue.
    fn withdraw(&self, subject: &Subject, holder: &Arc<str>, patience: Duration) -> Ask<Released>;

    /// How the waiting threads of one client stand towards each other.
    fn standing(&self) -> Standing;

    /// Gives the lock from one holder to one of the heirs, with its count and lease, in one request
    /// and without a message; where that cannot be, releases in the usual way.
    fn hand_over(
        &self,
        subject: &Subject,
        holder: &Arc<str>,
        heirs: &[Claim<'_>],
    ) -> Ask<HandedOver>;

    /// Where this waiter hears of a release.
    fn channel(&self, subject: &Subject, waiter: &Arc<str>) -> Arc<str>;

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

/// How the waiting threads of one client stand towards each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Standing {
    /// In a line of their own, of which only the first asks Redis, for all.
    OneForAll,
    /// Each for itself, in a queue that Redis keeps: their order is decided there.
    Queued,
}

/// What one acquisition asks for.
#[derive(Debug)]
pub(crate) struct Claim<'a> {
    pub(crate) holder: &'a Arc<str>,
    /// The count to reach: 1 for a new hold, more for a re-entry.
    pub(crate) count: u32,
    pub(crate) lease: Duration,
    /// How it would wait; none for a single try. Only a kind with a queue in Redis looks at it.
    pub(crate) queueing: Option<Queueing>,
}

/// How a waiter stands in a queue that Redis keeps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Queueing {
    /// How long it may be silent before others pass it.
    pub(crate) patience: Duration,
    /// The longest patience of anybody before it, ours or not.
    pub(crate) longest: Duration,
    /// Whether Redis has confirmed its place before: then it is never put at the end again.
    pub(crate) queued: bool,
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
    /// To which of the heirs.
    To(usize),
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
    /// Who waits in Redis' own queue, in order, with the milliseconds until others may pass it;
    /// none for an entry that has no such time.
    pub(crate) queue: Vec<(String, Option<i64>)>,
}
