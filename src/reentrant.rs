//! The reentrant lock.

use crate::{
    error::Result,
    family::lock_methods,
    guard::{LockGuard, OwnedLockGuard},
    handle::Handle,
    inspect::{Inspection, Ttl},
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

impl ReentrantLock {
    pub(crate) fn new(handle: Handle) -> Self {
        Self { handle }
    }

    pub(crate) fn into_handle(self) -> Handle {
        self.handle
    }

    /// The name of the lock, as the program gave it. No I/O.
    pub fn name(&self) -> &str {
        self.handle.name()
    }

    /// Whether anybody holds the lock; asks Redis.
    ///
    /// # Errors
    ///
    /// When Redis cannot be asked, or refuses. A key of another type counts as locked.
    pub fn is_locked(&self) -> Result<bool> {
        self.handle.is_locked()
    }

    /// How often the current thread holds the lock; asks Redis.
    ///
    /// # Errors
    ///
    /// When Redis cannot be asked, or refuses.
    pub fn hold_count(&self) -> Result<u64> {
        self.handle.hold_count()
    }

    /// How long the lock lives on in Redis unless somebody renews or releases it; asks Redis.
    ///
    /// # Errors
    ///
    /// When Redis cannot be asked, or refuses.
    pub fn remaining_ttl(&self) -> Result<Ttl> {
        self.handle.remaining_ttl()
    }

    /// Frees the lock whoever holds it, and wakes a waiter; false if it was free.
    ///
    /// Guards of this client are lost at once, others find out by themselves. For people who
    /// mend things: the holder may be at work. It is sent once: when its reply is lost, the error
    /// leaves open whether it happened.
    ///
    /// # Errors
    ///
    /// When Redis cannot be asked, or refuses;
    /// [`NoPermission`](crate::ErrorKind::NoPermission) with
    /// [`released()`](crate::Error::released) when the lock was freed but the message for the
    /// waiters was refused.
    pub fn force_unlock(&self) -> Result<bool> {
        self.handle.force_unlock()
    }

    /// Who holds the lock, how often, and for how long; asks Redis. Also for locks that Java
    /// holds.
    ///
    /// # Errors
    ///
    /// When Redis cannot be asked, or refuses; [`WrongType`](crate::ErrorKind::WrongType) when
    /// the key is no lock.
    pub fn inspect(&self) -> Result<Inspection> {
        self.handle.inspect()
    }
}
