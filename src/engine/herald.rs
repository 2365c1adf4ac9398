//! The thread that runs the user's event handler, and nothing that could be delayed by it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, Sender, bounded, select};

use super::Shared;
use crate::event::Event;

/// More events than these are dropped and counted: a handler that hangs must not eat the memory.
const QUEUE: usize = 1024;

pub(crate) struct Herald {
    events: (Sender<Event>, Receiver<Event>),
    wake: (Sender<()>, Receiver<()>),
    dropped: AtomicU64,
    stopped: AtomicBool,
    start: Instant,
    /// When the thread looks for expired holds next, in microseconds since the start.
    alarm: AtomicU64,
}

impl Herald {
    pub(crate) fn new() -> Self {
        Self {
            events: bounded(QUEUE),
            wake: bounded(1),
            dropped: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            start: Instant::now(),
            alarm: AtomicU64::new(u64::MAX),
        }
    }

    pub(crate) fn raise(&self, event: Event) {
        if self.events.0.try_send(event).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Makes sure that somebody looks when this hold's time is over.
    pub(crate) fn expect(&self, deadline: Instant) {
        if self.micros(deadline) < self.alarm.load(Ordering::SeqCst) {
            let _ = self.wake.0.try_send(());
        }
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        let _ = self.wake.0.try_send(());
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn micros(&self, instant: Instant) -> u64 {
        let micros = instant.saturating_duration_since(self.start).as_micros();
        u64::try_from(micros).unwrap_or(u64::MAX)
    }
}

pub(crate) fn run(shared: &Shared) {
    let (Some(herald), Some(handler)) = (&shared.herald, &shared.settings.on_event) else {
        return;
    };
    let tell = |event: Event| {
        if catch_unwind(AssertUnwindSafe(|| handler(&event))).is_err() {
            log::error!("the event handler panicked at {event:?}");
        }
    };
    let mut alarm = set_alarm(shared, herald);
    loop {
        let pause = alarm.saturating_duration_since(Instant::now());
        select! {
            recv(herald.events.1) -> event => event.into_iter().for_each(&tell),
            recv(herald.wake.1) -> _ => {
                if herald.stopped.load(Ordering::Acquire) {
                    break;
                }
                alarm = set_alarm(shared, herald);
            }
            default(pause) => {
                shared.lose_expired();
                alarm = set_alarm(shared, herald);
            }
        }
    }
    herald.events.1.try_iter().for_each(tell);
}

fn set_alarm(shared: &Shared, herald: &Herald) -> Instant {
    // Far away before looking: a hold that is registered meanwhile knocks in any case.
    herald.alarm.store(u64::MAX, Ordering::SeqCst);
    let far = Instant::now() + Duration::from_secs(3600);
    let alarm = shared
        .registry
        .earliest_deadline()
        .map_or(far, |next| next.min(far));
    herald.alarm.store(herald.micros(alarm), Ordering::SeqCst);
    alarm
}
