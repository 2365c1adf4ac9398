//! The read-write lock and its two halves.

mod guard;

use std::time::{Duration, Instant};

pub use self::guard::{OwnedReadGuard, OwnedWriteGuard, ReadGuard, WriteGuard};
use crate::{
    error::Result,
    family::lock_methods,
    handle::{Handle, key_methods},
    inspect::Inspection,
};

/// Redisson's read-write lock: many may read at the same time, or one may write; from
/// [`Client::read_write_lock`](crate::Client::read_write_lock).
///
/// A handle: cheap, without any I/O, `Clone`, `Send` and `Sync`. Handles of one name are one lock.
/// The methods here are those of its two halves, [`read_lock`](Self::read_lock) and
/// [`write_lock`](Self::write_lock), which are locks of the family and have many more.
///
/// # Ownership
///
/// Each half as with the [`ReentrantLock`](crate::ReentrantLock), and both may be taken again by
/// their thread. A thread that writes may also read; it can then give up writing and go on reading,
/// which [`WriteGuard::downgrade`] does in one step. A thread that reads cannot write: it would
/// wait for itself. Where it would do so for ever, it is told
/// ([`WouldDeadlock`](crate::ErrorKind::WouldDeadlock)).
///
/// # Order
///
/// The lock is not fair, as Redisson's is not: who asks while others read may read at once, also
/// when somebody waits to write. A writer gets in when nobody reads for a moment. Under eight threads
/// that read without a pause that was a few times a second (`docs/performance.md`); under a stream that
/// never lets go, it waits for ever. If that can happen, wait for a limited time, or use a
/// [`FairLock`](crate::FairLock).
///
/// # What Redis holds
///
/// A hash at the name of the lock with the field `mode` (`read` or `write`), a field `uuid:number`
/// with its count for each reader, and `uuid:number:write` for the writer. Each time that a reader
/// takes it there is a key `{name}:uuid:number:rwlock_timeout:<count>` that lives as long as that
/// lease: a reader that died keeps nobody out after its own time, however long others read. The last
/// release publishes on `redisson_rwlock:{name}`, `0` from readers and `1` from the writer. That is
/// what Redisson does, so that a Java service shares the lock.
///
/// A reentrant or fair lock of the same name is another lock on the same key: here they keep each
/// other out, but Redisson's read-write lock does not look for it. Do not share names between them.
///
/// # When it can be lost
///
/// As the [`ReentrantLock`](crate::ReentrantLock). A reader lives by the leases of the guards that it
/// still has: when the guard with the longest is released, the others keep the lock for their own
/// times only. A second lease of a writer adds to the first, as in Redisson.
///
/// Redisson's watchdog shortens the time of *all* readers of a lock to its own timeout. Every read
/// hold is therefore asserted once a second, or at each third of our
/// [watchdog's timeout](crate::ClientBuilder::lock_watchdog_timeout) if that is sooner: Java services
/// on the same lock need a `lockWatchdogTimeout` of more than that.
///
/// # Errors
///
/// As those of the [`ReentrantLock`](crate::ReentrantLock), and
/// [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock) when a thread that reads without a lease would
/// wait without a limit to write.
///
/// # Examples
///
/// ```no_run
/// # let client = lockson::Client::connect("redis://127.0.0.1/")?;
/// let prices = client.read_write_lock("prices");
/// {
///     let _reading = prices.read()?; // beside all others who read
/// }
/// let writing = prices.write()?; // alone
/// let reading = writing.downgrade().map_err(|(error, _)| error)?; // others may read now
/// reading.unlock()?;
/// # Ok::<(), lockson::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ReadWriteLock {
    read: ReadLock,
    write: WriteLock,
}

impl ReadWriteLock {
    pub(crate) fn new(read: Handle, write: Handle) -> Self {
        Self {
            read: ReadLock { handle: read },
            write: WriteLock { handle: write },
        }
    }

    /// The half that many may have at the same time, as a lock of its own. No I/O.
    pub fn read_lock(&self) -> ReadLock {
        self.read.clone()
    }

