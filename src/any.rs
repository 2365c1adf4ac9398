//! The lock of any kind, and its guards.

use std::{marker::PhantomData, sync::MutexGuard, time::Duration};

use crate::{
    engine::{Bundle, Grip, Signal, Terms},
    error::Result,
    fair::FairLock,
    family::lock_methods,
    guard::{LockGuard, OwnedLockGuard, guard_methods},
    handle::Handle,
    multi::{Handles, MultiGuard, MultiLock, OwnedMultiGuard},
    read_write::{OwnedReadGuard, OwnedWriteGuard, ReadGuard, ReadLock, WriteGuard, WriteLock},
    red::{Majority, OwnedRedGuard, RedGuard, RedLock},
    reentrant::ReentrantLock,
};

/// A lock of any kind, as Java's `RLock` is: also one made of several.
///
/// # Ownership
///
/// As with the lock that it was made of, by `into()`. It is no other lock than that one.
///
/// # What Redis holds
///
/// What that lock holds there.
///
/// # When it can be lost
///
/// When that lock can.
///
/// # Errors
///
/// Those of that lock.
///
/// # Examples
///
/// ```no_run
/// use lockson::{AnyLock, Client};
///
/// fn busy(lock: &AnyLock) -> lockson::Result<bool> {
///     Ok(lock.try_lock()?.is_none())
/// }
///
/// let client = Client::connect("redis://127.0.0.1/")?;
/// busy(&client.reentrant_lock("nightly").into())?;
/// # Ok::<(), lockson::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct AnyLock {
    handle: AnyHandle,
}

/// A guard of an [`AnyLock`]; any guard that stays with its thread turns into one.
///
/// # Examples
///
/// ```no_run
/// use lockson::AnyGuard;
///
/// # let client = lockson::Client::connect("redis://127.0.0.1/")?;
/// let held: Vec<AnyGuard> = vec![
///     client.reentrant_lock("orders:42").lock()?.into(),
///     client.read_write_lock("prices").read()?.into(),
/// ];
/// assert!(held.iter().all(AnyGuard::is_held));
/// # Ok::<(), lockson::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "if unused the lock is released immediately"]
#[clippy::has_significant_drop]
pub struct AnyGuard {
    grip: AnyGrip,
    bound: PhantomData<MutexGuard<'static, ()>>,
}

/// An owned guard of an [`AnyLock`]; any owned guard turns into one.
#[derive(Debug)]
#[must_use = "if unused the lock is released immediately"]
#[clippy::has_significant_drop]
pub struct AnyOwnedGuard {
    grip: AnyGrip,
}

lock_methods!(AnyLock, AnyGuard, AnyOwnedGuard);
guard_methods!(AnyGuard);
guard_methods!(AnyOwnedGuard);

impl AnyLock {
    /// The locks of one key that it is made of, where all of them must be held.
    pub(crate) fn into_all(self) -> Option<Vec<Handle>> {
        match self.handle {
            AnyHandle::Majority(_) => None,
            AnyHandle::Many(Handles(handles)) => Some(handles),
            AnyHandle::One(handle) => Some(vec![handle]),
        }
    }

    /// The lock of one key that it is.
    pub(crate) fn into_one(self) -> Option<Handle> {
        match self.handle {
            AnyHandle::One(handle) => Some(handle),
            AnyHandle::Majority(_) | AnyHandle::Many(_) => None,
        }
    }
}

impl AnyGuard {
    fn new(grip: AnyGrip) -> Self {
        Self {
            grip,
            bound: PhantomData,
        }
    }
}

impl AnyOwnedGuard {
    fn new(grip: AnyGrip) -> Self {
        Self { grip }
    }
}

/// A guard of one key is a guard of any lock by its grip.
macro_rules! any_guard {
    ($($guard:ident $grip:ident into $any:ident)+) => {$(
        impl From<$guard> for $any {
            fn from(guard: $guard) -> Self {
                Self::new(AnyGrip::$grip(guard.into_grip()))
            }
        }
    )+};
}

any_guard!(
    LockGuard One into AnyGuard
    MultiGuard Many into AnyGuard
    ReadGuard One into AnyGuard
    RedGuard Many into AnyGuard
    WriteGuard One into AnyGuard
    OwnedLockGuard One into AnyOwnedGuard
    OwnedMultiGuard Many into AnyOwnedGuard
    OwnedReadGuard One into AnyOwnedGuard
    OwnedRedGuard Many into AnyOwnedGuard
    OwnedWriteGuard One into AnyOwnedGuard
);

/// A lock is an [`AnyLock`] by its handle.
macro_rules! any_lock {
    ($($lock:ident $handle:ident)+) => {$(
        impl From<$lock> for AnyLock {
            fn from(lock: $lock) -> Self {
                Self {
                    handle: AnyHandle::$handle(lock.into_handle()),
                }
            }
        }

        impl From<&$lock> for AnyLock {
            fn from(lock: &$lock) -> Self {
                lock.clone().into()
            }
        }
    )+};
}

any_lock!(
    FairLock One
    MultiLock Many
    ReadLock One
    RedLock Majority
    ReentrantLock One
    WriteLock One
);

#[derive(Clone, Debug)]
enum AnyHandle {
    Majority(Majority),
    Many(Handles),
    One(Handle),
}

impl AnyHandle {
    fn acquire(&self, terms: &Terms) -> Result<Option<AnyGrip>> {
        Ok(match self {
            Self::Majority(handles) => handles.acquire(terms)?.map(AnyGrip::Many),
            Self::Many(handles) => handles.acquire(terms)?.map(AnyGrip::Many),
            Self::One(handle) => handle.acquire(terms)?.map(AnyGrip::One),
        })
    }

    fn is_held_by_current_thread(&self) -> Result<bool> {
        match self {
            Self::Majority(handles) => handles.is_held_by_current_thread(),
            Self::Many(handles) => handles.is_held_by_current_thread(),
            Self::One(handle) => handle.is_held_by_current_thread(),
        }
    }
}

#[derive(Debug)]
enum AnyGrip {
    Many(Bundle),
    One(Grip),
}

/// The same of whichever it is.
macro_rules! of_either {
    ($any:expr, $grip:ident => $answer:expr) => {
        match $any {
            AnyGrip::Many($grip) => $answer,
            AnyGrip::One($grip) => $answer,
        }
    };
}

impl AnyGrip {
    fn unlock(self) -> Result<()> {
        of_either!(self, grip => grip.unlock())
    }

    fn is_held(&self) -> bool {
        of_either!(self, grip => grip.is_held())
    }

    fn remaining(&self) -> Duration {
        of_either!(self, grip => grip.remaining())
    }

    fn holder(&self) -> &str {
        of_either!(self, grip => grip.holder())
    }

    fn name(&self) -> &str {
        of_either!(self, grip => grip.name())
    }

    fn verify(&self) -> Result<()> {
        of_either!(self, grip => grip.verify())
    }

    fn extend(&self, lease: Duration) -> Result<()> {
        of_either!(self, grip => grip.extend(lease))
    }

    fn signal(&self) -> Signal {
        of_either!(self, grip => grip.signal())
    }
}
