//! The mutex and the condition variable of the waiting machinery.
//!
//! Those of parking_lot; under `--cfg lockson_model` the tests use a model checker's, which tries
//! many orders of events (`engine/model.rs`). There no timed wait ever ends by its time.

#[cfg(not(all(test, lockson_model)))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};

#[cfg(all(test, lockson_model))]
pub(crate) use self::checked::{Condvar, Mutex, MutexGuard};

#[cfg(all(test, lockson_model))]
mod checked {
    use std::{
        ops::{Deref, DerefMut},
        time::Instant,
    };

    use shuttle::sync;

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(sync::Mutex<T>);

    /// None only while it waits.
    pub(crate) struct MutexGuard<'a, T>(Option<sync::MutexGuard<'a, T>>);

    #[derive(Debug, Default)]
    pub(crate) struct Condvar(sync::Condvar);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().expect("no panic")))
        }
    }

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self(sync::Condvar::new())
        }

        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let inner = guard.0.take().expect("locked");
            guard.0 = Some(self.0.wait(inner).expect("no panic"));
        }

        pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _: Instant) {
            self.wait(guard);
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().expect("locked")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("locked")
        }
    }
}
