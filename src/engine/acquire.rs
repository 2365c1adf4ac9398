//! THE way in: every kind of lock is acquired here, at once or after a wait.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Core, LONGEST_LEASE, Shared,
    contest::{Bell, Contest, Ear, Granted, Outcome, Turn, Wish},
    grip::Grip,
    hold::{Hold, Keep},
    orphan::Orphan,
    thread,
};
use crate::{
    cancel::CancelToken,
    error::{Error, ErrorKind, Result},
    event::LostReason,
    protocol::{Acquired, Claim, Subject},
    transport::{Budget, Lane},
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
        let cancelled = || Error::new(ErrorKind::Cancelled, "cancelled").about(&subject.key);
        if terms.cancel.as_ref().is_some_and(CancelToken::is_cancelled) {
            return Err(cancelled());
        }
        let thread = (!terms.owned).then(thread::current);
        // Who has it already need not stand in line.
        let again = thread.and_then(|thread| self.registry.find(&subject.key, thread));
        if terms.wait == Wait::Not || again.is_some() {
            let first = self.attempt(subject, thread, terms, self.short_budget())?;
            match first {
                Attempt::Held(grip) => return Ok(Some(grip)),
                Attempt::Refused(_) if terms.wait == Wait::Not => return Ok(None),
                // It was lost, and somebody else was quicker.
                Attempt::Refused(_) => {}
            }
        }
        self.wait_in_line(subject, thread, terms)
    }

    fn wait_in_line(
        self: &Arc<Self>,
        subject: &Arc<Subject>,
        thread: Option<u64>,
        terms: &Terms,
    ) -> Result<Option<Grip>> {
        let about = |error: Error| error.about(&subject.key);
        let deadline = match terms.wait {
            Wait::Until(deadline) => Some(deadline),
            Wait::Not | Wait::ForEver => None,
        };
        let mut said = None;
        if self.contests.get(&subject.key).is_none() && self.held_here(subject).is_none() {
            match self.attempt(subject, thread, terms, self.budget(deadline)) {
                Ok(Attempt::Held(grip)) => return Ok(Some(grip)),
                Ok(Attempt::Refused(ttl)) => said = Some(Outcome::Refused(ttl)),
                Err(error) if is_passing(&error) => said = Some(Outcome::Failed(error)),
                Err(error) => return Err(error),
            }
        }
        let wish = Wish {
            thread,
            lease: self.lease(terms),
            keep: keep(terms),
        };
        let place = self.contests.join(&subject.key, wish);
        let line = Line {
            core: self,
            subject,
            place: &place,
        };
        let _bell = terms.cancel.as_ref().map(|token| {
            token.attach(Bell {
                contest: Arc::downgrade(&place.contest),
                number: place.number,
            })
        });
        // Once more: a shutdown sends away only those who were in line then.
        self.check_open()?;
        if place.is_first() {
            // Looked up after joining: who releases after this finds us in line.
            let seen = place.contest.seen();
            if let Some(end) = self.held_here(subject) {
                place.contest.held_until(end, seen);
            } else if let Some(said) = said {
                let refused = matches!(said, Outcome::Refused(_));
                place.contest.asked(place.number, said);
                if refused {
                    self.listen(subject, &place.contest, deadline);
                }
            }
        }
        let retry = self.settings.retry_timeout;
        loop {
            match place.contest.turn(place.number, deadline, retry) {
                Turn::Granted(granted) => return Ok(Some(self.grip(subject, granted))),
                Turn::Cancelled => {
                    return Err(about(Error::new(ErrorKind::Cancelled, "cancelled")));
                }
                Turn::Refused(error) => return Err(about(error)),
                Turn::TimedOut(None) => return Ok(None),
                Turn::TimedOut(Some(error)) => return Err(about(error)),
                Turn::Ask => match self.attempt(subject, thread, terms, self.budget(deadline)) {
                    Ok(Attempt::Held(grip)) => {
                        line.place.contest.asked(place.number, Outcome::Held);
                        return Ok(Some(grip));
                    }
                    Ok(Attempt::Refused(ttl)) => {
                        place.contest.asked(place.number, Outcome::Refused(ttl));
                        self.listen(subject, &place.contest, deadline);
                    }
                    Err(error) if is_passing(&error) => {
                        place.contest.asked(place.number, Outcome::Failed(error));
                    }
                    Err(error) => return Err(error),
                },
            }
        }
    }

    fn grip(self: &Arc<Self>, subject: &Subject, (hold, share): Granted) -> Grip {
        Grip::new(Arc::clone(self), &subject.name, hold, share)
    }

    fn attempt(
        self: &Arc<Self>,
        subject: &Arc<Subject>,
        thread: Option<u64>,
        terms: &Terms,
        budget: Budget,
    ) -> Result<Attempt> {
        let lease = self.lease(terms);
        loop {
            let candidate = self.candidate(subject, thread);
            match self.try_acquire(&candidate, lease, budget)? {
                (Acquired::Held, sent) => {
                    self.check_open()?;
                    let deadline = sent + lease;
                    let Some(share) = candidate.hold.grant(keep(terms), deadline) else {
                        self.bury(&candidate.hold);
                        continue;
                    };
                    if candidate.count == 1 {
                        self.register(&candidate.hold);
                    } else {
                        self.expect(deadline);
                    }
                    return Ok(Attempt::Held(self.grip(subject, (candidate.hold, share))));
                }
                (Acquired::Refused(ttl), _) => return Ok(Attempt::Refused(ttl)),
                // The old guards are told, and this acquisition begins a hold of its own.
                (Acquired::Lost, _) => self.lose(&candidate.hold, LostReason::Gone),
            }
        }
    }
}

