//! THE way in: every kind of lock is acquired here, at once or after a wait.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Core, LONGEST_LEASE, Shared,
    bid::Bid,
    contest::{Contest, Outcome, Turn, Wish},
    ear::{Bell, Ear},
    grip::Grip,
    hold::Hold,
    line::Asking,
    orphan::Orphan,
    registry::View,
    rest,
    terms::{Terms, Wait},
    thread,
};
use crate::{
    cancel::CancelToken,
    error::{Error, ErrorKind, Result},
    event::LostReason,
    protocol::{Acquired, Left, Standing, Subject},
    transport::{Budget, Earlier},
};

/// An attempt is given this much time even when the wait ends sooner: a short wait shall have an
/// answer, not a timeout.
const LEAST_ATTEMPT: Duration = Duration::from_millis(200);

/// Who acquires.
pub(super) struct Seeker {
    /// None: nobody but the guard itself.
    thread: Option<u64>,
    /// Its hold of another part that lets it have this one too.
    above: Option<Arc<Hold>>,
    /// How long it may be silent in a queue.
    patience: Duration,
}

/// What one attempt came to.
enum Attempt {
    Held(Grip),
    /// Others have it, for so long as `PTTL` says.
    Refused(i64),
}

impl Core {
    /// Acquires, or says `None` when others had it all the time.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        subject: &Arc<Subject>,
        terms: &Terms,
    ) -> Result<Option<Grip>> {
        self.check_open()?;
        terms.check().map_err(|error| error.about(&subject.key))?;
        if terms.cancel.as_ref().is_some_and(CancelToken::is_cancelled) {
            return Err(cancelled().about(&subject.key));
        }
        let thread = (!terms.owned).then(thread::current);
        let part = subject.kind.part();
        let view = self
            .registry
            .look(&subject.key, part, Some(thread::current()));
        if waits_for_itself(&view, terms) {
            return Err(would_deadlock().about(&subject.key));
        }
        let View {
            own,
            above,
            held_until,
            ..
        } = view;
        let own = own.filter(|_| !terms.owned);
        let seeker = Seeker {
            thread,
            above: above.filter(|_| !terms.owned),
            patience: self.patience(terms),
        };
        self.acquire_as(&seeker, subject, terms, own, held_until)
    }

    /// Acquires beneath a hold of another part that lets this one in, for the same thread or guard.
    pub(super) fn acquire_beneath(
        self: &Arc<Self>,
        above: &Arc<Hold>,
        subject: &Arc<Subject>,
        terms: &Terms,
    ) -> Result<Option<Grip>> {
        let seeker = Seeker {
            thread: above.thread,
            above: Some(Arc::clone(above)),
            patience: self.patience(terms),
        };
        let part = subject.kind.part();
        let own = above
            .thread
            .and_then(|thread| self.registry.find(&subject.key, part, thread));
        self.acquire_as(&seeker, subject, terms, own, None)
    }

    fn acquire_as(
        self: &Arc<Self>,
        seeker: &Seeker,
        subject: &Arc<Subject>,
        terms: &Terms,
        own: Option<Arc<Hold>>,
        held_here: Option<Instant>,
    ) -> Result<Option<Grip>> {
        // Who has it already need not stand in line.
        if terms.wait == Wait::Not || own.is_some() {
            let hold = self.candidate(subject, seeker, own);
            let mut bid = Bid::new(self, subject, hold, self.lease(terms), false);
            match self.attempt(&mut bid, seeker, terms, self.short_budget())? {
                Attempt::Held(grip) => return Ok(Some(grip)),
                Attempt::Refused(_) if terms.wait == Wait::Not => return Ok(None),
                // It was lost, and somebody else was quicker.
                Attempt::Refused(_) => {}
            }
        }
        let hold = self.candidate(subject, seeker, None);
        let bid = Bid::new(self, subject, hold, self.lease(terms), true);
        self.wait_in_line(bid, seeker, terms, held_here)
    }

    fn wait_in_line<'a>(
        self: &'a Arc<Self>,
        mut bid: Bid<'a>,
        seeker: &Seeker,
        terms: &Terms,
        held_here: Option<Instant>,
    ) -> Result<Option<Grip>> {
        let subject = bid.subject;
        let deadline = match terms.wait {
            Wait::Until(deadline) => Some(deadline),
            Wait::Not | Wait::ForEver => None,
        };
        let for_itself = subject.kind.standing() != Standing::OneForAll;
        let mut said = None;
        // Who comes while one asks is handed the lock by that one: two that take turns quickly would
        // else both be under way all the time, and nobody ever in line.
        let asking = match for_itself || held_here.is_some() {
            true => None,
            false => self.contests.ask_first(subject),
        };
        if let Some(until) = asking.as_ref().and_then(|asking| asking.rests) {
            // Who takes and releases in a loop would be there again before anybody else is awake.
            let until = deadline.map_or(until, |deadline| until.min(deadline));
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
        }
        if for_itself || asking.is_some() {
            match self.attempt(&mut bid, seeker, terms, self.budget(deadline)) {
                Ok(Attempt::Held(grip)) => {
                    asking.into_iter().for_each(Asking::settled);
                    return Ok(Some(grip));
                }
                Ok(Attempt::Refused(ttl)) => said = Some(Outcome::Refused(ttl)),
                Err(error) if is_passing(&error) => said = Some(Outcome::Failed(error)),
                Err(error) => return Err(error),
            }
        }
        let wish = Wish {
            hold: Arc::clone(&bid.hold),
            lease: self.lease(terms),
            keep: terms.keep(),
        };
        let ahead = terms.ahead || asking.is_some();
        let place = self.contests.join(subject, wish, bid.is_clean(), ahead);
        asking.into_iter().for_each(Asking::settled);
        let (contest, number) = bid.take_place(place);
        let _bell = terms.cancel.as_ref().map(|token| {
            token.attach(Bell::InLine {
                contest: Arc::downgrade(&contest),
                number,
            })
        });
        // Once more: a shutdown sends away only those who were in line then.
        self.check_open()?;
        if contest.is_first(number) {
            // Looked up after joining: who releases after this finds us in line.
            let seen = contest.seen();
            // Before the look: who asks is there as soon as it has the lock.
            let behind = self.is_behind_another(&bid, said.is_some());
            let view = self.registry.look(&subject.key, subject.kind.part(), None);
            // Nobody has it, or another client: then it comes to the thread before this one first. Not
            // for long, also where it is listened meanwhile: the end of a lease tells nobody.
            let soon = behind.then(|| Instant::now() + rest::longest(false));
            let until = view.held_until.or(soon);
            match (until, said) {
                // It will be handed over, or somebody says that it was not: no need to listen yet.
                (Some(end), None | Some(Outcome::Refused(_))) => contest.held_until(end, seen),
                (_, Some(said)) => self.note(&bid, &contest, number, said, deadline),
                (None, None) => {}
            }
        }
        let retry = self.settings.retry_timeout;
        loop {
            let error = match contest.turn(number, deadline, retry) {
                Turn::Granted(granted) => return Ok(Some(bid.grip(granted))),
                Turn::TimedOut(None) => return Ok(None),
                Turn::Cancelled => cancelled(),
                Turn::Refused(error) | Turn::TimedOut(Some(error)) => error,
                Turn::Ask(doubt) => {
                    bid.inherit(doubt);
                    match self.attempt(&mut bid, seeker, terms, self.budget(deadline)) {
                        Ok(Attempt::Held(grip)) => {
                            contest.asked(number, Outcome::Held, true);
                            return Ok(Some(grip));
                        }
                        Ok(Attempt::Refused(ttl)) => {
                            self.note(&bid, &contest, number, Outcome::Refused(ttl), deadline);
                        }
                        Err(error) if is_passing(&error) => {
                            self.note(&bid, &contest, number, Outcome::Failed(error), deadline);
                        }
                        Err(error) => return Err(error),
                    }
                    continue;
                }
            };
            return Err(error.about(&subject.key));
        }
    }

    /// Whether another thread of this client gets the lock, or knows more of it, before this one.
    fn is_behind_another(&self, bid: &Bid<'_>, has_asked: bool) -> bool {
        let key = &bid.subject.key;
        match bid.subject.kind.standing() {
            Standing::OneForAll => !has_asked && self.contests.is_asked_for(key),
            Standing::Queued | Standing::Together => self.contests.is_behind(key, &bid.hold),
        }
    }

    fn attempt(
        self: &Arc<Self>,
        bid: &mut Bid<'_>,
        seeker: &Seeker,
        terms: &Terms,
        budget: Budget,
    ) -> Result<Attempt> {
        loop {
            match bid.ask(budget, terms.cancel.as_ref())? {
                (Acquired::Held(lives), sent) => {
                    self.check_still_open()?;
                    let deadline = sent + lives.unwrap_or_else(|| self.lease(terms));
                    if let Some(grip) = self.granted(bid, terms, deadline) {
                        return Ok(Attempt::Held(grip));
                    }
                }
                (Acquired::Refused(ttl), _) => return Ok(Attempt::Refused(ttl)),
                // The old guards are told, and this acquisition begins a hold of its own.
                (Acquired::Lost, _) => self.lose(&bid.hold, LostReason::Gone),
            }
            bid.replace(self.candidate(bid.subject, seeker, None));
        }
    }
}

