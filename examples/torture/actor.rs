//! A thread of a worker: takes locks of all kinds, works under them, and lets go of them in every way.

use std::{sync::atomic::Ordering, thread, time::Duration};

use lockson::{AnyGuard, AnyOwnedGuard, Error, Guard};

use crate::{
    clock::{nanos, now},
    dice::Dice,
    history::event::{Event, FOR_EVER, Kind, Names},
    plan::{Plan, short_or_long},
    register::Register,
    worker::{Handed, World},
};

/// A thread, with its own chance and its own connection to the counters.
pub(crate) struct Actor<'a> {
    pub(crate) world: &'a World,
    pub(crate) dice: Dice,
    pub(crate) register: Register,
}

/// A call that was answered with a guard.
pub(crate) struct Entry<'p> {
    pub(crate) call: u64,
    pub(crate) session: u64,
    pub(crate) plan: &'p Plan,
}

impl<'a> Actor<'a> {
    pub(crate) fn new(world: &'a World, seed: u64, number: u64) -> Self {
        Self {
            world,
            dice: Dice::new(seed, number),
            register: Register::new(&world.counters),
        }
    }

    /// Takes locks until the end.
    pub(crate) fn act(&mut self) {
        while !self.world.is_stopping() {
            self.session();
            thread::sleep(self.dice.millis(0..20));
        }
    }

    /// Says that this thread waits for nothing any more.
    pub(crate) fn go(self) {
        self.world.acting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Goes on with guards that other threads took. It never waits for a lock: one that does might wait
    /// for what it is about to be given.
    pub(crate) fn keep(&mut self) {
        let acting = &self.world.acting;
        while acting.load(Ordering::SeqCst) > 0 || !self.world.taken.is_empty() {
            if let Ok(handed) = self.world.taken.recv_timeout(Duration::from_millis(50)) {
                self.keep_on(handed);
            }
        }
    }

    fn session(&mut self) {
        let plan = Plan::of(&mut self.dice, self.world);
        let call = self.world.next_call();
        let lock = self.world.lock(plan.kind, &plan.names);
        self.announce(call, call, &plan);
        let mut options = lock.options();
        if let Some(lease) = plan.lease {
            options = options.lease(lease);
        }
        if let Some(most) = plan.most {
            options = options.max_hold(most);
        }
        if let Some(wait) = plan.wait {
            options = options.wait(wait);
        }
        let token = plan.cancelled_after.map(|after| self.world.token(after));
        if let Some(token) = &token {
            options = options.cancel(token);
        }
        let entry = Entry {
            call,
            session: call,
            plan: &plan,
        };
        if self.dice.percent(30) {
            if let Some(guard) = self.noted(call, options.acquire_owned()) {
                self.work(&entry, &guard);
                if self.dice.percent(60) {
                    self.hand(&entry, guard);
                } else {
                    self.end(&entry, guard);
                }
            }
        } else if let Some(guard) = self.noted(call, options.acquire()) {
            self.work(&entry, &guard);
            if self.dice.percent(25) {
                self.nest(&entry, guard);
            } else if plan.kind == Kind::Write && self.dice.percent(15) {
                self.read_beneath(&entry, guard);
            } else {
                self.end(&entry, guard);
            }
        }
    }

    fn announce(&self, call: u64, session: u64, plan: &Plan) {
        self.world.pen.note(Event::Wait {
            call,
            session,
            kind: plan.kind,
            names: Names(plan.names.clone()),
            wait: plan.wait.map_or(FOR_EVER, nanos),
            lease: plan.lease.or(plan.most).map_or(0, nanos),
        });
    }

    fn noted<G: Guard>(&self, call: u64, answer: Result<Option<G>, Error>) -> Option<G> {
        let at = now();
        let why = match answer {
            Ok(Some(guard)) => {
                let left = nanos(guard.remaining());
                let holder = guard.holder().to_owned();
                let entered = Event::Entered { call, holder, left };
                self.world.pen.note_at(at, entered);
                return Some(guard);
            }
            Ok(None) => "none".to_owned(),
            Err(error) => format!("{:?}", error.kind()),
        };
        self.world.pen.note_at(at, Event::Refused { call, why });
        None
    }

    /// Takes the same lock once more, and lets go of both in either order.
    fn nest(&mut self, outer: &Entry<'_>, guard: AnyGuard) {
        let lease = self.dice.percent(50).then(|| short_or_long(&mut self.dice));
        let plan = Plan::beneath(outer.plan, outer.plan.kind, lease);
        self.once_more(outer, guard, &plan);
    }

    fn read_beneath(&mut self, outer: &Entry<'_>, guard: AnyGuard) {
        let plan = Plan::beneath(outer.plan, Kind::Read, None);
        self.once_more(outer, guard, &plan);
    }

    fn once_more(&mut self, outer: &Entry<'_>, guard: AnyGuard, plan: &Plan) {
        let call = self.world.next_call();
        let lock = self.world.lock(plan.kind, &plan.names);
        self.announce(call, outer.session, plan);
        let mut options = lock.options().wait(plan.wait.unwrap_or_default());
        if let Some(lease) = plan.lease {
            options = options.lease(lease);
        }
        let inner = Entry {
            call,
            session: outer.session,
            plan,
        };
        let Some(nested) = self.noted(call, options.acquire()) else {
            return self.end(outer, guard);
        };
        self.look(outer.call, &guard);
        self.work(&inner, &nested);
        let (first, second) = if self.dice.percent(50) {
            ((&inner, nested), (outer, guard))
        } else {
            ((outer, guard), (&inner, nested))
        };
        self.end(first.0, first.1);
        if self.look(second.0.call, &second.1) {
            self.work(second.0, &second.1);
        }
        if second.0.plan.lease.is_some() && self.dice.percent(30) {
            self.outstay(second.0, &second.1);
        }
        self.end(second.0, second.1);
    }

    fn hand(&mut self, entry: &Entry<'_>, guard: AnyOwnedGuard) {
        let handed = Handed {
            call: entry.call,
            kind: entry.plan.kind,
            names: entry.plan.names.clone(),
            guard,
        };
        let _ = self.world.given.send(handed);
    }

    /// Goes on with what another thread began.
    fn keep_on(&mut self, handed: Handed) {
        let plan = Plan {
            kind: handed.kind,
            names: handed.names,
            lease: None,
            most: None,
            wait: None,
            cancelled_after: None,
        };
        let entry = Entry {
            call: handed.call,
            session: handed.call,
            plan: &plan,
        };
        if self.look(entry.call, &handed.guard) {
            self.work(&entry, &handed.guard);
        }
        self.end(&entry, handed.guard);
    }
}