    /// The half that one has alone, as a lock of its own. No I/O.
    pub fn write_lock(&self) -> WriteLock {
        self.write.clone()
    }

    /// The name of the lock, as the program gave it. No I/O.
    pub fn name(&self) -> &str {
        self.read.name()
    }

    /// Who reads and who writes, how often, and for how long; asks Redis. Also for locks that Java
    /// holds.
    ///
    /// # Errors
    ///
    /// When Redis cannot be asked, or refuses; [`WrongType`](crate::ErrorKind::WrongType) when the
    /// key is no lock.
    pub fn inspect(&self) -> Result<Inspection> {
        self.read.inspect()
    }

    /// Waits to read, for the current thread: [`ReadLock::lock`].
    ///
    /// # Errors
    ///
    /// Those of [`ReadLock::lock`].
    pub fn read(&self) -> Result<ReadGuard> {
        self.read.lock()
    }

    /// Waits to write, for the current thread: [`WriteLock::lock`].
    ///
    /// # Errors
    ///
    /// Those of [`WriteLock::lock`], and [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock) when
    /// this thread has a read guard without a lease.
    pub fn write(&self) -> Result<WriteGuard> {
        self.write.lock()
    }

    /// Waits to read, for this time only: [`ReadLock::lock_with_lease`].
    ///
    /// # Errors
    ///
    /// Those of [`ReadLock::lock_with_lease`].
    pub fn read_with_lease(&self, lease: Duration) -> Result<ReadGuard> {
        self.read.lock_with_lease(lease)
    }

    /// Waits to write, for this time only: [`WriteLock::lock_with_lease`].
    ///
    /// # Errors
    ///
    /// Those of [`write`](Self::write), and [`Config`](crate::ErrorKind::Config) for a lease of zero
    /// or of more than ten years.
    pub fn write_with_lease(&self, lease: Duration) -> Result<WriteGuard> {
        self.write.lock_with_lease(lease)
    }

    /// Tries once to read; `None` when somebody else writes: [`ReadLock::try_lock`].
    ///
    /// # Errors
    ///
    /// Those of [`ReadLock::try_lock`].
    pub fn try_read(&self) -> Result<Option<ReadGuard>> {
        self.read.try_lock()
    }

    /// Tries once to write; `None` when somebody reads or writes: [`WriteLock::try_lock`].
    ///
    /// # Errors
    ///
    /// Those of [`WriteLock::try_lock`].
    pub fn try_write(&self) -> Result<Option<WriteGuard>> {
        self.write.try_lock()
    }

    /// Tries once to read, for this time only: [`ReadLock::try_lock_with_lease`].
    ///
    /// # Errors
    ///
    /// Those of [`ReadLock::try_lock_with_lease`].
    pub fn try_read_with_lease(&self, lease: Duration) -> Result<Option<ReadGuard>> {
        self.read.try_lock_with_lease(lease)
    }

    /// Tries once to write, for this time only: [`WriteLock::try_lock_with_lease`].
    ///
    /// # Errors
    ///
    /// Those of [`WriteLock::try_lock_with_lease`].
    pub fn try_write_with_lease(&self, lease: Duration) -> Result<Option<WriteGuard>> {
        self.write.try_lock_with_lease(lease)
    }

    /// Waits so long at most to read: [`ReadLock::try_lock_for`].
    ///
    /// # Errors
    ///
    /// Those of [`ReadLock::try_lock_for`].
    pub fn try_read_for(&self, wait: Duration) -> Result<Option<ReadGuard>> {
        self.read.try_lock_for(wait)
    }

    /// Waits so long at most to write: [`WriteLock::try_lock_for`].
    ///
    /// # Errors
    ///
    /// Those of [`WriteLock::try_lock_for`].
    pub fn try_write_for(&self, wait: Duration) -> Result<Option<WriteGuard>> {
        self.write.try_lock_for(wait)
    }

