//! The faults that a proxy is ordered to commit, and the count of those committed.

use std::{
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::{locked, proxy::Matcher};

/// What happens to a request.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    CutBefore,
    CutReply(usize),
    Deliver,
    Drop,
    Hold,
    Mute,
    Swallow,
}

#[derive(Default)]
pub struct Faults {
    pub black_hole: AtomicBool,
    pub refuse: AtomicBool,

    pub accepted: AtomicUsize,
    pub cuts: AtomicUsize,
    pub delayed: AtomicUsize,
    pub dropped: AtomicUsize,
    pub lost: AtomicUsize,
    pub refused: AtomicUsize,
    pub swallowed: AtomicUsize,

    orders: Mutex<Vec<Order>>,
    waits: Mutex<Waits>,
    changed: Condvar,
}

impl Faults {
    pub fn order(&self, matcher: impl Matcher, n: usize, action: Action) {
        locked(&self.orders).push(Order {
            matches: Box::new(matcher),
            left: n,
            action,
        });
    }

    pub fn forget_orders(&self) {
        locked(&self.orders).clear();
    }

    /// What is ordered for this request; the order is used up by one.
    pub fn action_for(&self, request: &[u8]) -> Action {
        let mut orders = locked(&self.orders);
        let Some(order) = orders
            .iter_mut()
            .find(|order| order.left > 0 && (order.matches)(request))
        else {
            return Action::Deliver;
        };
        order.left -= 1;
        order.action
    }

    pub fn set_delay(&self, delay: Duration) {
        locked(&self.waits).delay = delay;
    }

    /// Waits as long as messages are delayed now, or until the proxy stops.
    pub fn sit_out_delay(&self) {
        let waits = locked(&self.waits);
        let delay = waits.delay;
        if !delay.is_zero() {
            self.delayed.fetch_add(1, Ordering::SeqCst);
            let _ = self
                .changed
                .wait_timeout_while(waits, delay, |waits| !waits.stopping);
        }
    }

    pub fn held(&self) -> usize {
        locked(&self.waits).held
    }

    /// Waits for the release of what is held, runs `send` and lets the releaser know. When the
    /// proxy stops instead, nothing is sent and the answer is `false`.
    pub fn hold(&self, send: impl FnOnce()) -> bool {
        let mut waits = locked(&self.waits);
        waits.held += 1;
        waits.waiting += 1;
        let round = waits.round;
        let waits = self
            .changed
            .wait_while(waits, |waits| waits.round == round && !waits.stopping)
            .unwrap_or_else(PoisonError::into_inner);
        if waits.round == round {
            return false;
        }
        drop(waits);
        send();
        locked(&self.waits).sending -= 1;
        self.changed.notify_all();
        true
    }

    /// Releases what is held, waits until it is sent and says how many requests it was.
    pub fn release(&self) -> usize {
        let mut waits = locked(&self.waits);
        let released = std::mem::take(&mut waits.waiting);
        waits.sending += released;
        waits.round += 1;
        self.changed.notify_all();
        let (waits, outcome) = self
            .changed
            .wait_timeout_while(waits, RELEASE_BOUND, |waits| waits.sending > 0)
            .unwrap_or_else(PoisonError::into_inner);
        drop(waits);
        assert!(!outcome.timed_out(), "the server takes what was held");
        released
    }

    pub fn stop(&self) {
        locked(&self.waits).stopping = true;
        self.changed.notify_all();
    }

    pub fn is_stopping(&self) -> bool {
        locked(&self.waits).stopping
    }
}

struct Order {
    matches: Box<dyn Matcher>,
    left: usize,
    action: Action,
}

#[derive(Default)]
struct Waits {
    delay: Duration,
    held: usize,
    /// Goes up with each release: who is held waits for another round than his own.
    round: usize,
    sending: usize,
    stopping: bool,
    waiting: usize,
}

const RELEASE_BOUND: Duration = Duration::from_secs(10);
