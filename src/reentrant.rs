//! The reentrant lock.

use crate::{
    family::lock_methods,
    guard::{LockGuard, OwnedLockGuard},
    handle::{Handle, key_methods},
};

/// Redisson's `RLock`: one holder at a time, which may take it again; from
/// [`Client::reentrant_lock`](crate::Client::reentrant_lock).
///
/// A handle: cheap, without any I/O, `Clone`, `Send` and `Sync`. Handles of one name are one lock.
///
/// # Ownership
///
/// A hold belongs to the thread that acquired it, and that thread may acquire the lock again; or
/// it belongs to an owned guard, and nobody may. Threads of one client exclude each other like
/// clients do.
///
/// # What Redis holds
///
/// A hash at the name of the lock, with one field `uuid:number` (the client and this hold) whose
/// value is the count, and a TTL. The full release deletes it and publishes `0` on
/// `redisson_lock__channel:{name}`. That is what Redisson does, so that a Java service shares
/// the lock.
///
/// # When it can be lost
///
/// When the lease ends, when the process cannot reach Redis until its time is over, when somebody
/// unlocks it by force or deletes the key, when Redis loses its data. The guard tells.
///
/// One case it cannot tell in time: on a machine that was suspended, the clock that it counts by
/// may have stood still. After such a pause ask [`verify`](LockGuard::verify) before trusting it.
///
/// # Errors
///
/// A lock that others have is `Ok(None)`, and no error. The calls that ask Redis fail when it cannot
/// be reached or does not answer in time ([`Connection`](crate::ErrorKind::Connection),
/// [`Timeout`](crate::ErrorKind::Timeout)), or refuses
/// ([`NoPermission`](crate::ErrorKind::NoPermission), [`OutOfMemory`](crate::ErrorKind::OutOfMemory),
/// [`WrongType`](crate::ErrorKind::WrongType) when the key is no lock); with
/// [`Config`](crate::ErrorKind::Config) for an empty name and a lease of zero; with
/// [`Cancelled`](crate::ErrorKind::Cancelled) when a token ended the wait; and with
/// [`Closed`](crate::ErrorKind::Closed) after a shutdown. What was taken by a call that failed is
/// released.
///
/// # Examples
///
/// ```no_run
/// use lockson::{Client, Ttl};
///
/// let client = Client::connect("redis://127.0.0.1/")?;
/// let lock = client.reentrant_lock("orders:42");
/// let Some(guard) = lock.try_lock()? else {
///     println!("held by {:?}", lock.inspect()?.holders);
///     return Ok(());
/// };
/// let again = lock.try_lock()?;
/// assert_eq!(lock.hold_count()?, 2);
/// drop(again);
/// guard.unlock()?;
/// assert_eq!(lock.remaining_ttl()?, Ttl::Free);
/// # Ok::<(), lockson::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ReentrantLock {
    handle: Handle,
}

lock_methods!(ReentrantLock, LockGuard, OwnedLockGuard);
key_methods!(ReentrantLock);

impl ReentrantLock {
    pub(crate) fn new(handle: Handle) -> Self {
        Self { handle }
    }

    pub(crate) fn into_handle(self) -> Handle {
        self.handle
    }
}
