//! The fair lock.

use crate::{
    family::lock_methods,
    guard::{LockGuard, OwnedLockGuard},
    handle::{Handle, key_methods},
};

/// Redisson's fair lock: who asked first gets it first, across threads, processes and languages;
/// from [`Client::fair_lock`](crate::Client::fair_lock).
///
/// A handle: cheap, without any I/O, `Clone`, `Send` and `Sync`. Handles of one name are one lock.
///
/// # Order
///
/// Who waits takes a place in a queue that Redis keeps, and gets the lock when its turn has come. A
/// single try ([`try_lock`](Self::try_lock)) takes no place, and is refused while anybody waits.
/// Whoever stops waiting (timeout, cancel, error, shutdown) leaves the queue at once.
///
/// A waiter that died keeps those behind it out until it has been silent for its time: the
/// [`fair_lock_wait_timeout`](crate::ClientBuilder::fair_lock_wait_timeout), or what a timed call
/// would have waited, and five minutes more for each waiter that was before it when it last showed
/// itself (in Redisson, each of them takes so much from it by entering). A live waiter shows itself
/// every three seconds and is not passed, however long the holder holds. The times are those of the
/// server; nobody's clock is trusted.
///
/// # Ownership
///
/// As with the [`ReentrantLock`](crate::ReentrantLock). It is the same lock: fair and reentrant
/// handles of one name exclude each other, and are one hold in one thread. Who waits by a reentrant
/// handle stands in no queue. When the holder releases by a reentrant handle, the queue is not told,
/// as in Redisson: the first in it looks within three seconds.
///
/// # What Redis holds
///
/// The hash of the reentrant lock; a list `redisson_lock_queue:{name}` of those who wait, and a
/// sorted set `redisson_lock_timeout:{name}` of the times (in ms) from which others may pass them.
/// Both are gone when nobody waits. A release publishes `0` to the first in the queue, on
/// `redisson_lock__channel:{name}:<holder>`, and on `redisson_lock__channel:{name}` for those who
/// wait by a reentrant handle. Java services share all of it.
///
/// # When it can be lost
///
/// As the [`ReentrantLock`](crate::ReentrantLock).
///
/// # Errors
///
/// As those of the [`ReentrantLock`](crate::ReentrantLock).
///
/// # Examples
///
/// ```no_run
/// # let client = lockson::Client::connect("redis://127.0.0.1/")?;
/// let lock = client.fair_lock("tickets");
/// let guard = lock.lock()?; // after all who came before
/// for waiter in lock.inspect()?.queue {
///     println!("then {}", waiter.holder);
/// }
/// guard.unlock()?; // the first of them has it now
/// # Ok::<(), lockson::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct FairLock {
    handle: Handle,
}

lock_methods!(FairLock, LockGuard, OwnedLockGuard);
key_methods!(FairLock);

impl FairLock {
    pub(crate) fn new(handle: Handle) -> Self {
        Self { handle }
    }

    pub(crate) fn into_handle(self) -> Handle {
        self.handle
    }
}
