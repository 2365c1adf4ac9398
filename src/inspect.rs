//! What can be seen of a lock from outside.

use std::time::Duration;

use crate::protocol::Holdings;

/// How long a lock lives on in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ttl {
    /// There is no such key: the lock is free.
    Free,
    /// The key has no expiry: nothing that this crate or Redisson makes.
    NoExpiry,
    /// The key ends after this time unless somebody renews it.
    Left(Duration),
}

/// A lock as it stands in Redis, whoever holds it; from
/// [`ReentrantLock::inspect`](crate::ReentrantLock::inspect).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// How long it lives on.
    pub ttl: Ttl,
    /// `read` or `write` for a read-write lock, as Redis has it.
    pub mode: Option<String>,
    /// Who holds it; empty when it is free.
    pub holders: Vec<Holder>,
    /// Who waits for a fair lock, in order, from whatever client.
    pub queue: Vec<Waiter>,
    /// How many threads of this client wait for it.
    pub waiters: usize,
}

/// One that waits for a fair lock, in the queue of an [`Inspection`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// Client and number, as they stand in Redis: `uuid:number`.
    pub holder: String,
    /// For how long its place is kept for it from now on if nothing more is heard of it.
    ///
    /// Then it is taken for dead, and those behind it may pass. A waiter of this crate that lives
    /// starts this time anew at least every three seconds; one of Redisson sets it once, when it
    /// comes. It does not say when the waiter will get the lock. Zero means that it may be passed
    /// already; `None`, that Redis has no time for it, which no client writes.
    pub left: Option<Duration>,
}

/// One holder in an [`Inspection`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// Client and number, as they stand in Redis: `uuid:number`. In Java, the number is the id of
    /// the thread.
    pub holder: String,
    /// How often it holds the lock.
    pub count: u64,
    /// Whether it is the writer of a read-write lock. A writer that also reads is there twice.
    pub writes: bool,
    /// For how long a reader holds the lock, whatever others do; zero when its time is over and only
    /// its name is left. None for all others: they hold it as long as the lock lives.
    pub left: Option<Duration>,
}

impl Ttl {
    pub(crate) fn from_millis(millis: i64) -> Self {
        match u64::try_from(millis) {
            Ok(left) => Self::Left(Duration::from_millis(left)),
            Err(_) if millis == -1 => Self::NoExpiry,
            Err(_) => Self::Free,
        }
    }
}

/// Zero for what is over, or was never there.
fn millis(left: i64) -> Duration {
    Duration::from_millis(u64::try_from(left).unwrap_or(0))
}

impl Inspection {
    pub(crate) fn new(holdings: Holdings, waiters: usize) -> Self {
        Self {
            ttl: Ttl::from_millis(holdings.ttl),
            mode: holdings.mode,
            holders: holdings
                .holders
                .into_iter()
                .map(|held| Holder {
                    holder: held.holder,
                    count: held.count,
                    writes: held.writes,
                    left: held.ttl.map(millis),
                })
                .collect(),
            queue: holdings
                .queue
                .into_iter()
                .map(|(holder, left)| Waiter {
                    holder,
                    left: left.map(millis),
                })
                .collect(),
            waiters,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_pttl_says() {
        assert_eq!(Ttl::from_millis(-2), Ttl::Free);
        assert_eq!(Ttl::from_millis(-1), Ttl::NoExpiry);
        assert_eq!(Ttl::from_millis(0), Ttl::Left(Duration::ZERO));
        assert_eq!(
            Ttl::from_millis(1500),
            Ttl::Left(Duration::from_millis(1500))
        );
    }
}
