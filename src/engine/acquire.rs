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
    hold::{Hold, Keep},
    thread,
};
use crate::{
    cancel::CancelToken,
    error::{Error, ErrorKind, Result},
    event::LostReason,
    protocol::{Acquired, Standing, Subject},
    transport::Budget,
};

/// An attempt is given this much time even when the wait ends sooner: a short wait shall have an
/// answer, not a timeout.
const LEAST_ATTEMPT: Duration = Duration::from_millis(200);

/// What a caller asks for.
///
/// Public because the sealed half of the public trait hands it on; nobody outside can name it.
#[allow(unnameable_types, unreachable_pub)]
#[derive(Clone, Debug)]
pub struct Terms {
    pub(crate) wait: Wait,
    /// None: the watchdog keeps it.
    pub(crate) lease: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    /// Whether the hold belongs to its guard rather than to the thread.
    pub(crate) owned: bool,
    pub(crate) cancel: Option<CancelToken>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Wait {
    /// One try.
    Not,
    ForEver,
    Until(Instant),
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
        check(terms).map_err(|error| error.about(&subject.key))?;
        if terms.cancel.as_ref().is_some_and(CancelToken::is_cancelled) {
            return Err(cancelled().about(&subject.key));
        }
        let thread = (!terms.owned).then(thread::current);
        let (own, others) = self.registry.look(&subject.key, thread);
        let patience = self.patience(terms);
        // Who has it already need not stand in line.
        if terms.wait == Wait::Not || own.is_some() {
            let hold = self.candidate(subject, thread, own, patience);
            let mut bid = Bid::new(self, subject, hold, self.lease(terms), false);
            match self.attempt(&mut bid, thread, terms, self.short_budget())? {
                Attempt::Held(grip) => return Ok(Some(grip)),
                Attempt::Refused(_) if terms.wait == Wait::Not => return Ok(None),
                // It was lost, and somebody else was quicker.
                Attempt::Refused(_) => {}
            }
        }
        let hold = self.candidate(subject, thread, None, patience);
        let bid = Bid::new(self, subject, hold, self.lease(terms), true);
        self.wait_in_line(bid, thread, terms, others)
    }

    fn wait_in_line<'a>(
        self: &'a Arc<Self>,
        mut bid: Bid<'a>,
        thread: Option<u64>,
        terms: &Terms,
        held_here: Option<Instant>,
    ) -> Result<Option<Grip>> {
        let subject = bid.subject;
        let deadline = match terms.wait {
            Wait::Until(deadline) => Some(deadline),
            Wait::Not | Wait::ForEver => None,
        };
        let is_queued = subject.kind.standing() == Standing::Queued;
        let mut said = None;
        if is_queued || (held_here.is_none() && !self.contests.has_line(subject)) {
            match self.attempt(&mut bid, thread, terms, self.budget(deadline)) {
                Ok(Attempt::Held(grip)) => return Ok(Some(grip)),
                Ok(Attempt::Refused(ttl)) => said = Some(Outcome::Refused(ttl)),
                Err(error) if is_passing(&error) => said = Some(Outcome::Failed(error)),
                Err(error) => return Err(error),
            }
        }
        let wish = Wish {
            hold: Arc::clone(&bid.hold),
            lease: self.lease(terms),
            keep: keep(terms),
        };
        let place = self.contests.join(subject, wish, bid.is_clean());
        let (contest, number) = bid.take_place(place);
        let _bell = terms.cancel.as_ref().map(|token| {
            token.attach(Bell {
                contest: Arc::downgrade(&contest),
                number,
            })
        });
        // Once more: a shutdown sends away only those who were in line then.
        self.check_open()?;
        if contest.is_first(number) {
            // Looked up after joining: who releases after this finds us in line.
            let seen = contest.seen();
            let (_, held_here) = self.registry.look(&subject.key, None);
            match (held_here, said) {
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
                    match self.attempt(&mut bid, thread, terms, self.budget(deadline)) {
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

    fn attempt(
        self: &Arc<Self>,
        bid: &mut Bid<'_>,
        thread: Option<u64>,
        terms: &Terms,
        budget: Budget,
    ) -> Result<Attempt> {
        loop {
            match bid.ask(budget, terms.cancel.as_ref())? {
                (Acquired::Held, sent) => {
                    self.check_open()?;
                    let deadline = sent + self.lease(terms);
                    let hold = Arc::clone(&bid.hold);
                    if let Some(share) = hold.grant(keep(terms), deadline) {
                        if bid.count == 1 {
                            self.register(&hold);
                        } else {
                            self.expect(deadline);
                        }
                        return Ok(Attempt::Held(bid.grip((hold, share))));
                    }
                    self.bury(&hold);
                }
                (Acquired::Refused(ttl), _) => return Ok(Attempt::Refused(ttl)),
                // The old guards are told, and this acquisition begins a hold of its own.
                (Acquired::Lost, _) => self.lose(&bid.hold, LostReason::Gone),
            }
            bid.replace(self.candidate(bid.subject, thread, None, bid.hold.patience));
        }
    }
}

impl Shared {
    pub(super) fn register(&self, hold: &Arc<Hold>) {
        self.registry.insert(Arc::clone(hold));
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
    fn budget(&self, deadline: Option<Instant>) -> Budget {
        let mut budget = self.short_budget();
        if let Some(deadline) = deadline {
            budget.deadline = budget
                .deadline
                .min(deadline.max(Instant::now() + LEAST_ATTEMPT));
        }
        budget
    }

    fn lease(&self, terms: &Terms) -> Duration {
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
        thread: Option<u64>,
        own: Option<Arc<Hold>>,
        patience: Duration,
    ) -> Arc<Hold> {
        if let Some(hold) = own {
            if hold.is_held() {
                return hold;
            }
            self.bury(&hold);
        }
        let subject = Arc::clone(subject);
        Arc::new(Hold::new(subject, self.new_holder(), thread, patience))
    }

    /// Ends a hold whose time is over by our clock but perhaps not by Redis'.
    ///
    /// Not left to the watchdog: its own thread is about to begin a new hold, which the old one
    /// would refuse.
    fn bury(&self, hold: &Arc<Hold>) {
        self.lose(hold, LostReason::Expired);
        let _ = self.send_release(&hold.subject, hold, 0);
    }
}

fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "cancelled")
}

fn check(terms: &Terms) -> Result<()> {
    if let Some(lease) = terms.lease {
        check_lease(lease)?;
        if terms.max_hold.is_some() {
            return Err(Error::config(
                "max_hold is for holds that are renewed: a lease ends by itself",
            ));
        }
    }
    if terms.max_hold.is_some_and(|most| most.is_zero()) {
        return Err(Error::config("max_hold must be longer than zero"));
    }
    Ok(())
}

fn keep(terms: &Terms) -> Keep {
    match terms.lease {
        Some(_) => Keep::Leased,
        None => Keep::Renewed(terms.max_hold),
    }
}

/// Whether a wait goes on after it.
fn is_passing(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Connection | ErrorKind::Timeout)
}

pub(super) fn check_lease(lease: Duration) -> Result<()> {
    if lease.is_zero() {
        return Err(Error::config("a lease must be longer than zero"));
    }
    if lease > LONGEST_LEASE {
        return Err(Error::config("a lease must not be longer than ten years"));
    }
    Ok(())
}
