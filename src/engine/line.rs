//! The lines of a client: which key has waiting threads, and a place among them.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;

use super::contest::{Contest, Granted, Wish};

/// The contests of a client, by key.
#[derive(Default)]
pub(crate) struct Contests {
    by_key: Mutex<HashMap<Arc<str>, Arc<Contest>>>,
    /// Spares the uncontended acquire and release the map.
    count: AtomicUsize,
}

/// A place in the queue. Dropping it leaves the queue, whatever happened.
pub(crate) struct Place<'a> {
    contests: &'a Contests,
    key: Arc<str>,
    pub(crate) contest: Arc<Contest>,
    pub(crate) number: u64,
}

impl Contests {
    pub(crate) fn get(&self, key: &str) -> Option<Arc<Contest>> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return None;
        }
        self.by_key.lock().get(key).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Contest>> {
        self.by_key.lock().values().cloned().collect()
    }

    pub(crate) fn waiters(&self) -> usize {
        self.all().iter().map(|contest| contest.len()).sum()
    }

    pub(crate) fn join(&self, key: &Arc<str>, wish: Wish) -> Place<'_> {
        let mut by_key = self.by_key.lock();
        let contest = by_key.entry(Arc::clone(key)).or_insert_with(|| {
            self.count.fetch_add(1, Ordering::SeqCst);
            Arc::new(Contest::new())
        });
        Place {
            contests: self,
            key: Arc::clone(key),
            number: contest.join(wish),
            contest: Arc::clone(contest),
        }
    }
}

impl Place<'_> {
    /// Leaves the queue; answers a hold that was handed over at the very last moment.
    pub(crate) fn leave(&self) -> Option<Granted> {
        let left = {
            let mut by_key = self.contests.by_key.lock();
            let left = self.contest.leave(self.number);
            if left.last
                && by_key
                    .get(&self.key)
                    .is_some_and(|other| Arc::ptr_eq(other, &self.contest))
            {
                by_key.remove(&self.key);
                self.contests.count.fetch_sub(1, Ordering::SeqCst);
            }
            left
        };
        drop(left.subscription);
        left.granted
    }

    pub(crate) fn is_first(&self) -> bool {
        self.contest.is_first(self.number)
    }
}
