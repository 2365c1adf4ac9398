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

    /// Brings the count of `holder` down; 0 is the full release, with its message.
    fn release(&self, subject: &Subject, holder: &Arc<str>, left: Left) -> Ask<Released>;

    /// Takes back whatever an acquisition of this holder did: the hold, and its place in a queue.
    fn withdraw(&self, subject: &Subject, holder: &Arc<str>, patience: Duration) -> Ask<Released>;

    /// How the waiting threads of one client stand towards each other.
    fn standing(&self) -> Standing;

    /// What of the lock at a key a hold of this kind is.
    fn part(&self) -> Part {
        Part::Whole
    }

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
    /// Each for itself, and none keeps another out.
    Together,
}

/// What of the lock at a key a hold is: a thread re-enters only its own hold of the same part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Part {
    Read,
    Whole,
    Write,
}

impl Part {
    /// The part that lets its own thread have this one too.
    pub(crate) fn allowed_by(self) -> Option<Self> {
        (self == Self::Read).then_some(Self::Write)
    }

    /// The part that keeps its own thread from ever having this one.
    pub(crate) fn denied_by(self) -> Option<Self> {
        (self == Self::Write).then_some(Self::Read)
    }

    /// Whether a hold lives by the leases of the acquisitions that are left of it, and others may
    /// lower its TTL: then a release lowers it too, and a lease has to be asserted.
    pub(crate) fn lives_by_leases(self) -> bool {
        self == Self::Read
    }
}

/// What a release leaves of a hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Left {
    pub(crate) count: u32,
    /// How long that lives at most. Only a kind whose holds live by their leases looks at it.
    pub(crate) lives: Duration,
}

impl Left {
    pub(crate) const NOTHING: Self = Self {
        count: 0,
        lives: Duration::ZERO,
    };
}

/// What one acquisition asks for.
#[derive(Debug)]
pub(crate) struct Claim<'a> {
    pub(crate) holder: &'a Arc<str>,
    /// The count to reach: 1 for a new hold, more for a re-entry.
    pub(crate) count: u32,
    pub(crate) lease: Duration,
    /// The holder of the same thread's hold of the part that lets this one in.
    pub(crate) under: Option<&'a Arc<str>>,
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
    /// With what it lives from now, where that is not the lease that was asked for.
    Held(Option<Duration>),
    /// Somebody else has it; what is left of its TTL in milliseconds, as `PTTL` counts.
    Refused(i64),
    /// The hold to re-enter is gone.
    Lost,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Released {
    /// Done; how many heard the message.
    Done(u64),
    /// Done, and next is a waiter of the client that released, by this name; `told` as above.
    Next { told: u64, first: Arc<str> },
    /// Nothing of this hold is there.
    Gone,
    /// Done, and somebody still holds the lock: nothing has changed for those who wait.
    Shared,
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
    /// Whether for each acquisition of the hold; else for the hold as a whole, so that who is left when one
    /// is released has no more time by it. Only a kind whose holds live by their leases looks at it.
    pub(crate) each: bool,
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
    pub(crate) holders: Vec<Held>,
    /// Who waits in Redis' own queue, in order, with the milliseconds until others may pass it;
    /// none for an entry that has no such time.
    pub(crate) queue: Vec<(String, Option<i64>)>,
}

/// One field of a lock's hash.
#[derive(Debug, PartialEq)]
pub(crate) struct Held {
    pub(crate) holder: String,
    pub(crate) count: u64,
    /// Whether it writes, where others may read.
    pub(crate) writes: bool,
    /// As `PTTL` counts; for those who have a time of their own.
    pub(crate) ttl: Option<i64>,
}
