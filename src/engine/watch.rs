//! Waiting for any of several holds.

use std::time::Instant;

use crate::sync::{Condvar, Mutex};

/// Rung by several holds, for one who waits for any of them.
#[derive(Default)]
pub(crate) struct Watch {
    rung: Mutex<u64>,
    changed: Condvar,
}

impl Watch {
    pub(crate) fn rung(&self) -> u64 {
        *self.rung.lock()
    }

    /// Waits until it was rung more often than that, until then at most.
    pub(crate) fn wait(&self, seen: u64, until: Instant) {
        let mut rung = self.rung.lock();
        if *rung == seen {
            self.changed.wait_until(&mut rung, until);
        }
    }

    pub(crate) fn ring(&self) {
        *self.rung.lock() += 1;
        self.changed.notify_all();
    }
}
