//! The lock of any kind, and its guards.

use std::{marker::PhantomData, sync::MutexGuard};

use crate::{
    engine::Grip,
    fair::FairLock,
    family::lock_methods,
    guard::{LockGuard, OwnedLockGuard, guard_methods},
    handle::Handle,
    read_write::{OwnedReadGuard, OwnedWriteGuard, ReadGuard, ReadLock, WriteGuard, WriteLock},
    reentrant::ReentrantLock,
};

/// A lock of any kind, as Java's `RLock` is.
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
    handle: Handle,
}

/// A guard of an [`AnyLock`]; any guard that stays with its thread turns into one.
#[derive(Debug)]
#[must_use = "if unused the lock is released immediately"]
#[clippy::has_significant_drop]
pub struct AnyGuard {
    grip: Grip,
    bound: PhantomData<MutexGuard<'static, ()>>,
}

/// An owned guard of an [`AnyLock`]; any owned guard turns into one.
#[derive(Debug)]
#[must_use = "if unused the lock is released immediately"]
#[clippy::has_significant_drop]
pub struct AnyOwnedGuard {
    grip: Grip,
}

lock_methods!(AnyLock, AnyGuard, AnyOwnedGuard);
guard_methods!(AnyGuard);
guard_methods!(AnyOwnedGuard);

impl AnyGuard {
    fn new(grip: Grip) -> Self {
        Self {
            grip,
            bound: PhantomData,
        }
    }
}

impl AnyOwnedGuard {
    fn new(grip: Grip) -> Self {
        Self { grip }
    }
}

/// A guard of one key is a guard of any lock by its grip.
macro_rules! any_guard {
    ($($guard:ident into $any:ident)+) => {$(
        impl From<$guard> for $any {
            fn from(guard: $guard) -> Self {
                Self::new(guard.into_grip())
            }
        }
    )+};
}

any_guard!(
    LockGuard into AnyGuard
    ReadGuard into AnyGuard
    WriteGuard into AnyGuard
    OwnedLockGuard into AnyOwnedGuard
    OwnedReadGuard into AnyOwnedGuard
    OwnedWriteGuard into AnyOwnedGuard
);

/// A lock of one key is an [`AnyLock`] by its handle.
macro_rules! any_lock {
    ($($lock:ident)+) => {$(
        impl From<$lock> for AnyLock {
            fn from(lock: $lock) -> Self {
                Self {
                    handle: lock.into_handle(),
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

any_lock!(FairLock ReadLock ReentrantLock WriteLock);
