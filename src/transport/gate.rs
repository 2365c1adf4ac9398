//! Who may use a connection: acquirers in the order they came, releases always before them.

use std::{collections::VecDeque, sync::Arc, time::Instant};

use parking_lot::{Condvar, Mutex};

/// Connections that only releases may use.
const RESERVE: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Lane {
    /// Acquiring and asking.
    Acquire,
    Release,
}

/// Admits as many callers as the pool has connections.
///
/// The pool alone would not do: it serves whoever comes just then, so that a release could wait
/// behind hundreds of acquirers, and among those the order would be luck. It also does not wake a
/// caller when a broken connection makes room for a new one; here nobody waits inside the pool
/// unless a connection is on its way.
#[derive(Debug)]
pub(super) struct Gate {
    size: usize,
    state: Mutex<State>,
}

/// The right to use one connection. Drop it after the connection went back.
#[derive(Debug)]
pub(super) struct Permit<'a> {
    gate: &'a Gate,
    lane: Lane,
}

#[derive(Debug, Default)]
struct State {
    acquiring: usize,
    releasing: usize,
    acquirers: VecDeque<Arc<Waiter>>,
    releasers: VecDeque<Arc<Waiter>>,
    closed: bool,
}

#[derive(Debug, Default)]
struct Waiter {
    verdict: Mutex<Option<Verdict>>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Admitted,
    Closed,
}

impl Gate {
    /// A gate for `size` acquirers at a time, and the reserve beside them.
    pub(super) fn new(size: usize) -> Self {
        Self {
            size,
            state: Mutex::default(),
        }
    }

    /// How many connections the pool must be able to open.
    pub(super) fn most(&self) -> usize {
        self.size + RESERVE
    }

    /// Sends everybody away, for good.
    pub(super) fn close(&self) {
        let waiters: Vec<_> = {
            let mut state = self.state.lock();
            state.closed = true;
            let State {
                acquirers,
                releasers,
                ..
            } = &mut *state;
            acquirers.drain(..).chain(releasers.drain(..)).collect()
        };
        for waiter in waiters {
            *waiter.verdict.lock() = Some(Verdict::Closed);
            waiter.changed.notify_one();
        }
    }

    /// A place, if there is one right now.
    pub(super) fn try_enter(&self, lane: Lane) -> Option<Permit<'_>> {
        let mut state = self.state.lock();
        let admitted = state.queue(lane).is_empty() && state.admit(lane, self.size);
        admitted.then(|| Permit { gate: self, lane })
    }

    /// Waits for a place until the deadline; `None` when there was none in time.
    pub(super) fn enter(&self, lane: Lane, deadline: Instant) -> Option<Permit<'_>> {
        let waiter = {
            let mut state = self.state.lock();
            if state.closed {
                return None;
            }
            if state.queue(lane).is_empty() && state.admit(lane, self.size) {
                return Some(Permit { gate: self, lane });
            }
            let waiter = Arc::new(Waiter::default());
            state.queue(lane).push_back(Arc::clone(&waiter));
            waiter
        };
        let mut verdict = waiter.verdict.lock();
        while verdict.is_none() {
            if waiter
                .changed
                .wait_until(&mut verdict, deadline)
                .timed_out()
            {
                break;
            }
        }
        if verdict.is_none() {
            drop(verdict);
            // Nobody judges whom he does not find in the queue, so leaving it settles the question.
            let mut state = self.state.lock();
            let queue = state.queue(lane);
            if let Some(place) = queue.iter().position(|other| Arc::ptr_eq(other, &waiter)) {
                queue.remove(place);
                return None;
            }
            drop(state);
            // The verdict is on its way.
            verdict = waiter.verdict.lock();
            while verdict.is_none() {
                waiter.changed.wait(&mut verdict);
            }
        }
        (*verdict == Some(Verdict::Admitted)).then(|| Permit { gate: self, lane })
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.state.lock();
        match self.lane {
            Lane::Acquire => state.acquiring -= 1,
            Lane::Release => state.releasing -= 1,
        }
        let admitted = state.admit_next(self.gate.size);
        drop(state);
        if let Some(waiter) = admitted {
            *waiter.verdict.lock() = Some(Verdict::Admitted);
            waiter.changed.notify_one();
        }
    }
}

