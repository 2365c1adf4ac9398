//! Threads of one client that wait for one key: a line in which only the first asks Redis.
//!
//! A thread that stands in a queue in Redis is a line of its own.
//!
//! Pure bookkeeping under one mutex: who is first, whether it is time to ask, and the hold that a
//! releasing thread hands over. All I/O is done by the callers, between the steps.

mod told;

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

pub(super) use self::told::COURTESY;
use super::{
    hold::{Fate, Hold, Keep},
    rest::{self, Rest},
};
use crate::{
    error::{Error, ErrorKind},
    protocol::{Kind, Standing, Subject},
    sync::{Condvar, Mutex},
    transport::{Fence, Subscription},
};

/// How soon a waiter that somebody else is dealing with looks by itself.
const CLAIMED: Duration = Duration::from_millis(50);

/// An attempt without a reply for so long has failed as far as those behind it can tell.
const UNANSWERED: Duration = Duration::from_millis(200);

pub(crate) struct Contest {
    kind: &'static dyn Kind,
    state: Mutex<State>,
}

/// What a waiter asks for; who hands over acquires in its name.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) hold: Arc<Hold>,
    pub(crate) lease: Duration,
    pub(crate) keep: Keep,
}

/// A request of which nobody knows whether it ran or will: the connections on which it may.
pub(crate) type Doubt = Vec<Fence>;

/// A hold that was handed over.
pub(crate) type Granted = (Arc<Hold>, (u64, Fate));

/// What a waiter finds when it looks.
pub(crate) enum Turn {
    /// It was handed the hold.
    Granted(Granted),
    /// It is first, and it is time to ask Redis: [`Contest::asked`] must follow. Somebody may have
    /// tried to hand it the lock, and not know how that ended.
    Ask(Option<Doubt>),
    Cancelled,
    /// The server does not let us listen.
    Refused(Error),
    /// Its time is over, with the error of the last attempt if that failed.
    TimedOut(Option<Error>),
}

/// What Redis said to the first.
pub(crate) enum Outcome {
    /// It holds, and leaves the queue.
    Held,
    /// Others have it for so many milliseconds more, as `PTTL` counts.
    Refused(i64),
    Failed(Error),
}

struct State {
    waiters: VecDeque<Waiter>,
    next_number: u64,
    /// Counts whatever may have changed the answer since the last time we asked.
    news: u64,
    asked_at: u64,
    asking_since: Instant,
    ask_again: Instant,
    rest: Rest,
    failing: Option<(Instant, Error)>,
    refused: Option<Error>,
    listening: Option<Subscription>,
    listens: bool,
    /// Until when the first lets others go before it.
    courtesy: Option<Instant>,
    /// How many heard our last release, and when that was.
    told: u64,
    released_at: Option<Instant>,
    /// Until when the next message is taken for the echo of our own release.
    echo: Option<Instant>,
    /// Whether a message was taken for it.
    took_echo: bool,
    closed: bool,
}

struct Waiter {
    number: u64,
    wish: Wish,
    joined: Instant,
    busy: Busy,
    cancelled: bool,
    granted: Option<Granted>,
    /// A hand-over to it that was not answered.
    doubt: Option<Doubt>,
    /// Whether no request of its own may still be on its way.
    clean: bool,
    wake: Arc<Condvar>,
}

/// Whether a request in the name of a waiter is under way, and whose.
#[derive(Clone, Copy, PartialEq)]
enum Busy {
    Not,
    Asking,
    /// Somebody who releases is about to hand it the lock.
    Claimed,
}

impl Contest {
    pub(super) fn new(kind: &'static dyn Kind) -> Self {
        Self {
            kind,
            state: Mutex::new(State {
                waiters: VecDeque::new(),
                next_number: 0,
                news: 0,
                asked_at: 0,
                asking_since: Instant::now(),
                ask_again: Instant::now(),
                rest: Rest::default(),
                failing: None,
                refused: None,
                listening: None,
                listens: false,
                courtesy: None,
                told: 0,
                released_at: None,
                echo: None,
                took_echo: false,
                closed: false,
            }),
        }
    }

