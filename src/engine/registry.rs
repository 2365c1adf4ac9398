//! The holds of a client: who re-enters, what the watchdog keeps, what is told when it is lost.

use std::{collections::HashMap, sync::Arc, time::Instant};

use super::hold::Hold;
use crate::sync::Mutex;

#[derive(Debug, Default)]
pub(crate) struct Registry {
    holds: Mutex<HashMap<Arc<str>, Vec<Arc<Hold>>>>,
}

impl Registry {
    pub(crate) fn insert(&self, hold: Arc<Hold>) {
        let mut holds = self.holds.lock();
        holds
            .entry(Arc::clone(&hold.subject.key))
            .or_default()
            .push(hold);
    }

    /// Takes a hold out; false if it was not there any more.
    pub(crate) fn remove(&self, hold: &Arc<Hold>) -> bool {
        let mut holds = self.holds.lock();
        let Some(of_key) = holds.get_mut(&hold.subject.key) else {
            return false;
        };
        let Some(place) = of_key.iter().position(|other| Arc::ptr_eq(other, hold)) else {
            return false;
        };
        of_key.swap_remove(place);
        if of_key.is_empty() {
            holds.remove(&hold.subject.key);
        }
        true
    }

    pub(crate) fn contains(&self, hold: &Arc<Hold>) -> bool {
        let holds = self.holds.lock();
        holds
            .get(&hold.subject.key)
            .is_some_and(|of_key| of_key.iter().any(|other| Arc::ptr_eq(other, hold)))
    }

    /// The hold that this thread has of this key.
    pub(crate) fn find(&self, key: &str, thread: u64) -> Option<Arc<Hold>> {
        let holds = self.holds.lock();
        let mut of_key = holds.get(key)?.iter();
        of_key.find(|hold| hold.thread == Some(thread)).cloned()
    }

    /// The hold that this thread has of this key; and until when another thread of this client has
    /// it, by its clock.
    pub(crate) fn look(
        &self,
        key: &str,
        thread: Option<u64>,
    ) -> (Option<Arc<Hold>>, Option<Instant>) {
        let holds = self.holds.lock();
        let Some(of_key) = holds.get(key) else {
            return (None, None);
        };
        let is_own = |hold: &&Arc<Hold>| thread.is_some() && hold.thread == thread;
        let others = of_key.iter().filter(|hold| !is_own(hold) && hold.is_held());
        (
            of_key.iter().find(is_own).cloned(),
            others.map(|hold| hold.deadline()).max(),
        )
    }

    pub(crate) fn of_key(&self, key: &str) -> Vec<Arc<Hold>> {
        self.holds.lock().get(key).cloned().unwrap_or_default()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Hold>> {
        self.holds.lock().values().flatten().cloned().collect()
    }

    /// When the next hold ends by its clock that Redis may keep for longer.
    pub(crate) fn earliest_doubtful_deadline(&self) -> Option<Instant> {
        let holds = self.holds.lock();
        let doubtful = holds.values().flatten().filter(|hold| hold.is_doubtful());
        doubtful.map(|hold| hold.deadline()).min()
    }

    /// When the next hold ends by its clock.
    pub(crate) fn earliest_deadline(&self) -> Option<Instant> {
        let holds = self.holds.lock();
        holds.values().flatten().map(|hold| hold.deadline()).min()
    }
}
