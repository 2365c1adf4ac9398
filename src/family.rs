//! What the locks of the family have in common: the traits, and the methods that all have.

use std::time::{Duration, Instant};

use crate::{error::Result, guard::LostSignal, options::Options};

/// A lock of the family, for code that is generic over its kind.
///
/// Every lock has these methods by itself; the trait is for code that takes any of them. It cannot
/// be implemented outside this crate. [`AnyLock`](crate::AnyLock) does the same without generics.
///
/// # Examples
///
/// ```no_run
/// use lockson::{Client, Guard, Lock, Result};
///
/// fn once<L: Lock>(lock: &L, work: impl FnOnce()) -> Result<bool> {
///     let Some(guard) = lock.try_lock()? else {
///         return Ok(false);
///     };
///     work();
///     guard.unlock()?;
///     Ok(true)
/// }
///
/// let client = Client::connect("redis://127.0.0.1/")?;
/// once(&client.reentrant_lock("nightly"), || println!("only here"))?;
/// # Ok::<(), lockson::Error>(())
/// ```
pub trait Lock: sealed::Acquire<Bound = Self::Guard, Owned = Self::OwnedGuard> + Sized {
    /// The guard of a hold that belongs to its thread.
    type Guard: Guard;

    /// The guard of a hold that belongs to the guard itself.
    type OwnedGuard: Guard + Send + 'static;

