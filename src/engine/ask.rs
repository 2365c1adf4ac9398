//! Questions about a lock and about a hold, and the two commands that need no hold.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Shared,
    hold::{Hold, Raised},
    release,
    terms::check_lease,
    thread,
};
use crate::{
    error::{Error, ErrorKind, Result},
    event::LostReason,
    protocol::{Ask, Holdings, Released, Renewal, Renewed, Subject},
    transport::{Budget, Lane, kind_in_text},
};

impl Shared {
    pub(crate) fn is_locked(&self, subject: &Subject) -> Result<bool> {
        self.ask(subject, subject.kind.is_locked(subject))
    }

    /// A limit is for those who do not wait for one server among several.
    pub(crate) fn is_held_by_current_thread(
        &self,
        subject: &Subject,
        limit: Option<Duration>,
    ) -> Result<bool> {
        let Some(hold) = self.hold_of_current_thread(subject)? else {
            return Ok(false);
        };
        let ask = subject.kind.is_held(subject, &hold.holder);
        Ok(self.ask_at(Lane::Acquire, limit, subject, ask)?.0)
    }

    /// What Redis says of the hold that this thread has; without one there is nothing to ask.
    pub(crate) fn hold_count(&self, subject: &Subject) -> Result<u64> {
        match self.hold_of_current_thread(subject)? {
            None => Ok(0),
            Some(hold) => self.ask(subject, subject.kind.hold_count(subject, &hold.holder)),
        }
    }

    pub(crate) fn ttl(&self, subject: &Subject) -> Result<i64> {
        self.ask(subject, subject.kind.ttl(subject))
    }

    pub(crate) fn inspect(&self, subject: &Subject) -> Result<Holdings> {
        self.ask(subject, subject.kind.inspect(subject))
    }

    pub(crate) fn force_unlock(&self, subject: &Subject) -> Result<bool> {
        self.check_open()?;
        // Those that were there before are gone when it says so; later ones may be new.
        let holds = self.registry.of_key(&subject.key);
        let released = self.force(subject)?;
        if released != Released::Gone {
            for hold in holds {
                // Not one that its own guard has released meanwhile.
                if self.registry.contains(&hold) {
                    self.lose(&hold, LostReason::Gone);
                }
            }
        }
        match released {
            Released::Gone => Ok(false),
            Released::Done(_) | Released::Next { .. } | Released::Shared => Ok(true),
            Released::Unannounced => Err(release::unannounced().about(&subject.key)),
        }
    }

    /// Never sent twice: it names no holder, and a second copy could free the next one.
    fn force(&self, subject: &Subject) -> Result<Released> {
        let ask = subject.kind.force_unlock(subject);
        let budget = Budget {
            repeats: false,
            ..self.short_budget()
        };
        match self
            .transport
            .call(Lane::Release, &ask.request, None, budget)
        {
            Ok(answer) => (ask.decode)(answer.reply).map_err(|reply| self.malformed(reply)),
            Err(failure) => {
                self.tie_up(failure.fences);
                Err(failure.error)
            }
        }
        .map_err(|error| error.about(&subject.key))
    }

    fn hold_of_current_thread(&self, subject: &Subject) -> Result<Option<Arc<Hold>>> {
        self.check_open()?;
        let hold = self
            .registry
            .find(&subject.key, subject.kind.part(), thread::current());
        Ok(hold.filter(|hold| hold.is_held()))
    }

    /// Asks Redis whether the hold is still there; closes it if not.
    pub(super) fn verify(&self, hold: &Arc<Hold>, limit: Option<Duration>) -> Result<()> {
        self.check_live(hold)?;
        let subject = &hold.subject;
        let ask = subject.kind.is_held(subject, &hold.holder);
        match self
            .ask_at(Lane::Release, limit, subject, ask)
            .map(|(held, _)| held)
        {
            // The answer may have come too late.
            Ok(true) => self.check_live(hold),
            Ok(false) => {
                self.lose(hold, LostReason::Gone);
                self.check_live(hold)
            }
            Err(error) => Err(self.note_wrong_type(hold, error)),
        }
    }

    /// Says how a hold was lost, if it was. No I/O.
    pub(super) fn check_live(&self, hold: &Hold) -> Result<()> {
        let error = match hold.lost() {
            None => return Ok(()),
            Some(LostReason::Gone) => release::not_held(),
            Some(LostReason::Closed) => Error::closed(),
            Some(LostReason::Expired) => release::too_late(),
        };
        Err(error.about(&hold.subject.key))
    }

    /// Something else stands at the key: what was there before is gone.
    pub(super) fn note_wrong_type(&self, hold: &Arc<Hold>, error: Error) -> Error {
        if error.kind() == ErrorKind::WrongType {
            self.lose(hold, LostReason::Gone);
        }
        error
    }

    /// Raises the TTL to at least this lease.
    pub(super) fn extend(
        &self,
        hold: &Arc<Hold>,
        share: u64,
        lease: Duration,
        limit: Option<Duration>,
    ) -> Result<()> {
        self.check_live(hold)?;
        let subject = &hold.subject;
        check_lease(lease).map_err(|error| error.about(&subject.key))?;
        let lease = lease.max(Duration::from_millis(1));
        let ask = subject.kind.renew(&[Renewal {
            subject,
            holder: &hold.holder,
            lease,
            each: true,
        }]);
        // Like a release, before those who only want to acquire: its time may be running out.
        let asked = self.ask_at(Lane::Release, limit, subject, ask);
        let (renewed, sent) = asked.inspect_err(|_| self.doubt(hold))?;
        match renewed.into_iter().next() {
            Some(Renewed::Done) if hold.confirm(Raised::For(share), sent + lease) => Ok(()),
            Some(Renewed::Done) => {
                self.lose(hold, LostReason::Expired);
                self.check_live(hold)
            }
            Some(Renewed::Gone) => {
                self.lose(hold, LostReason::Gone);
                self.check_live(hold)
            }
            Some(Renewed::Failed(text)) => {
                let error = Error::new(kind_in_text(&text), format!("not extended: {text}"));
                Err(error.about(&subject.key))
            }
            None => {
                Err(Error::new(ErrorKind::Protocol, "not extended: no answer").about(&subject.key))
            }
        }
    }

    fn ask<T>(&self, subject: &Subject, ask: Ask<T>) -> Result<T> {
        Ok(self.ask_at(Lane::Acquire, None, subject, ask)?.0)
    }

    fn ask_at<T>(
        &self,
        lane: Lane,
        limit: Option<Duration>,
        subject: &Subject,
        ask: Ask<T>,
    ) -> Result<(T, Instant)> {
        self.check_open()?;
        let about = |error: Error| error.about(&subject.key);
        let answer = self
            .transport
            .call(lane, &ask.request, None, self.limited(limit))
            .map_err(|failure| about(failure.error))?;
        let sent = answer.sent;
        match (ask.decode)(answer.reply) {
            Ok(decoded) => Ok((decoded, sent)),
            Err(malformed) => Err(about(self.malformed(malformed))),
        }
    }
}
