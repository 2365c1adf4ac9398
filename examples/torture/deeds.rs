//! What a thread does with a guard that it has, and the ways in which it lets go of it.

use std::{mem, panic, thread, time::Instant};

use lockson::Guard;

use crate::{
    actor::{Actor, Entry},
    clock::{nanos, now},
    history::event::Event,
    worker::LONGEST_LEASE,
};

impl Actor<'_> {
    pub(crate) fn work<G: Guard>(&mut self, entry: &Entry<'_>, guard: &G) {
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

    /// Asks the guard what it believes.
    pub(crate) fn look<G: Guard>(&self, call: u64, guard: &G) -> bool {
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

    /// Holds on until the guard says that it is over: others are to come in no sooner.
    pub(crate) fn outstay<G: Guard>(&mut self, entry: &Entry<'_>, guard: &G) {
        // Where another guard of the same hold is renewed, it is never over.
        let end = Instant::now() + LONGEST_LEASE * 2;
        while self.look(entry.call, guard) && Instant::now() < end {
            thread::sleep(self.dice.millis(1..8));
        }
    }

    /// Lets go of a guard in one of the ways there are.
    pub(crate) fn end<G: Guard>(&mut self, entry: &Entry<'_>, guard: G) {
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