/// Leaves the line on every way out, a panic included.
struct Line<'a> {
    core: &'a Arc<Core>,
    subject: &'a Subject,
    place: &'a super::line::Place<'a>,
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if let Some(granted) = self.place.leave() {
            // Handed over in the very moment in which it gave up: on to the next.
            drop(self.core.grip(self.subject, granted));
        }
    }
}

/// The hold that one attempt would make or re-enter, and the count it would have.
struct Candidate {
    hold: Arc<Hold>,
    count: u32,
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

    /// Until when a thread of this client holds the key, if one does.
    fn held_here(&self, subject: &Subject) -> Option<Instant> {
        let holds = self.registry.of_key(&subject.key);
        let live = holds.iter().filter(|hold| hold.is_held());
        live.map(|hold| hold.deadline()).max()
    }

    fn listen(&self, subject: &Subject, contest: &Arc<Contest>, deadline: Option<Instant>) {
        if contest.should_listen() {
            let channel = subject.kind.channel(subject);
            let ear = Arc::new(Ear(Arc::downgrade(contest)));
            let left = deadline.map_or(Duration::MAX, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            contest.listen(self.transport.listen(&channel, ear, left));
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

    fn candidate(&self, subject: &Arc<Subject>, thread: Option<u64>) -> Candidate {
        if let Some(hold) = thread.and_then(|thread| self.registry.find(&subject.key, thread)) {
            if hold.is_held() {
                return Candidate {
                    count: hold.count() + 1,
                    hold,
                };
            }
            self.bury(&hold);
        }
        Candidate {
            hold: Arc::new(Hold::new(Arc::clone(subject), self.new_holder(), thread)),
            count: 1,
        }
    }

    /// Asks once; answers also when the request that was answered was sent.
    fn try_acquire(
        &self,
        candidate: &Candidate,
        lease: Duration,
        budget: Budget,
    ) -> Result<(Acquired, Instant)> {
        let Candidate { hold, count } = candidate;
        let subject = &hold.subject;
        let ask = subject.kind.acquire(
            subject,
            &Claim {
                holder: &hold.holder,
                count: *count,
                lease,
            },
        );
        let undo = subject
            .kind
            .release(subject, &hold.holder, count - 1)
            .request;
        match self
            .transport
            .call(Lane::Acquire, &ask.request, Some(&undo), budget)
        {
            Ok(answer) => {
                self.tie_up(answer.loose);
                match (ask.decode)(answer.reply) {
                    Ok(acquired) => Ok((acquired, answer.sent)),
                    Err(malformed) => Err(self.malformed(malformed).about(&subject.key)),
                }
            }
            Err(failure) => {
                if failure.doubtful {
                    self.watchdog.adopt(match count {
                        1 => Orphan::hold(hold, lease, failure.fences),
                        _ => {
                            // It may have raised the TTL above what the hold believes.
                            self.doubt(hold);
                            Orphan::count(hold, lease, failure.fences)
                        }
                    });
                }
                let error = failure.error.about(&subject.key);
                Err(match count {
                    1 => error,
                    _ => self.note_wrong_type(hold, error),
                })
            }
        }
    }

    /// Ends a hold whose time is over by our clock but perhaps not by Redis'.
    ///
    /// Not left to the watchdog: its own thread is about to begin a new hold, which the old one
    /// would refuse.
    fn bury(&self, hold: &Arc<Hold>) {
        self.lose(hold, LostReason::Expired);
        let _ = self.send_release(hold, 0);
    }
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