    pub(super) fn standing(&self) -> Standing {
        self.kind.standing()
    }

    /// Whether those who wait for this lock wait here.
    pub(super) fn is_of(&self, subject: &Subject) -> bool {
        self.kind.name() == subject.kind.name()
    }

    /// Whether more of those who wait for this lock may join.
    pub(super) fn is_shared_by(&self, subject: &Subject) -> bool {
        self.is_of(subject) && self.standing() == Standing::OneForAll
    }

    /// Waits for this waiter's turn, for its hold, or for the end of its patience.
    ///
    /// Without a deadline, patience ends when Redis failed for `retry` without a break: one clock
    /// for all who wait, so that a dead server does not fail them one after the other.
    pub(crate) fn turn(&self, number: u64, deadline: Option<Instant>, retry: Duration) -> Turn {
        let mut state = self.state.lock();
        loop {
            let now = Instant::now();
            let Some(place) = state.place(number) else {
                return Turn::Cancelled;
            };
            if let Some(granted) = state.waiters[place].granted.take() {
                state.waiters.remove(place);
                state.wake_first();
                return Turn::Granted(granted);
            }
            if state.closed {
                return Turn::Refused(Error::closed());
            }
            if state.waiters[place].cancelled {
                return Turn::Cancelled;
            }
            if let Some(error) = &state.refused {
                return Turn::Refused(error.clone());
            }
            let mut until = deadline;
            if deadline.is_none()
                && let Some((since, _)) = &state.failing
            {
                // Who came later has its own patience.
                until = state.waiters[place].joined.max(*since).checked_add(retry);
            }
            if until.is_some_and(|until| now >= until) {
                return Turn::TimedOut(state.failure(now));
            }
            if place == 0 {
                let alarm = match state.courtesy {
                    _ if state.waiters[0].busy != Busy::Not => now + CLAIMED,
                    Some(end) if now < end => end,
                    _ if state.news != state.asked_at || now >= state.ask_again => {
                        state.courtesy = None;
                        state.asked_at = state.news;
                        state.asking_since = now;
                        state.waiters[0].busy = Busy::Asking;
                        return Turn::Ask(state.waiters[0].doubt.take());
                    }
                    _ => state.ask_again,
                };
                until = Some(until.map_or(alarm, |until| until.min(alarm)));
            }
            let wake = Arc::clone(&state.waiters[place].wake);
            match until {
                Some(until) => {
                    wake.wait_until(&mut state, until);
                }
                None => wake.wait(&mut state),
            }
        }
    }

    /// Notes what Redis said to the first, and whether no request of it may still be on its way.
    pub(crate) fn asked(&self, number: u64, outcome: Outcome, clean: bool) {
        let standing = self.standing();
        let mut state = self.state.lock();
        let now = Instant::now();
        match outcome {
            Outcome::Held => {
                state.failing = None;
                state.rest = Rest::default();
                state.ask_again = now + state.longest_sleep();
                if let Some(place) = state.place(number) {
                    // The end of its lease tells nobody.
                    state.ask_again = state.ask_again.min(now + state.waiters[place].wish.lease);
                    state.waiters.remove(place);
                }
            }
            Outcome::Refused(ttl) => {
                state.failing = None;
                state.ask_again = now + state.rest.after_refusal(ttl);
            }
            Outcome::Failed(error) => {
                let began = state.asking_since;
                let since = state.failing.take().map_or(began, |(since, _)| since);
                state.failing = Some((since, error));
                state.ask_again = now + state.rest.after_failure(standing);
                // The others look at the clock of the failure.
                state.waiters.iter().for_each(|waiter| {
                    waiter.wake.notify_one();
                });
            }
        }
        if let Some(place) = state.place(number) {
            // Somebody may have claimed it since it joined, and decides then.
            if state.waiters[place].busy == Busy::Asking {
                state.waiters[place].busy = Busy::Not;
            }
            state.waiters[place].clean = clean;
        }
        state.wake_first();
    }