impl State {
    fn queue(&mut self, lane: Lane) -> &mut VecDeque<Arc<Waiter>> {
        match lane {
            Lane::Acquire => &mut self.acquirers,
            Lane::Release => &mut self.releasers,
        }
    }

    fn admit(&mut self, lane: Lane, size: usize) -> bool {
        if self.closed {
            return false;
        }
        let room = self.acquiring + self.releasing < size + RESERVE;
        match lane {
            Lane::Acquire if room && self.acquiring < size => self.acquiring += 1,
            Lane::Release if room => self.releasing += 1,
            _ => return false,
        }
        true
    }

    /// Takes the next waiter out of its queue, its place already counted.
    fn admit_next(&mut self, size: usize) -> Option<Arc<Waiter>> {
        for lane in [Lane::Release, Lane::Acquire] {
            if !self.queue(lane).is_empty() && self.admit(lane, size) {
                return self.queue(lane).pop_front();
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(20)
    }

    #[test]
    fn the_reserve_is_for_releases() {
        let gate = Gate::new(1);
        let first = gate.enter(Lane::Acquire, soon()).expect("free");
        assert!(gate.enter(Lane::Acquire, soon()).is_none());
        let releases: Vec<_> = (0..RESERVE)
            .map(|_| gate.enter(Lane::Release, soon()).expect("reserve"))
            .collect();
        assert!(gate.enter(Lane::Release, soon()).is_none());
        drop(first);
        assert!(gate.enter(Lane::Release, soon()).is_some());
        drop(releases);
        assert!(gate.enter(Lane::Acquire, soon()).is_some());
        let state = gate.state.lock();
        assert_eq!((state.acquiring, state.releasing), (0, 0));
        assert!(state.acquirers.is_empty() && state.releasers.is_empty());
    }

    #[test]
    fn acquirers_enter_in_order() {
        let gate = Gate::new(1);
        let order = Mutex::new(Vec::new());
        let far = Instant::now() + Duration::from_secs(20);
        thread::scope(|scope| {
            let held = gate.enter(Lane::Acquire, far).expect("free");
            for number in 0..8 {
                let (gate, order) = (&gate, &order);
                scope.spawn(move || {
                    let permit = gate.enter(Lane::Acquire, far).expect("in time");
                    order.lock().push(number);
                    drop(permit);
                });
                while gate.state.lock().acquirers.len() <= number {
                    thread::yield_now();
                }
            }
            drop(held);
        });
        assert_eq!(*order.lock(), (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn closing_sends_everybody_away() {
        let gate = Gate::new(1);
        let far = Instant::now() + Duration::from_secs(20);
        let held = gate.enter(Lane::Acquire, far).expect("free");
        thread::scope(|scope| {
            let waiting = scope.spawn(|| gate.enter(Lane::Acquire, far).is_none());
            while gate.state.lock().acquirers.is_empty() {
                thread::yield_now();
            }
            gate.close();
            assert!(waiting.join().expect("no panic"));
        });
        drop(held);
        assert!(gate.enter(Lane::Release, far).is_none());
        assert_eq!(gate.state.lock().acquiring, 0);
    }

    #[test]
    fn giving_up_loses_no_place() {
        let gate = Gate::new(1);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for round in 0..500 {
                        let wait = Duration::from_micros(round % 50);
                        drop(gate.enter(Lane::Acquire, Instant::now() + wait));
                    }
                });
            }
        });
        assert!(gate.enter(Lane::Acquire, soon()).is_some());
    }
}
