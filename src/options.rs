//! The full matrix of ways to acquire, spelled out.

use std::time::{Duration, Instant};

use crate::{
    cancel::CancelToken,
    engine::{Terms, Wait},
    error::{Error, Result},
    family::Lock,
};

/// How to acquire a lock, from `options()` of any lock.
///
/// Without [`wait`](Self::wait) it waits for ever, without [`lease`](Self::lease) the watchdog
/// keeps the hold.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
///
/// # let client = lockson::Client::connect("redis://127.0.0.1/")?;
/// let lock = client.reentrant_lock("orders:42");
/// let guard = lock
///     .options()
///     .wait(Duration::ZERO)
///     .lease(Duration::from_secs(10))
///     .acquire()?;
/// # Ok::<(), lockson::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing until `acquire` is called"]
pub struct Options<'a, L: Lock> {
    lock: &'a L,
    terms: Terms,
}

impl<'a, L: Lock> Options<'a, L> {
    pub(crate) fn new(lock: &'a L) -> Self {
        Self {
            lock,
            terms: Terms {
                wait: Wait::ForEver,
                lease: None,
                max_hold: None,
                ahead: false,
                owned: false,
                cancel: None,
            },
        }
    }

    /// Sets how long to wait, counted from now; zero means one try, [`Duration::MAX`] for ever.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.terms.wait = match Instant::now().checked_add(wait) {
            _ if wait.is_zero() => Wait::Not,
            Some(deadline) => Wait::Until(deadline),
            None => Wait::ForEver,
        };
        self
    }

    /// Sets until when to wait.
    pub fn wait_until(mut self, deadline: Instant) -> Self {
        self.terms.wait = Wait::Until(deadline);
        self
    }

    /// Sets after which time the hold ends by itself; the watchdog leaves it alone.
    ///
    /// Less than a millisecond is rounded up to one; zero and more than ten years are refused.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.terms.lease = Some(lease);
        self
    }

    /// Sets for how long the watchdog renews the hold at most, counted from the acquisition.
    ///
    /// After that the key ends and the guard is lost: a bound for a guard that is forgotten, or
    /// for work that hangs. Refused together with a lease.
    pub fn max_hold(mut self, most: Duration) -> Self {
        self.terms.max_hold = Some(most);
        self
    }

    /// Sets a token by which another thread can end the wait.
    ///
    /// The call then answers [`Cancelled`](crate::ErrorKind::Cancelled), and nothing of it is left
    /// behind. At once, unless it waits for an answer of Redis just then: how long that may take, see
    /// [`CancelToken`].
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.terms.cancel = Some(token.clone());
        self
    }

    /// Acquires for the current thread; `None` when others had the lock all the time.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::ErrorKind::Config) for options that do not fit,
    /// [`Cancelled`](crate::ErrorKind::Cancelled) when the token of [`cancel`](Self::cancel) was
    /// cancelled before the lock was got, and those of [`lock`](Lock::lock) or, with a limited
    /// wait, of [`try_lock_for`](Lock::try_lock_for).
    pub fn acquire(self) -> Result<Option<L::Guard>> {
        self.lock.acquire_bound(self.terms)
    }

    pub(crate) fn acquire_for_sure(self) -> Result<L::Guard> {
        self.acquire()?.ok_or_else(Error::closed)
    }

    pub(crate) fn acquire_owned_for_sure(self) -> Result<L::OwnedGuard> {
        self.acquire_owned()?.ok_or_else(Error::closed)
    }

    /// Acquires for the guard itself, which may then go to another thread; `None` when others had
    /// the lock all the time.
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Self::acquire).
    pub fn acquire_owned(self) -> Result<Option<L::OwnedGuard>> {
        self.lock.acquire_owned(Terms {
            owned: true,
            ..self.terms
        })
    }
}
