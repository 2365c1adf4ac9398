//! Guards: a lock that is held, and is released when they go.

use std::{marker::PhantomData, sync::MutexGuard, time::Duration};

use crate::{
    engine::{Grip, Signal},
    event::{Ended, LostReason},
};

/// The methods that all guards share, each handed on to the guard's grip.
macro_rules! guard_methods {
    ($guard:ident) => {
        impl $guard {
            /// Releases this acquisition and says how that went.
            ///
            /// It always asks Redis, also when the time of the hold is over. The guard is used up
            /// whatever the answer. `Ok` means that nothing of this acquisition is left. It does
            /// not prove that the hold lasted to the end: not after a reply that was lost on the
            /// way, and not when Redis still had a hold whose time was over here. What was told
            /// ([`is_held`](Self::is_held), [`lost`](Self::lost)) stands.
            ///
            /// # Errors
            ///
            /// [`NotHeld`](crate::ErrorKind::NotHeld) when Redis does not have the hold any more;
            /// [`NoPermission`](crate::ErrorKind::NoPermission) with
            /// [`released()`](crate::Error::released) when it was released but the message for
            /// waiters was refused; [`Connection`](crate::ErrorKind::Connection) or
            /// [`Timeout`](crate::ErrorKind::Timeout) when the server did not answer: the release
            /// is then tried again in the background, and the hold ends with its time at the
            /// latest; [`Closed`](crate::ErrorKind::Closed) after a shutdown.
            pub fn unlock(self) -> $crate::Result<()> {
                self.grip.unlock()
            }

            /// Whether the hold is still good, by the clock of this process. No I/O.
            ///
            /// False from the end of its time on, whatever Redis says. That somebody else deleted
            /// the lock is found out by the next renewal, a third of the watchdog's timeout later
            /// at the latest; under a lease by its end. [`verify`](Self::verify) asks at once.
            pub fn is_held(&self) -> bool {
                self.grip.is_held()
            }

            /// What is left of the time of the hold, by the clock of this process. No I/O.
            ///
            /// Zero when it is lost. A hold without a lease is renewed long before it comes to
            /// that.
            pub fn remaining(&self) -> ::std::time::Duration {
                self.grip.remaining()
            }

            /// The holder as it stands in Redis: `uuid:number`. No I/O.
            pub fn holder(&self) -> &str {
                self.grip.holder()
            }

            /// The name of the lock, as the program gave it. No I/O.
            pub fn name(&self) -> &str {
                self.grip.name()
            }

            /// Asks Redis whether the hold is still there.
            ///
            /// # Errors
            ///
            /// [`Lost`](crate::ErrorKind::Lost) when its time is over (Redis is not asked then),
            /// [`NotHeld`](crate::ErrorKind::NotHeld) when Redis does not have it any more: both
            /// say that the guard is lost for good. Others when Redis could not be asked.
            pub fn verify(&self) -> $crate::Result<()> {
                self.grip.verify()
            }

            /// Makes the hold last at least this long from now. It is never shortened.
            ///
            /// # Errors
            ///
            /// Those of [`verify`](Self::verify), and [`Config`](crate::ErrorKind::Config) for a
            /// lease of zero or of more than ten years.
            pub fn extend(&self, lease: ::std::time::Duration) -> $crate::Result<()> {
                self.grip.extend(lease)
            }

            /// A signal that tells when the hold is lost, or this guard released.
            pub fn lost(&self) -> $crate::LostSignal {
                $crate::LostSignal::new(self.grip.signal())
            }
        }

        impl $crate::family::sealed::Sealed for $guard {}

        impl $crate::Guard for $guard {
            fn unlock(self) -> $crate::Result<()> {
                self.unlock()
            }

            fn is_held(&self) -> bool {
                self.is_held()
            }

            fn remaining(&self) -> ::std::time::Duration {
                self.remaining()
            }

            fn holder(&self) -> &str {
                self.holder()
            }

            fn name(&self) -> &str {
                self.name()
            }

            fn verify(&self) -> $crate::Result<()> {
                self.verify()
            }

            fn extend(&self, lease: ::std::time::Duration) -> $crate::Result<()> {
                self.extend(lease)
            }

            fn lost(&self) -> $crate::LostSignal {
                self.lost()
            }
        }
    };
}