    /// The full matrix of ways to acquire. No I/O.
    fn options(&self) -> Options<'_, Self> {
        Options::new(self)
    }

    /// Waits for the lock, for the current thread.
    ///
    /// The watchdog keeps the hold until its guard goes. A thread that has the lock already gets it
    /// once more. It waits as long as it takes; when the server fails without a break for the
    /// [retry timeout](crate::ClientBuilder::retry_timeout), it gives up.
    ///
    /// # Errors
    ///
    /// When Redis cannot be asked for so long, or refuses; [`Closed`](crate::ErrorKind::Closed)
    /// after a shutdown.
    fn lock(&self) -> Result<Self::Guard> {
        self.options().acquire_for_sure()
    }

    /// Waits for the lock, for the current thread and for this time only.
    ///
    /// The lease begins when the lock is got.
    ///
    /// # Errors
    ///
    /// Those of [`lock`](Self::lock), and [`Config`](crate::ErrorKind::Config) for a lease of zero
    /// or of more than ten years.
    fn lock_with_lease(&self, lease: Duration) -> Result<Self::Guard> {
        self.options().lease(lease).acquire_for_sure()
    }

    /// Waits for the lock so long at most, for the current thread; `None` when others had it all
    /// the time.
    ///
    /// Zero means one try, [`Duration::MAX`](std::time::Duration::MAX) for ever.
    ///
    /// # Errors
    ///
    /// When the last attempt failed: that is no `None`.
    fn try_lock_for(&self, wait: Duration) -> Result<Option<Self::Guard>> {
        self.options().wait(wait).acquire()
    }

    /// Waits for the lock until then at most, for the current thread; `None` when others had it all
    /// the time.
    ///
    /// # Errors
    ///
    /// Those of [`try_lock_for`](Self::try_lock_for).
    fn try_lock_until(&self, deadline: Instant) -> Result<Option<Self::Guard>> {
        self.options().wait_until(deadline).acquire()
    }

    /// Waits for the lock so long at most, for the current thread and for this time only; `None`
    /// when others had it all the time.
    ///
    /// # Errors
    ///
    /// Those of [`try_lock_for`](Self::try_lock_for), and [`Config`](crate::ErrorKind::Config) for
    /// a lease of zero or of more than ten years.
    fn try_lock_for_with_lease(
        &self,
        wait: Duration,
        lease: Duration,
    ) -> Result<Option<Self::Guard>> {
        self.options().wait(wait).lease(lease).acquire()
    }

    /// Waits for the lock, for a guard that may leave this thread.
    ///
    /// A thread that has the lock already waits for itself.
    ///
    /// # Errors
    ///
    /// Those of [`lock`](Self::lock).
    fn lock_owned(&self) -> Result<Self::OwnedGuard> {
        self.options().acquire_owned_for_sure()
    }

    /// Waits for the lock, for a guard that may leave this thread and for this time only.
    ///
    /// # Errors
    ///
    /// Those of [`lock_with_lease`](Self::lock_with_lease).
    fn lock_owned_with_lease(&self, lease: Duration) -> Result<Self::OwnedGuard> {
        self.options().lease(lease).acquire_owned_for_sure()
    }

    /// Waits for the lock so long at most, for a guard that may leave this thread; `None` when
    /// somebody had it all the time.
    ///
    /// # Errors
    ///
    /// Those of [`try_lock_for`](Self::try_lock_for).
    fn try_lock_owned_for(&self, wait: Duration) -> Result<Option<Self::OwnedGuard>> {
        self.options().wait(wait).acquire_owned()
    }

    /// Waits for the lock so long at most, for a guard that may leave this thread and for this time
    /// only; `None` when somebody had it all the time.
    ///
    /// # Errors
    ///
    /// Those of [`try_lock_for_with_lease`](Self::try_lock_for_with_lease).
    fn try_lock_owned_for_with_lease(
        &self,
        wait: Duration,
        lease: Duration,
    ) -> Result<Option<Self::OwnedGuard>> {
        self.options().wait(wait).lease(lease).acquire_owned()
    }

    /// Tries once, for the current thread; `None` when somebody else has the lock.
    ///
    /// The watchdog keeps the hold until its guard goes.
    ///
    /// # Errors
    ///
    /// When Redis cannot be asked, or refuses: a lock that is not to be had is `Ok(None)`.
    fn try_lock(&self) -> Result<Option<Self::Guard>> {
        self.options().wait(Duration::ZERO).acquire()
    }

    /// Tries once, for the current thread and for this time only; `None` when somebody else has
    /// the lock.
    ///
    /// # Errors
    ///
    /// Those of [`try_lock`](Self::try_lock), and [`Config`](crate::ErrorKind::Config) for a lease
    /// of zero or of more than ten years.
    fn try_lock_with_lease(&self, lease: Duration) -> Result<Option<Self::Guard>> {
        self.options().wait(Duration::ZERO).lease(lease).acquire()
    }

    /// Tries once, for a guard that may leave this thread; `None` when somebody has the lock, this
    /// thread included.
    ///
    /// # Errors
    ///
    /// Those of [`try_lock`](Self::try_lock).
    fn try_lock_owned(&self) -> Result<Option<Self::OwnedGuard>> {
        self.options().wait(Duration::ZERO).acquire_owned()
    }

    /// Tries once, for a guard that may leave this thread and for this time only; `None` when
    /// somebody has the lock, this thread included.
    ///
    /// # Errors
    ///
    /// Those of [`try_lock_with_lease`](Self::try_lock_with_lease).
    fn try_lock_owned_with_lease(&self, lease: Duration) -> Result<Option<Self::OwnedGuard>> {
        self.options()
            .wait(Duration::ZERO)
            .lease(lease)
            .acquire_owned()
    }

    /// Whether the current thread holds the lock; asks Redis.
    ///
    /// A hold that belongs to an owned guard is no thread's.
    ///
    /// # Errors
    ///
    /// When Redis cannot be asked, or refuses.
    fn is_held_by_current_thread(&self) -> Result<bool>;
}

/// A guard of any lock, for code that is generic over its kind.
///
/// Every guard has these methods by itself. It cannot be implemented outside this crate.
pub trait Guard: sealed::Sealed + Sized {
    /// See [`LockGuard::unlock`](crate::LockGuard::unlock).
    ///
    /// # Errors
    ///
    /// Those of [`LockGuard::unlock`](crate::LockGuard::unlock).
    fn unlock(self) -> Result<()>;

    /// See [`LockGuard::is_held`](crate::LockGuard::is_held).
    fn is_held(&self) -> bool;

    /// See [`LockGuard::remaining`](crate::LockGuard::remaining).
    fn remaining(&self) -> Duration;

    /// See [`LockGuard::holder`](crate::LockGuard::holder).
    fn holder(&self) -> &str;

    /// See [`LockGuard::name`](crate::LockGuard::name).
    fn name(&self) -> &str;

    /// See [`LockGuard::verify`](crate::LockGuard::verify).
    ///
    /// # Errors
    ///
    /// Those of [`LockGuard::verify`](crate::LockGuard::verify).
    fn verify(&self) -> Result<()>;

