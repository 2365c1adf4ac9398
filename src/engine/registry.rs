//! The holds of a client: who re-enters, what the watchdog keeps, what is told when it is lost.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use super::hold::Hold;
use crate::{protocol::Part, sync::Mutex};

#[derive(Debug, Default)]
pub(crate) struct Registry {
    holds: Mutex<HashMap<Arc<str>, Vec<Arc<Hold>>>>,
    /// Set with the mutex held. It outlasts the hold for a moment: most are gone soon and followed by
    /// others, and the watchdog need not hear of each.
    asserting: AtomicBool,
}

/// What a client has of a key.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// What the thread may re-enter.
    pub(crate) own: Option<Arc<Hold>>,
    /// The thread's hold of another part that lets it have this one too.
    pub(crate) above: Option<Arc<Hold>>,
    /// The thread's hold of another part that keeps this one from it.
    pub(crate) in_the_way: Option<Arc<Hold>>,
    /// Until when any other hold is held, by its clock.
    pub(crate) held_until: Option<Instant>,
}

impl Registry {
    /// Answers whether the watchdog has to hear of it now.
    pub(crate) fn insert(&self, hold: Arc<Hold>) -> bool {
        let mut holds = self.holds.lock();
        let is_new = hold.part().lives_by_leases() && !self.asserting.swap(true, Ordering::Relaxed);
        holds
            .entry(Arc::clone(&hold.subject.key))
            .or_default()
            .push(hold);
        is_new
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

    /// The hold that this thread has of this part of a key.
    pub(crate) fn find(&self, key: &str, part: Part, thread: u64) -> Option<Arc<Hold>> {
        let holds = self.holds.lock();
        let mut of_key = holds.get(key)?.iter();
        of_key
            .find(|hold| hold.thread == Some(thread) && hold.part() == part)
            .cloned()
    }

    /// What this client has of a key, as somebody sees it who asks for this part of it.
    pub(crate) fn look(&self, key: &str, part: Part, thread: Option<u64>) -> View {
        let holds = self.holds.lock();
        let Some(of_key) = holds.get(key) else {
            return View::default();
        };
        let mut view = View::default();
        for hold in of_key {
            let is_own = thread.is_some() && hold.thread == thread;
            if is_own && hold.part() == part {
                view.own = Some(Arc::clone(hold));
                continue;
            }
            if is_own && part.allowed_by() == Some(hold.part()) {
                view.above = Some(Arc::clone(hold)).filter(|above| above.is_held());
            }
            if is_own && part.denied_by() == Some(hold.part()) {
                view.in_the_way = Some(Arc::clone(hold));
            }
            if hold.is_held() {
                view.held_until = view.held_until.max(Some(hold.deadline()));
            }
        }
        view
    }

    pub(crate) fn of_key(&self, key: &str) -> Vec<Arc<Hold>> {
        self.holds.lock().get(key).cloned().unwrap_or_default()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Hold>> {
        self.holds.lock().values().flatten().cloned().collect()
    }

    /// Whether there may be a hold whose TTL others may lower.
    pub(crate) fn is_asserting(&self) -> bool {
        self.asserting.load(Ordering::Relaxed)
    }

    /// Looks whether there still is such a hold.
    pub(crate) fn look_for_asserted(&self) {
        let holds = self.holds.lock();
        let mut all = holds.values().flatten();
        let any = all.any(|hold| hold.part().lives_by_leases());
        self.asserting.store(any, Ordering::Relaxed);
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