pub(crate) use guard_methods;

/// A lock held by the thread that acquired it.
///
/// The lock is released when the guard is dropped: one round trip, see
/// [the crate's page](crate#dropping-a-guard-talks-to-redis). It stays with its thread, which may
/// acquire the same lock again while it has the guard; each guard counts once, and they may be
/// dropped in any order.
///
/// It can be lost before that: see [`is_held`](Self::is_held) and [`lost`](Self::lost).
///
/// # Examples
///
/// ```no_run
/// # let client = lockson::Client::connect("redis://127.0.0.1/")?;
/// if let Some(guard) = client.reentrant_lock("orders:42").try_lock()? {
///     if guard.is_held() {
///         // still ours
///     }
///     guard.unlock()?;
/// }
/// # Ok::<(), lockson::Error>(())
/// ```
///
/// It does not leave its thread; that takes an [`OwnedLockGuard`]:
///
/// ```compile_fail
/// fn elsewhere(guard: lockson::LockGuard) {
///     std::thread::spawn(move || drop(guard));
/// }
/// ```
#[derive(Debug)]
#[must_use = "if unused the lock is released immediately"]
#[clippy::has_significant_drop]
pub struct LockGuard {
    grip: Grip,
    /// Neither sent nor acquired elsewhere: if it could move, its old thread could re-enter what
    /// another thread holds.
    bound: PhantomData<MutexGuard<'static, ()>>,
}

/// A lock held by the guard itself, which may go from thread to thread.
///
/// No thread can acquire it again while the guard lives: a thread that has an owned guard and
/// asks for the same lock is refused like anybody else, and if it waits without bound, it waits
/// for itself.
///
/// # Examples
///
/// ```no_run
/// # let client = lockson::Client::connect("redis://127.0.0.1/")?;
/// if let Some(guard) = client.reentrant_lock("orders:42").try_lock_owned()? {
///     std::thread::spawn(move || drop(guard));
/// }
/// # Ok::<(), lockson::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "if unused the lock is released immediately"]
#[clippy::has_significant_drop]
pub struct OwnedLockGuard {
    grip: Grip,
}

guard_methods!(LockGuard);
guard_methods!(OwnedLockGuard);

impl LockGuard {
    pub(crate) fn new(grip: Grip) -> Self {
        Self {
            grip,
            bound: PhantomData,
        }
    }

    pub(crate) fn into_grip(self) -> Grip {
        self.grip
    }
}

impl OwnedLockGuard {
    pub(crate) fn new(grip: Grip) -> Self {
        Self { grip }
    }

    pub(crate) fn into_grip(self) -> Grip {
        self.grip
    }
}

/// Tells when a hold is lost or its guard released; from `lost()` of any guard.
///
/// It may be cloned and sent to whoever has to stop when the lock is gone.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use lockson::Ended;
///
/// # let client = lockson::Client::connect("redis://127.0.0.1/")?;
/// # let Some(guard) = client.reentrant_lock("orders:42").try_lock()? else { return Ok(()) };
/// let lost = guard.lost();
/// std::thread::spawn(move || match lost.wait(Duration::MAX) {
///     Ended::Lost(reason) => eprintln!("stop: {reason:?}"),
///     _ => {}
/// });
/// # Ok::<(), lockson::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LostSignal {
    signal: Signal,
}

impl LostSignal {
    pub(crate) fn new(signal: Signal) -> Self {
        Self { signal }
    }

    /// Whether the hold is lost. No I/O.
    pub fn is_lost(&self) -> bool {
        self.reason().is_some()
    }

    /// How the hold was lost; `None` while it is held and after it was released. No I/O.
    pub fn reason(&self) -> Option<LostReason> {
        match self.signal.now() {
            Some(Ended::Lost(reason)) => Some(reason),
            _ => None,
        }
    }

    /// Waits until the hold is lost, its guard released, or the timeout over.
    ///
    /// It needs nobody to notice that the time of the hold is over. [`Duration::MAX`] waits for
    /// ever.
    pub fn wait(&self, timeout: Duration) -> Ended {
        self.signal.wait(timeout)
    }
}