    /// Waits until then at most to read: [`ReadLock::try_lock_until`].
    ///
    /// # Errors
    ///
    /// Those of [`ReadLock::try_lock_for`].
    pub fn try_read_until(&self, deadline: Instant) -> Result<Option<ReadGuard>> {
        self.read.try_lock_until(deadline)
    }

    /// Waits until then at most to write: [`WriteLock::try_lock_until`].
    ///
    /// # Errors
    ///
    /// Those of [`WriteLock::try_lock_for`].
    pub fn try_write_until(&self, deadline: Instant) -> Result<Option<WriteGuard>> {
        self.write.try_lock_until(deadline)
    }

    /// Waits so long at most to read, for this time only: [`ReadLock::try_lock_for_with_lease`].
    ///
    /// # Errors
    ///
    /// Those of [`ReadLock::try_lock_for_with_lease`].
    pub fn try_read_for_with_lease(
        &self,
        wait: Duration,
        lease: Duration,
    ) -> Result<Option<ReadGuard>> {
        self.read.try_lock_for_with_lease(wait, lease)
    }

    /// Waits so long at most to write, for this time only: [`WriteLock::try_lock_for_with_lease`].
    ///
    /// # Errors
    ///
    /// Those of [`WriteLock::try_lock_for_with_lease`].
    pub fn try_write_for_with_lease(
        &self,
        wait: Duration,
        lease: Duration,
    ) -> Result<Option<WriteGuard>> {
        self.write.try_lock_for_with_lease(wait, lease)
    }
}

/// The half of a [`ReadWriteLock`] that many may have at the same time.
///
/// [`is_locked`](Self::is_locked) says whether anybody reads, and
/// [`force_unlock`](Self::force_unlock) sends away all who read, if nobody writes.
///
/// # Ownership
///
/// A hold belongs to its thread, which may read again, or to an owned guard.
///
/// # What Redis holds
///
/// A field and a slot in the lock of both halves: see the [`ReadWriteLock`].
///
/// # When it can be lost
///
/// As the [`ReadWriteLock`]; each guard by its own lease.
///
/// # Errors
///
/// Those of the [`ReentrantLock`](crate::ReentrantLock).
///
/// # Examples
///
/// ```no_run
/// # let client = lockson::Client::connect("redis://127.0.0.1/")?;
/// let lock = client.read_write_lock("prices").read_lock();
/// let guard = lock.lock()?;
/// assert!(lock.is_locked()?);
/// guard.unlock()?;
/// # Ok::<(), lockson::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ReadLock {
    handle: Handle,
}

/// The half of a [`ReadWriteLock`] that one has alone.
///
/// [`is_locked`](Self::is_locked) says whether anybody writes, and
/// [`force_unlock`](Self::force_unlock) sends away who writes, if anybody does.
///
/// # Ownership
///
/// A hold belongs to its thread, which may write again, and read, or to an owned guard.
///
/// # What Redis holds
///
/// A field in the lock of both halves: see the [`ReadWriteLock`].
///
/// # When it can be lost
///
/// As the [`ReadWriteLock`].
///
/// # Errors
///
/// Those of the [`ReentrantLock`](crate::ReentrantLock). All that wait without a limit answer [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock) when
/// their thread has a read guard without a lease.
///
/// # Examples
///
/// ```no_run
/// # let client = lockson::Client::connect("redis://127.0.0.1/")?;
/// let lock = client.read_write_lock("prices").write_lock();
/// let guard = lock.lock()?;
/// assert!(lock.is_locked()?);
/// guard.unlock()?;
/// # Ok::<(), lockson::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct WriteLock {
    handle: Handle,
}

lock_methods!(ReadLock, ReadGuard, OwnedReadGuard);
lock_methods!(WriteLock, WriteGuard, OwnedWriteGuard);
key_methods!(ReadLock);
key_methods!(WriteLock);

impl ReadLock {
    pub(crate) fn into_handle(self) -> Handle {
        self.handle
    }
}

impl WriteLock {
    pub(crate) fn into_handle(self) -> Handle {
        self.handle
    }
}