    pub(crate) fn cancel(&self, number: u64) {
        let mut state = self.state.lock();
        if let Some(place) = state.place(number) {
            state.waiters[place].cancelled = true;
            state.waiters[place].wake.notify_one();
        }
    }

    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        for waiter in &state.waiters {
            waiter.wake.notify_one();
        }
    }

    pub(crate) fn is_first(&self, number: u64) -> bool {
        self.state.lock().place(number) == Some(0)
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().waiters.len()
    }

    /// Whether this waiter is about to leave: cancelled, or sent away.
    pub(crate) fn is_over(&self, number: u64) -> bool {
        let state = self.state.lock();
        let place = state.place(number);
        state.closed || place.is_none_or(|place| state.waiters[place].cancelled)
    }

    /// Whether its first began before this one.
    pub(super) fn began_before(&self, hold: &Hold) -> bool {
        let state = self.state.lock();
        let first = state.waiters.front();
        first.is_some_and(|first| first.wish.hold.number() < hold.number())
    }

    /// Whether its first goes by this name in Redis.
    pub(super) fn waits_as(&self, holder: &str) -> bool {
        let state = self.state.lock();
        let first = state.waiters.front();
        first.is_some_and(|first| *first.wish.hold.holder == *holder)
    }

    /// Whether somebody has to begin to listen; says so once.
    pub(crate) fn should_listen(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().listens, true)
    }

    pub(crate) fn listen(&self, subscription: Subscription) {
        self.state.lock().listening = Some(subscription);
    }

    pub(super) fn join(&self, wish: Wish, clean: bool, ahead: bool) -> u64 {
        let mut state = self.state.lock();
        let number = state.next_number;
        state.next_number += 1;
        let place = match state.waiters.front() {
            // Whom somebody is dealing with stays where it is.
            Some(first) if ahead => usize::from(first.busy != Busy::Not || first.granted.is_some()),
            _ => state.waiters.len(),
        };
        state.waiters.insert(
            place,
            Waiter {
                number,
                wish,
                joined: Instant::now(),
                busy: Busy::Not,
                cancelled: false,
                granted: None,
                doubt: None,
                clean,
                wake: Arc::new(Condvar::new()),
            },
        );
        number
    }

    /// Takes a waiter out, whatever it was doing. What it was woken for goes to the next.
    pub(super) fn leave(&self, number: u64) -> Left {
        let mut state = self.state.lock();
        let mut left = Left::default();
        if let Some(place) = state.place(number) {
            let waiter = state.waiters.remove(place).expect("just found");
            left.claimed = waiter.busy == Busy::Claimed && waiter.granted.is_none();
            left.granted = waiter.granted;
            left.doubt = waiter.doubt;
            if place == 0 {
                state.news += 1;
                state.wake_first();
            }
        }
        if state.waiters.is_empty() {
            left.subscription = state.silence();
            left.last = true;
        }
        left
    }
}

/// What a waiter leaves behind, to be dealt with outside the mutex.
#[derive(Default)]
pub(crate) struct Left {
    pub(super) granted: Option<Granted>,
    pub(super) doubt: Option<Doubt>,
    /// Somebody is about to hand it the lock, will find it gone, and deal with what it left.
    pub(super) claimed: bool,
    pub(super) subscription: Option<Subscription>,
    pub(super) last: bool,
}

impl State {
    fn place(&self, number: u64) -> Option<usize> {
        self.waiters
            .iter()
            .position(|waiter| waiter.number == number)
    }

    /// Why nobody can say whether others have it: the last attempt failed, or is not answered.
    fn failure(&self, now: Instant) -> Option<Error> {
        if let Some((_, error)) = &self.failing {
            return Some(error.clone());
        }
        let first = self.waiters.front()?;
        let silent = first.busy == Busy::Asking && now >= self.asking_since + UNANSWERED;
        silent.then(|| Error::new(ErrorKind::Timeout, "no reply in time to the first in line"))
    }

    fn wake_first(&self) {
        if let Some(first) = self.waiters.front() {
            first.wake.notify_one();
        }
    }

    fn silence(&mut self) -> Option<Subscription> {
        self.listens = false;
        self.listening.take()
    }

    fn longest_sleep(&self) -> Duration {
        rest::longest(self.listens)
    }
}