impl Core {
    /// Whether others of this client wait for what the thread or the guard that asks does not have.
    pub(super) fn has_line(&self, subject: &Subject, terms: &Terms) -> bool {
        if !self.contests.has_line(subject) {
            return false;
        }
        let thread = (!terms.owned).then(thread::current);
        let part = subject.kind.part();
        let own = self.registry.look(&subject.key, part, thread).own;
        own.is_none_or(|hold| !hold.is_held())
    }

    /// Whether the thread would wait for what it has itself.
    pub(super) fn is_in_its_own_way(&self, subject: &Subject, terms: &Terms) -> bool {
        let part = subject.kind.part();
        let thread = Some(thread::current());
        waits_for_itself(&self.registry.look(&subject.key, part, thread), terms)
    }

    /// A bid for one try, for the thread or the guard that asks.
    pub(super) fn bid_once<'a>(
        self: &'a Arc<Self>,
        subject: &'a Arc<Subject>,
        terms: &Terms,
        limit: Option<Duration>,
    ) -> (Bid<'a>, Seeker) {
        let thread = (!terms.owned).then(thread::current);
        let view = self
            .registry
            .look(&subject.key, subject.kind.part(), thread);
        let seeker = Seeker {
            thread,
            above: view.above,
            patience: Duration::ZERO,
        };
        let mut own = view.own;
        if limit.is_some()
            && let Some(over) = own.take_if(|hold| !hold.is_held())
        {
            // Not waited for: where Redis still has it, the next try is after its release.
            self.lose(&over, LostReason::Expired);
            let lease = self.settings.lock_watchdog_timeout;
            self.watchdog.adopt(Orphan::hold(&over, lease, Vec::new()));
        }
        let hold = self.candidate(subject, &seeker, own);
        let bid = Bid::new(self, subject, hold, self.lease(terms), false);
        (bid, seeker)
    }

    /// Tries once, on whatever thread.
    pub(super) fn try_once(
        self: &Arc<Self>,
        (mut bid, seeker): (Bid<'_>, Seeker),
        terms: &Terms,
        budget: Budget,
    ) -> Result<Option<Grip>> {
        self.check_open()?;
        match self.attempt(&mut bid, &seeker, terms, budget)? {
            Attempt::Held(grip) => Ok(Some(grip)),
            Attempt::Refused(_) => Ok(None),
        }
    }

    /// Makes a hold of what Redis has confirmed; `None` when it was over before the answer came.
    pub(super) fn granted(
        self: &Arc<Self>,
        bid: &mut Bid<'_>,
        terms: &Terms,
        deadline: Instant,
    ) -> Option<Grip> {
        let hold = Arc::clone(&bid.hold);
        let Some(share) = hold.grant(terms.keep(), deadline) else {
            self.bury(&hold);
            return None;
        };
        if bid.count == 1 {
            self.register(&hold);
        } else {
            self.expect(deadline);
        }
        Some(bid.grip((hold, share)))
    }
}

