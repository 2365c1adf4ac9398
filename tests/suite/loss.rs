//! Told when it is lost.

mod clock;
mod events;
mod replies;
mod signals;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use lockson::{Client, ErrorKind, Event, LockGuard, LostReason, ReentrantLock};

use crate::{basics::connect_with, support::Ground};

/// What a client told of, in order.
#[derive(Clone, Default)]
pub(crate) struct Told(Arc<Mutex<Vec<Event>>>);

impl Told {
    /// A handler that writes everything down.
    pub(crate) fn handler(&self) -> impl Fn(&Event) + Send + Sync + 'static {
        let told = self.clone();
        move |event| told.events(|events| events.push(event.clone()))
    }

    pub(crate) fn all(&self) -> Vec<Event> {
        self.events(|events| events.clone())
    }

    /// Name, holder and reason of each loss.
    pub(crate) fn lost(&self) -> Vec<(String, String, LostReason)> {
        let lost = |event: &Event| match event {
            Event::Lost {
                name,
                holder,
                reason,
                ..
            } => Some((name.to_string(), holder.to_string(), *reason)),
            _ => None,
        };
        self.events(|events| events.iter().filter_map(lost).collect())
    }

    /// Name and kind of error of each release that failed.
    fn unreleased(&self) -> Vec<(String, ErrorKind)> {
        let failed = |event: &Event| match event {
            Event::ReleaseFailed { name, error, .. } => Some((name.to_string(), error.kind())),
            _ => None,
        };
        self.events(|events| events.iter().filter_map(failed).collect())
    }

    fn events<T>(&self, look: impl FnOnce(&mut Vec<Event>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A client that renews so seldom that a test is over before.
fn listening(ground: &Ground) -> (Client, Told) {
    let told = Told::default();
    let client = connect_with(ground, |builder| builder.on_event(told.handler()));
    (client, told)
}

#[track_caller]
fn taken(lock: &ReentrantLock) -> LockGuard {
    lock.try_lock().expect("answered").expect("free")
}

#[track_caller]
fn leased(lock: &ReentrantLock, lease: Duration) -> LockGuard {
    let taken = lock.try_lock_with_lease(lease);
    taken.expect("answered").expect("free")
}

#[track_caller]
fn fails<T: std::fmt::Debug>(result: lockson::Result<T>, kind: ErrorKind) {
    let error = result.expect_err("it fails");
    assert_eq!(error.kind(), kind, "{error}");
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const BOUND: Duration = secs(15);
