//! The guards of a read-write lock.

use std::{marker::PhantomData, sync::MutexGuard};

use crate::{engine::Grip, error::Error, guard::guard_methods, protocol::Read};

/// The right to read, held by the thread that acquired it; from
/// [`ReadWriteLock::read`](crate::ReadWriteLock::read).
///
/// It is released when the guard is dropped: one round trip, see
/// [the crate's page](crate#dropping-a-guard-talks-to-redis). Guards of one thread are one hold, and
/// may be dropped in any order; it lives as long as the longest lease of those that are left.
///
/// # Examples
///
/// ```no_run
/// # let client = lockson::Client::connect("redis://127.0.0.1/")?;
/// let prices = client.read_write_lock("prices");
/// let first = prices.read()?;
/// let second = prices.read()?;
/// assert_eq!(first.holder(), second.holder());
/// # Ok::<(), lockson::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "if unused the lock is released immediately"]
#[clippy::has_significant_drop]
pub struct ReadGuard {
    grip: Grip,
    bound: PhantomData<MutexGuard<'static, ()>>,
}

/// The right to write, held by the thread that acquired it; from
/// [`ReadWriteLock::write`](crate::ReadWriteLock::write).
///
/// It is released when the guard is dropped: one round trip, see
/// [the crate's page](crate#dropping-a-guard-talks-to-redis).
///
/// # Examples
///
/// ```no_run
/// # let client = lockson::Client::connect("redis://127.0.0.1/")?;
/// let prices = client.read_write_lock("prices");
/// let writing = prices.write()?;
/// let reading = prices.read()?; // who writes may also read
/// drop(writing); // and go on reading
/// # Ok::<(), lockson::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "if unused the lock is released immediately"]
#[clippy::has_significant_drop]
pub struct WriteGuard {
    grip: Grip,
    bound: PhantomData<MutexGuard<'static, ()>>,
}

/// The right to read, held by the guard itself, which may go from thread to thread.
///
/// # Examples
///
/// ```no_run
/// # let client = lockson::Client::connect("redis://127.0.0.1/")?;
/// let guard = client.read_write_lock("prices").read_lock().lock_owned()?;
/// std::thread::spawn(move || drop(guard));
/// # Ok::<(), lockson::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "if unused the lock is released immediately"]
#[clippy::has_significant_drop]
pub struct OwnedReadGuard {
    grip: Grip,
}

/// The right to write, held by the guard itself, which may go from thread to thread.
///
/// A thread that has one and asks to read waits for itself: the right is no thread's.
///
/// # Examples
///
/// ```no_run
/// # let client = lockson::Client::connect("redis://127.0.0.1/")?;
/// let guard = client.read_write_lock("prices").write_lock().lock_owned()?;
/// std::thread::spawn(move || drop(guard));
/// # Ok::<(), lockson::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "if unused the lock is released immediately"]
#[clippy::has_significant_drop]
pub struct OwnedWriteGuard {
    grip: Grip,
}

guard_methods!(ReadGuard);
guard_methods!(WriteGuard);
guard_methods!(OwnedReadGuard);
guard_methods!(OwnedWriteGuard);

/// Making and unmaking a guard, and the downgrade of those that write.
macro_rules! of_grip {
    ($guard:ident { $($bound:ident)? } $($lower:ident)?) => {
        impl $guard {
            pub(crate) fn new(grip: Grip) -> Self {
                Self {
                    grip,
                    $($bound: PhantomData,)?
                }
            }

            pub(crate) fn into_grip(self) -> Grip {
                self.grip
            }
            $(
                /// Goes on reading instead of writing, with nobody writing in between; waiting
                /// readers are told.
                ///
                /// The new guard is kept as this one was: by the watchdog, or for what is left of
                /// the lease. Where the thread writes by other guards too, it goes on writing.
                ///
                /// # Errors
                ///
                /// The error and this guard, which is as it was:
                /// [`Lost`](crate::ErrorKind::Lost) or [`NotHeld`](crate::ErrorKind::NotHeld) when it
                /// is lost, others when Redis could not be asked. Once the right to read is there,
                /// it succeeds: if writing cannot be given up at once, that is tried again in the
                /// background, logged, and raised as an [`Event`](crate::Event).
                ///
                /// # Examples
                ///
                /// ```no_run
                /// # let client = lockson::Client::connect("redis://127.0.0.1/")?;
                /// let writing = client.read_write_lock("prices").write()?;
                /// match writing.downgrade() {
                ///     Ok(reading) => reading.unlock()?,
                ///     Err((error, writing)) => eprintln!("{} still writes: {error}", writing.name()),
                /// }
                /// # Ok::<(), lockson::Error>(())
                /// ```
                pub fn downgrade(self) -> Result<$lower, (Error, Self)> {
                    match self.grip.exchange(&Read) {
                        Ok(grip) => Ok($lower::new(grip)),
                        Err((error, grip)) => Err((error, Self::new(*grip))),
                    }
                }
            )?
        }
    };
}

of_grip!(ReadGuard { bound });
of_grip!(OwnedReadGuard {});
of_grip!(WriteGuard { bound } ReadGuard);
of_grip!(OwnedWriteGuard {} OwnedReadGuard);
