//! What a contest is told by others: a hold that is handed over, a release, a message.

use std::time::{Duration, Instant};

use super::{Busy, Contest, Doubt, Granted, Wish};
use crate::{error::Error, protocol::Standing};

/// How long the first waits for others after a release that they were told of.
pub(in crate::engine) const COURTESY: Duration = Duration::from_millis(2);

/// Who had the lock so recently also lets others go before it when a third client released: where
/// two quick ones compete, slower ones would never be first.
const RECENTLY: Duration = Duration::from_millis(50);

/// How long our own message may take to come back to us.
const ECHO: Duration = Duration::from_millis(100);

impl Contest {
    /// The first, if it may be handed a hold: nothing of its own is under way. It stays claimed
    /// until [`grant`](Self::grant), [`let_go`](Self::let_go) or [`doubt`](Self::doubt).
    pub(crate) fn pick(&self) -> Option<(u64, Wish)> {
        let mut state = self.state.lock();
        let first = state.waiters.front_mut()?;
        if first.busy != Busy::Not || first.cancelled || first.granted.is_some() {
            return None;
        }
        if !first.clean || first.doubt.is_some() {
            return None;
        }
        first.busy = Busy::Claimed;
        Some((first.number, first.wish.clone()))
    }

    /// Gives the first its hold; gives it back when the first has gone meanwhile.
    pub(crate) fn grant(&self, number: u64, granted: Granted) -> Result<(), Granted> {
        let mut state = self.state.lock();
        state.ask_again = Instant::now() + state.longest_sleep();
        state.failing = None;
        let Some(place) = state.place(number) else {
            return Err(granted);
        };
        state.ask_again = state.ask_again.min(granted.0.deadline());
        state.waiters[place].granted = Some(granted);
        state.waiters[place].wake.notify_one();
        Ok(())
    }

    /// The claimed waiter got nothing; false when it has gone meanwhile.
    #[must_use]
    pub(crate) fn let_go(&self, number: u64) -> bool {
        let mut state = self.state.lock();
        let Some(place) = state.place(number) else {
            return false;
        };
        state.waiters[place].busy = Busy::Not;
        if state.news != state.asked_at {
            state.wake_first();
        }
        true
    }

    /// Nobody knows whether the claimed waiter got the lock: it has to ask. Gives the doubt back
    /// when the waiter has gone meanwhile.
    pub(crate) fn doubt(&self, number: u64, doubt: Doubt) -> Result<(), Doubt> {
        let mut state = self.state.lock();
        let Some(place) = state.place(number) else {
            return Err(doubt);
        };
        state.waiters[place].busy = Busy::Not;
        state.waiters[place].doubt = Some(doubt);
        state.news += 1;
        state.wake_first();
        Ok(())
    }

    /// Whether nobody outside this client waited when the lock was last released with a message.
    pub(in crate::engine) fn is_alone(&self) -> bool {
        let state = self.state.lock();
        state.released_at.is_some() && state.told <= u64::from(state.listens)
    }

    /// One of us is about to release with a message: until it is known who heard it, the first
    /// stays where it is, and our own copy of the message is not news.
    pub(crate) fn releasing(&self) {
        let mut state = self.state.lock();
        let echo = Instant::now() + ECHO;
        state.echo = state.listens.then_some(echo);
        state.courtesy = Some(echo);
    }

    /// It was released: the first may ask at once, or after those others who were told of it, if it
    /// `yields` also others of this client.
    pub(crate) fn released(&self, told: u64, yields: bool) {
        let mut state = self.state.lock();
        let ours = u64::from(state.listens);
        state.news += 1;
        state.took_echo = false;
        let now = Instant::now();
        state.told = told;
        state.released_at = Some(now);
        state.courtesy = (yields || told > ours).then(|| now + COURTESY);
        if told == 0 {
            // Nothing was sent, or it did not reach us: the next message is another's.
            state.echo = None;
        }
        state.wake_first();
    }

    /// It was handed over, or others still have it: no message was sent, and what was taken for its
    /// echo was another's.
    pub(crate) fn settled(&self) {
        let mut state = self.state.lock();
        state.courtesy = None;
        state.echo = None;
        if std::mem::take(&mut state.took_echo) {
            state.news += 1;
        }
        if state.news != state.asked_at {
            state.wake_first();
        }
    }

    /// A message came.
    pub(in crate::engine) fn heard(&self) {
        let mut state = self.state.lock();
        let echo = state.echo.take();
        if echo.is_some_and(|until| Instant::now() < until) {
            state.took_echo = true;
            return;
        }
        state.news += 1;
        let now = Instant::now();
        let yields = state.told > 2 && state.released_at.is_some_and(|at| now < at + RECENTLY);
        state.courtesy = (yields && state.courtesy.is_none()).then(|| now + COURTESY);
        state.wake_first();
    }

    /// It is listened to from now on.
    pub(in crate::engine) fn listening(&self) {
        // Never taken for an echo: the message of our release may be among those that were missed.
        self.state.lock().echo = None;
        self.news();
    }

    /// The server does not let us listen.
    pub(in crate::engine) fn forbidden(&self, error: Error) {
        let mut state = self.state.lock();
        state.refused = Some(error);
        for waiter in &state.waiters {
            waiter.wake.notify_one();
        }
    }

    /// Something happened that may have changed the answer.
    pub(crate) fn news(&self) {
        let mut state = self.state.lock();
        state.news += 1;
        state.wake_first();
    }

    /// The lock has left this client: who relied on being handed it has to ask, and to listen. Who
    /// stands in a queue and listens is told through it.
    pub(crate) fn left_the_client(&self) {
        let standing = self.standing();
        let mut state = self.state.lock();
        if standing != Standing::Queued || !state.listens {
            state.news += 1;
            state.wake_first();
        }
    }

    /// One of us holds the key, so asking is of no use before then.
    ///
    /// `seen` was taken before that was looked up: what happened since is news.
    pub(crate) fn held_until(&self, deadline: Instant, seen: u64) {
        let mut state = self.state.lock();
        state.asked_at = seen;
        state.ask_again = deadline.min(Instant::now() + state.longest_sleep());
    }

    pub(crate) fn seen(&self) -> u64 {
        self.state.lock().news
    }
}
