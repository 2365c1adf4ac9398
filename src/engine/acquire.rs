//! THE way in: every kind of lock is acquired here.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Core, LONGEST_LEASE, Shared,
    grip::Grip,
    hold::{Hold, Keep},
    orphan::Orphan,
    thread,
};
use crate::{
    error::{Error, ErrorKind, Result},
    event::LostReason,
    protocol::{Acquired, Claim, Subject},
    transport::Lane,
};

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
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Wait {
    /// One try.
    Not,
    ForEver,
    Until(Instant),
}

impl Core {
    /// Acquires, or says `None` when others have it.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        subject: &Arc<Subject>,
        terms: &Terms,
    ) -> Result<Option<Grip>> {
        self.check_open()?;
        self.check(terms)
            .map_err(|error| error.about(&subject.key))?;
        if terms.wait != Wait::Not {
            let error = Error::new(
                ErrorKind::Unsupported,
                "waiting for a lock is not supported yet",
            );
            return Err(error.about(&subject.key));
        }
        let asked = Instant::now();
        let lease = self.lease(terms);
        let keep = match terms.lease {
            Some(_) => Keep::Leased,
            None => Keep::Renewed(terms.max_hold.and_then(|most| asked.checked_add(most))),
        };
        loop {
            let attempt = self.candidate(subject, terms.owned);
            match self.try_acquire(&attempt, lease)? {
                (Acquired::Held, sent) => {
                    self.check_open()?;
                    let deadline = sent + lease;
                    let Some(share) = attempt.hold.grant(keep, deadline) else {
                        self.bury(&attempt.hold);
                        continue;
                    };
                    if attempt.count == 1 {
                        self.registry.insert(Arc::clone(&attempt.hold));
                    }
                    if let Some(herald) = &self.herald {
                        herald.expect(deadline);
                    }
                    let core = Arc::clone(self);
                    return Ok(Some(Grip::new(core, &subject.name, attempt.hold, share)));
                }
                (Acquired::Refused(_), _) => return Ok(None),
                // The old guards are told, and this acquisition begins a hold of its own.
                (Acquired::Lost, _) => self.lose(&attempt.hold, LostReason::Gone),
            }
        }
    }
}

/// The hold that one attempt would make or re-enter, and the count it would have.
struct Candidate {
    hold: Arc<Hold>,
    count: u32,
}

impl Shared {
    fn check(&self, terms: &Terms) -> Result<()> {
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

    fn lease(&self, terms: &Terms) -> Duration {
        let timeout = self.settings.lock_watchdog_timeout;
        let lease = terms
            .lease
            .unwrap_or_else(|| terms.max_hold.map_or(timeout, |most| most.min(timeout)));
        lease.max(Duration::from_millis(1))
    }

    fn candidate(&self, subject: &Arc<Subject>, owned: bool) -> Candidate {
        let thread = (!owned).then(thread::current);
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

    /// Ends a hold whose time is over by our clock but perhaps not by Redis'.
    ///
    /// Not left to the watchdog: its own thread is about to begin a new hold, which the old one
    /// would refuse.
    fn bury(&self, hold: &Arc<Hold>) {
        self.lose(hold, LostReason::Expired);
        let _ = self.send_release(hold, 0);
    }

    /// Asks once; answers also when the request that was answered was sent.
    fn try_acquire(&self, attempt: &Candidate, lease: Duration) -> Result<(Acquired, Instant)> {
        let Candidate { hold, count } = attempt;
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
        let budget = self.short_budget();
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
