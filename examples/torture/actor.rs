//! A thread of a worker: takes locks of all kinds, works under them, and lets go of them in every way.

use std::{
    mem, panic,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use lockson::{AnyGuard, Error, Guard};

use crate::{
    clock::{nanos, now},
    dice::Dice,
    history::event::{Event, FOR_EVER, Kind, Names},
    register::Register,
    worker::{Handed, LONGEST_LEASE, World},
};

pub(crate) struct Actor<'a> {
    world: &'a World,
    dice: Dice,
    register: Register,
}

/// What a call asks for.
struct Plan {
    kind: Kind,
    names: Vec<String>,
    lease: Option<Duration>,
    /// A bound for a hold that is renewed.
    most: Option<Duration>,
    wait: Option<Duration>,
    cancelled_after: Option<Duration>,
}

/// A call that was answered with a guard.
struct Entry<'p> {
    call: u64,
    session: u64,
    plan: &'p Plan,
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
        let plan = self.plan();
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

    fn plan(&mut self) -> Plan {
        let dice = &mut self.dice;
        let kind = dice.weighed(&self.world.kinds);
        let lease = dice.percent(50).then(|| short_or_long(dice));
        let most = (lease.is_none() && dice.percent(30)).then(|| dice.millis(100..600));
        let names = match kind {
            Kind::Fair => vec![self.world.fair_name()],
            // Some are mostly free: what comes late can do its worst there.
            Kind::Lock if dice.percent(40) => vec![(*dice.pick(&QUIET)).to_owned()],
            Kind::Lock => vec![(*dice.pick(&["a", "b"])).to_owned()],
            Kind::Multi if dice.percent(50) => vec!["a".to_owned(), "b".to_owned()],
            Kind::Multi => vec!["b".to_owned(), "a".to_owned()],
            Kind::Read | Kind::Write => vec!["page".to_owned()],
            Kind::Red => vec!["red".to_owned()],
        };
        let mut plan = Plan {
            kind,
            names,
            lease,
            most,
            wait: None,
            cancelled_after: None,
        };
        match dice.below(100) {
            0..15 => plan.wait = Some(Duration::ZERO),
            15..45 => plan.wait = Some(dice.millis(1..2000)),
            // Behind somebody dead a fair waiter would stand for minutes.
            45..85 if kind == Kind::Fair => plan.cancelled_after = Some(QUEUE_PATIENCE),
            45..85 => {}
            _ => plan.cancelled_after = Some(dice.millis(1..1500)),
        }
        plan
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

    /// Asks the guard what it believes.
    fn look<G: Guard>(&self, call: u64, guard: &G) -> bool {
        let at = now();
        let left = nanos(guard.remaining());
        let held = guard.is_held() && left > 0;
        let event = if held {
            Event::Seen { call, left }
        } else {
            let reason = guard.lost().reason();
            let why = reason.map_or_else(|| "Expired".to_owned(), |why| format!("{why:?}"));
            Event::Lost { call, why }
        };
        // A loss is known from the answer on, a hold from before the question.
        self.world.pen.note_at(if held { at } else { now() }, event);
        held
    }

    fn work<G: Guard>(&mut self, entry: &Entry<'_>, guard: &G) {
        for _ in 0..self.dice.within(1..4) {
            match self.dice.below(100) {
                0..70 => self.count(entry, guard),
                70..84 => thread::sleep(self.dice.millis(0..15)),
                84..92 => {
                    let _ = guard.verify();
                }
                92..98 => {
                    let _ = guard.extend(self.dice.millis(50..LONGEST_LEASE.as_millis() as u64));
                }
                // Longer than some leases.
                _ => thread::sleep(self.dice.millis(50..700)),
            }
            if !self.look(entry.call, guard) {
                return;
            }
        }
    }

    /// Reads a counter, and writes it if the lock is for that.
    fn count<G: Guard>(&mut self, entry: &Entry<'_>, guard: &G) {
        let (call, pen) = (entry.call, &self.world.pen);
        for name in &entry.plan.names {
            for again in [false, true] {
                let began = now();
                let Some(value) = self.register.read(name) else {
                    return;
                };
                pen.note(Event::Read {
                    call,
                    name: name.clone(),
                    began,
                    value,
                });
                if !again {
                    thread::sleep(self.dice.millis(0..4));
                }
                if entry.plan.kind.is_exclusive() {
                    break;
                }
            }
            if !self.look(call, guard) {
                return;
            }
            if entry.plan.kind.is_exclusive() {
                let (name, value) = (name.clone(), self.world.value(entry.session));
                pen.note(Event::Writing {
                    call,
                    name: name.clone(),
                    value: value.clone(),
                });
                let known = self.register.write(&name, &value);
                pen.note(Event::Wrote {
                    call,
                    name,
                    value,
                    known,
                });
            }
        }
    }

    /// Takes the same lock once more, and lets go of both in either order.
    fn nest(&mut self, outer: &Entry<'_>, guard: AnyGuard) {
        let lease = self.dice.percent(50).then(|| short_or_long(&mut self.dice));
        let plan = Plan {
            kind: outer.plan.kind,
            names: outer.plan.names.clone(),
            lease,
            most: None,
            wait: Some(Duration::from_millis(500)),
            cancelled_after: None,
        };
        self.once_more(outer, guard, &plan);
    }

    fn read_beneath(&mut self, outer: &Entry<'_>, guard: AnyGuard) {
        let plan = Plan {
            kind: Kind::Read,
            names: outer.plan.names.clone(),
            lease: None,
            most: None,
            wait: Some(Duration::from_millis(500)),
            cancelled_after: None,
        };
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

    fn hand(&mut self, entry: &Entry<'_>, guard: lockson::AnyOwnedGuard) {
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

    /// Holds on until the guard says that it is over: others are to come in no sooner.
    fn outstay<G: Guard>(&mut self, entry: &Entry<'_>, guard: &G) {
        // Where another guard of the same hold is renewed, it is never over.
        let end = Instant::now() + LONGEST_LEASE * 2;
        while self.look(entry.call, guard) && Instant::now() < end {
            thread::sleep(self.dice.millis(1..8));
        }
    }

    /// Lets go of a guard in one of the ways there are.
    fn end<G: Guard>(&mut self, entry: &Entry<'_>, guard: G) {
        let ends_by_itself = entry.plan.lease.is_some() || entry.plan.most.is_some();
        if ends_by_itself && self.dice.percent(8) {
            self.outstay(entry, &guard);
        }
        let (call, pen) = (entry.call, &self.world.pen);
        let releasing = |how: &str| {
            let how = how.to_owned();
            pen.note(Event::Releasing { call, how });
        };
        let dropped = || {
            let result = "dropped".to_owned();
            pen.note(Event::Released { call, result });
        };
        match self.dice.below(100) {
            0..60 => self.release(call, guard),
            60..80 => {
                releasing("drop");
                drop(guard);
                dropped();
            }
            80..97 => {
                releasing("panic");
                // A drop while the thread unwinds; the hook is not called, so the process lives.
                let fall = panic::AssertUnwindSafe(move || {
                    let _guard = guard;
                    panic::resume_unwind(Box::new(()));
                });
                let _ = panic::catch_unwind(fall);
                dropped();
            }
            _ if ends_by_itself => {
                releasing("forget");
                mem::forget(guard);
            }
            _ => self.release(call, guard),
        }
    }

    fn release<G: Guard>(&self, call: u64, guard: G) {
        let how = "unlock".to_owned();
        self.world.pen.note(Event::Releasing { call, how });
        let result = match guard.unlock() {
            Ok(()) => "ok".to_owned(),
            Err(error) => format!("{:?}", error.kind()),
        };
        self.world.pen.note(Event::Released { call, result });
    }
}

/// A lease: many are over soon, so that the dead do not keep others out for most of the time.
fn short_or_long(dice: &mut Dice) -> Duration {
    let longest = LONGEST_LEASE.as_millis() as u64;
    let longest = if dice.percent(70) {
        longest / 4
    } else {
        longest
    };
    dice.millis(40..longest)
}

/// Names that few take.
pub(crate) const QUIET: [&str; 4] = ["c", "d", "e", "f"];

/// How long somebody stands in a queue at most.
pub(crate) const QUEUE_PATIENCE: Duration = Duration::from_secs(12);