    /// See [`LockGuard::extend`](crate::LockGuard::extend).
    ///
    /// # Errors
    ///
    /// Those of [`LockGuard::extend`](crate::LockGuard::extend).
    fn extend(&self, lease: Duration) -> Result<()>;

    /// See [`LockGuard::lost`](crate::LockGuard::lost).
    fn lost(&self) -> LostSignal;
}

/// The acquiring half of a lock as methods of its own, so that nobody has to import the trait.
macro_rules! lock_methods {
    ($lock:ident, $guard:ident, $owned:ident) => {
        impl $lock {
            /// The full matrix of ways to acquire. No I/O.
            pub fn options(&self) -> $crate::Options<'_, Self> {
                $crate::Lock::options(self)
            }

            /// Waits for the lock, for the current thread.
            ///
            /// The watchdog keeps the hold until its guard goes. A thread that has the lock already
            /// gets it once more. It waits as long as it takes; when the server fails without a
            /// break for the [retry timeout](crate::ClientBuilder::retry_timeout), it gives up.
            ///
            /// # Errors
            ///
            /// When Redis cannot be asked for so long, or refuses;
            /// [`Closed`](crate::ErrorKind::Closed) after a shutdown.
            pub fn lock(&self) -> $crate::Result<$guard> {
                $crate::Lock::lock(self)
            }

            /// Waits for the lock, for the current thread and for this time only.
            ///
            /// The lease begins when the lock is got.
            ///
            /// # Errors
            ///
            /// Those of [`lock`](Self::lock), and [`Config`](crate::ErrorKind::Config) for a lease
            /// of zero or of more than ten years.
            pub fn lock_with_lease(&self, lease: ::std::time::Duration) -> $crate::Result<$guard> {
                $crate::Lock::lock_with_lease(self, lease)
            }

            /// Waits for the lock so long at most, for the current thread; `None` when others had
            /// it all the time.
            ///
            /// Zero means one try, [`Duration::MAX`](std::time::Duration::MAX) for ever.
            ///
            /// # Errors
            ///
            /// When the last attempt failed: that is no `None`.
            pub fn try_lock_for(
                &self,
                wait: ::std::time::Duration,
            ) -> $crate::Result<Option<$guard>> {
                $crate::Lock::try_lock_for(self, wait)
            }

            /// Waits for the lock until then at most, for the current thread; `None` when others
            /// had it all the time.
            ///
            /// # Errors
            ///
            /// Those of [`try_lock_for`](Self::try_lock_for).
            pub fn try_lock_until(
                &self,
                deadline: ::std::time::Instant,
            ) -> $crate::Result<Option<$guard>> {
                $crate::Lock::try_lock_until(self, deadline)
            }

            /// Waits for the lock so long at most, for the current thread and for this time only;
            /// `None` when others had it all the time.
            ///
            /// # Errors
            ///
            /// Those of [`try_lock_for`](Self::try_lock_for), and
            /// [`Config`](crate::ErrorKind::Config) for a lease of zero or of more than ten years.
            pub fn try_lock_for_with_lease(
                &self,
                wait: ::std::time::Duration,
                lease: ::std::time::Duration,
            ) -> $crate::Result<Option<$guard>> {
                $crate::Lock::try_lock_for_with_lease(self, wait, lease)
            }

            /// Waits for the lock, for a guard that may leave this thread.
            ///
            /// A thread that has the lock already waits for itself.
            ///
            /// # Errors
            ///
            /// Those of [`lock`](Self::lock).
            pub fn lock_owned(&self) -> $crate::Result<$owned> {
                $crate::Lock::lock_owned(self)
            }

            /// Waits for the lock, for a guard that may leave this thread and for this time only.
            ///
            /// # Errors
            ///
            /// Those of [`lock_with_lease`](Self::lock_with_lease).
            pub fn lock_owned_with_lease(
                &self,
                lease: ::std::time::Duration,
            ) -> $crate::Result<$owned> {
                $crate::Lock::lock_owned_with_lease(self, lease)
            }

            /// Waits for the lock so long at most, for a guard that may leave this thread; `None`
            /// when somebody had it all the time.
            ///
            /// # Errors
            ///
            /// Those of [`try_lock_for`](Self::try_lock_for).
            pub fn try_lock_owned_for(
                &self,
                wait: ::std::time::Duration,
            ) -> $crate::Result<Option<$owned>> {
                $crate::Lock::try_lock_owned_for(self, wait)
            }

            /// Waits for the lock so long at most, for a guard that may leave this thread and for
            /// this time only; `None` when somebody had it all the time.
            ///
            /// # Errors
            ///
            /// Those of [`try_lock_for_with_lease`](Self::try_lock_for_with_lease).
            pub fn try_lock_owned_for_with_lease(
                &self,
                wait: ::std::time::Duration,
                lease: ::std::time::Duration,
            ) -> $crate::Result<Option<$owned>> {
                $crate::Lock::try_lock_owned_for_with_lease(self, wait, lease)
            }

            /// Tries once, for the current thread; `None` when somebody else has the lock.
            ///
            /// The watchdog keeps the hold until its guard goes. A thread that has the lock
            /// already gets it once more. Keep what it returns: `lock.try_lock()?;` compiles, and
            /// releases at once what it took.
            ///
            /// # Errors
            ///
            /// When Redis cannot be asked, or refuses: a lock that is not to be had is
            /// `Ok(None)`.
            pub fn try_lock(&self) -> $crate::Result<Option<$guard>> {
                $crate::Lock::try_lock(self)
            }

            /// Tries once, for the current thread and for this time only; `None` when somebody
            /// else has the lock.
            ///
            /// Where the thread has the lock already, the longer of the two times counts.
            ///
            /// # Errors
            ///
            /// Those of [`try_lock`](Self::try_lock), and [`Config`](crate::ErrorKind::Config)
            /// for a lease of zero or of more than ten years.
            pub fn try_lock_with_lease(
                &self,
                lease: ::std::time::Duration,
            ) -> $crate::Result<Option<$guard>> {
                $crate::Lock::try_lock_with_lease(self, lease)
            }

            /// Tries once, for a guard that may leave this thread; `None` when somebody has the
            /// lock, this thread included.
            ///
            /// # Errors
            ///
            /// Those of [`try_lock`](Self::try_lock).
            pub fn try_lock_owned(&self) -> $crate::Result<Option<$owned>> {
                $crate::Lock::try_lock_owned(self)
            }

            /// Tries once, for a guard that may leave this thread and for this time only; `None`
            /// when somebody has the lock, this thread included.
            ///
            /// # Errors
            ///
            /// Those of [`try_lock_with_lease`](Self::try_lock_with_lease).
            pub fn try_lock_owned_with_lease(
                &self,
                lease: ::std::time::Duration,
            ) -> $crate::Result<Option<$owned>> {
                $crate::Lock::try_lock_owned_with_lease(self, lease)
            }

            /// Whether the current thread holds the lock; asks Redis.
            ///
            /// A hold that belongs to an owned guard is no thread's.
            ///
            /// # Errors
            ///
            /// When Redis cannot be asked, or refuses.
            pub fn is_held_by_current_thread(&self) -> $crate::Result<bool> {
                self.handle.is_held_by_current_thread()
            }
        }

        impl $crate::family::sealed::Acquire for $lock {
            type Bound = $guard;
            type Owned = $owned;

            fn acquire_bound(
                &self,
                terms: $crate::engine::Terms,
            ) -> $crate::Result<Option<$guard>> {
                Ok(self.handle.acquire(&terms)?.map($guard::new))
            }

            fn acquire_owned(
                &self,
                terms: $crate::engine::Terms,
            ) -> $crate::Result<Option<$owned>> {
                Ok(self.handle.acquire(&terms)?.map($owned::new))
            }
        }

        impl $crate::Lock for $lock {
            type Guard = $guard;
            type OwnedGuard = $owned;

            fn is_held_by_current_thread(&self) -> $crate::Result<bool> {
                self.is_held_by_current_thread()
            }
        }
    };
}

pub(crate) use lock_methods;

pub(crate) mod sealed {
    //! What only this crate can be.

    use crate::{engine::Terms, error::Result};

    #[allow(unnameable_types, unreachable_pub, missing_docs)]
    pub trait Sealed {}

    #[allow(unnameable_types, unreachable_pub, missing_docs)]
    pub trait Acquire {
        type Bound;
        type Owned;

        fn acquire_bound(&self, terms: Terms) -> Result<Option<Self::Bound>>;
        fn acquire_owned(&self, terms: Terms) -> Result<Option<Self::Owned>>;
    }
}
