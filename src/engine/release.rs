//! THE way out: every hold is released here, handed to the next thread in line, or left to the watchdog.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Shared,
    contest::{Contest, Wish},
    hold::{Chain, Hold},
    orphan::Orphan,
};
use crate::{
    error::{Error, ErrorKind, Result},
    event::LostReason,
    protocol::{Claim, HandedOver, Released},
    transport::{Answer, Failure, Lane},
};

/// A lock goes from thread to thread of one client so often, or so long, before others have a
/// chance: without a bound, other processes would starve.
const MOST_HANDOVERS: u32 = 8;
const LONGEST_CHAIN: Duration = Duration::from_millis(10);

impl Shared {
    /// Gives up one acquisition of a hold. Whatever the answer, nothing of it is renewed after.
    pub(super) fn release(&self, hold: &Arc<Hold>, share: u64) -> Result<()> {
        self.check_open()?;
        if !hold.is_held() {
            // Told before it goes: perhaps nobody else has noticed yet.
            self.lose(hold, LostReason::Expired);
        }
        let left = hold.begin_release(share);
        if left > 0 {
            let result = self.send_release(hold, left);
            hold.end_share(share);
            return result
                .map(drop)
                .map_err(|error| error.about(&hold.subject.key));
        }
        // Before the request is sent: no renewal may follow a release.
        self.registry.remove(hold);
        let result = self.release_last(hold);
        hold.end_share(share);
        result.map_err(|error| error.about(&hold.subject.key))
    }

    fn release_last(&self, hold: &Arc<Hold>) -> Result<()> {
        let Some(contest) = self.contests.get(&hold.subject.key) else {
            return self.send_release(hold, 0).map(drop);
        };
        if hold.chain.handed < MOST_HANDOVERS
            && hold.chain.since.elapsed() < LONGEST_CHAIN
            && hold.is_held()
            && let Some((number, wish)) = contest.pick()
        {
            return self.hand_over(hold, &contest, number, wish);
        }
        contest.releasing();
        let told = self.send_release(hold, 0);
        contest.released(*told.as_ref().unwrap_or(&0));
        told.map(drop)
    }

    /// Moves the lock to the first thread in line, in one request and without a message.
    fn hand_over(
        &self,
        hold: &Arc<Hold>,
        contest: &Contest,
        number: u64,
        wish: Wish,
    ) -> Result<()> {
        let subject = &hold.subject;
        let chain = Chain {
            handed: hold.chain.handed + 1,
            since: hold.chain.since,
        };
        let next = Hold::new(Arc::clone(subject), self.new_holder(), wish.thread);
        let next = Arc::new(next.in_chain(chain));
        let claim = Claim {
            holder: &next.holder,
            count: 1,
            lease: wish.lease,
        };
        let Some(ask) = subject.kind.hand_over(subject, &hold.holder, &claim) else {
            contest.put_back(number);
            return self.send_release(hold, 0).map(drop);
        };
        contest.releasing();
        let answer = self
            .transport
            .call(Lane::Release, &ask.request, None, self.short_budget());
        let answered = match answer {
            Ok(answer) => match (ask.decode)(answer.reply) {
                Ok(done) => {
                    self.tie_up(answer.loose);
                    Ok((done, answer.sent, answer.repeated))
                }
                Err(malformed) => Err(self.malformed(malformed)),
            },
            Err(failure) => {
                // Nobody knows whether the one or the other has it, or nobody: none shall.
                let fences = failure.fences.clone();
                self.watchdog.adopt(Orphan::hold(&next, wish.lease, fences));
                self.abandon(hold, failure)
            }
        };
        match answered {
            Ok((HandedOver::Done, sent, _)) => {
                let Some(share) = next.grant(wish.keep, sent + wish.lease) else {
                    unreachable!("a new hold is never too late");
                };
                // Before the next thread returns: it may be gone for a long time then.
                self.register(&next);
                contest.settled();
                if let Err((next, (share, _))) = contest.grant(number, (next, share)) {
                    // It gave up meanwhile: the lock goes on as if it had released at once.
                    let _ = self.release(&next, share);
                }
                Ok(())
            }
            Ok((HandedOver::Instead(released), _, repeated)) => {
                contest.put_back(number);
                let told = self.read_release(hold, 0, released, repeated);
                contest.released(*told.as_ref().unwrap_or(&0));
                told.map(drop)
            }
            Err(error) => {
                contest.put_back(number);
                contest.released(0);
                Err(error)
            }
        }
    }

    /// Sends a release; answers how many heard of it.
    pub(super) fn send_release(&self, hold: &Arc<Hold>, left: u32) -> Result<u64> {
        let subject = &hold.subject;
        let mut budget = self.short_budget();
        if !hold.is_held() {
            // The time of one attempt. That a connection was found dead is no reason not to ask.
            budget.deadline = Instant::now() + self.settings.response_timeout;
        }
        let ask = subject.kind.release(subject, &hold.holder, left);
        match self
            .transport
            .call(Lane::Release, &ask.request, None, budget)
        {
            Ok(Answer {
                reply,
                repeated,
                loose,
                ..
            }) => {
                self.tie_up(loose);
                let released =
                    (ask.decode)(reply).map_err(|malformed| self.malformed(malformed))?;
                self.read_release(hold, left, released, repeated)
            }
            Err(failure) if left == 0 => self.abandon(hold, failure),
            Err(failure) => Err(self.note_wrong_type(hold, failure.error)),
        }
    }

    fn read_release(
        &self,
        hold: &Arc<Hold>,
        left: u32,
        released: Released,
        repeated: bool,
    ) -> Result<u64> {
        match released {
            Released::Done(told) => Ok(told),
            Released::Unannounced => Err(unannounced()),
            // An earlier copy of this very release may have done it, if there still was something.
            Released::Gone if repeated && left == 0 && hold.is_held() => Ok(0),
            Released::Gone => {
                self.lose(hold, LostReason::Gone);
                Err(not_held())
            }
        }
    }

    /// The full release failed: the watchdog goes on trying where that may help.
    fn abandon<T>(&self, hold: &Arc<Hold>, failure: Failure) -> Result<T> {
        if failure.error.is_retryable() {
            let left = hold.remaining();
            self.watchdog
                .adopt(Orphan::hold(hold, left, failure.fences));
        }
        Err(self.note_wrong_type(hold, failure.error))
    }
}

pub(super) fn not_held() -> Error {
    Error::new(
        ErrorKind::NotHeld,
        "not held: Redis does not have this hold any more",
    )
}

pub(super) fn too_late() -> Error {
    Error::new(ErrorKind::Lost, "the time of this hold is over")
}

pub(super) fn unannounced() -> Error {
    Error::new(
        ErrorKind::NoPermission,
        "released, but the message for the waiters was refused (allow publish on its channel)",
    )
    .but_released()
}