impl Shared {
    pub(super) fn register(&self, hold: &Arc<Hold>) {
        if self.registry.insert(Arc::clone(hold)) {
            self.watchdog.knock();
        }
        self.expect(hold.deadline());
    }

    fn expect(&self, deadline: Instant) {
        if let Some(herald) = &self.herald {
            herald.expect(deadline);
        }
    }

    /// Notes what an attempt came to; who was refused begins to listen.
    fn note(
        &self,
        bid: &Bid<'_>,
        contest: &Arc<Contest>,
        number: u64,
        said: Outcome,
        deadline: Option<Instant>,
    ) {
        let refused = matches!(said, Outcome::Refused(_));
        contest.asked(number, said, bid.is_clean());
        // Who has to leave does not wait for the notifier.
        if refused && !contest.is_over(number) && contest.should_listen() {
            let subject = bid.subject;
            let channel = subject.kind.channel(subject, &bid.hold.holder);
            let left = deadline.map_or(Duration::MAX, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            contest.listen(self.transport.listen(&channel, Ear::of(contest), left));
        }
    }

    /// What one attempt of a wait may cost.
    pub(super) fn budget(&self, deadline: Option<Instant>) -> Budget {
        let mut budget = self.short_budget();
        if let Some(deadline) = deadline {
            budget.deadline = budget
                .deadline
                .min(deadline.max(Instant::now() + LEAST_ATTEMPT));
        }
        budget
    }

    pub(super) fn lease(&self, terms: &Terms) -> Duration {
        let timeout = self.settings.lock_watchdog_timeout;
        let lease = terms
            .lease
            .unwrap_or_else(|| terms.max_hold.map_or(timeout, |most| most.min(timeout)));
        lease.max(Duration::from_millis(1))
    }

    /// How long the waiter may be silent in a queue before others pass it, as in Redisson: the time
    /// that it would wait, or what is set for those who wait for ever.
    fn patience(&self, terms: &Terms) -> Duration {
        match terms.wait {
            Wait::Not => Duration::ZERO,
            Wait::ForEver => self.settings.fair_lock_wait_timeout,
            Wait::Until(deadline) => deadline
                .saturating_duration_since(Instant::now())
                .min(LONGEST_LEASE),
        }
    }

    /// The hold to re-enter, or a new one.
    fn candidate(
        &self,
        subject: &Arc<Subject>,
        seeker: &Seeker,
        own: Option<Arc<Hold>>,
    ) -> Arc<Hold> {
        if let Some(above) = &seeker.above {
            // They share one TTL: what is taken beneath may keep this one in Redis past its time.
            self.doubt(above);
        }
        if let Some(hold) = own {
            if hold.is_held() {
                return hold;
            }
            self.bury(&hold);
        }
        let (subject, fresh) = (Arc::clone(subject), self.new_holder());
        Arc::new(match &seeker.above {
            Some(above) => above.beneath(subject, fresh, seeker.patience),
            None => Hold::new(subject, fresh, seeker.thread, seeker.patience),
        })
    }

    /// Ends a hold whose time is over by our clock but perhaps not by Redis'.
    ///
    /// Not left to the watchdog: its own thread is about to begin a new hold, which the old one
    /// would refuse.
    fn bury(&self, hold: &Arc<Hold>) {
        self.lose(hold, LostReason::Expired);
        let _ = self.send_release(&hold.subject, hold, Left::NOTHING, None, Earlier::Nothing);
    }
}

pub(super) fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "cancelled")
}

fn waits_for_itself(view: &View, terms: &Terms) -> bool {
    // Who has it enters again, whatever else it has.
    let enters = !terms.owned && view.own.as_ref().is_some_and(|hold| hold.is_held());
    let in_the_way = view.in_the_way.as_ref();
    terms.wait == Wait::ForEver && !enters && in_the_way.is_some_and(|hold| hold.is_unbounded())
}

pub(super) fn would_deadlock() -> Error {
    Error::new(
        ErrorKind::WouldDeadlock,
        "this thread reads, and would wait for itself to write: release the read guard first",
    )
}

/// Whether a wait goes on after it.
pub(super) fn is_passing(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Connection | ErrorKind::Timeout)
}
