//! THE way out: every hold is released here, and what could not be released is left to the watchdog.

use std::{sync::Arc, time::Instant};

use super::{Shared, hold::Hold, orphan::Orphan};
use crate::{
    error::{Error, ErrorKind, Result},
    event::LostReason,
    protocol::Released,
    transport::Lane,
};

impl Shared {
    /// Gives up one acquisition of a hold. Whatever the answer, nothing of it is renewed after.
    pub(super) fn release(&self, hold: &Arc<Hold>, share: u64) -> Result<()> {
        self.check_open()?;
        if !hold.is_held() {
            // Told before it goes: perhaps nobody else has noticed yet.
            self.lose(hold, LostReason::Expired);
        }
        let left = hold.begin_release(share);
        if left == 0 {
            // Before the request is sent: no renewal may follow a release.
            self.registry.remove(hold);
        }
        let result = self.send_release(hold, left);
        hold.end_share(share);
        result.map_err(|error| error.about(&hold.subject.key))
    }

    pub(super) fn send_release(&self, hold: &Arc<Hold>, left: u32) -> Result<()> {
        let subject = &hold.subject;
        let mut budget = self.short_budget();
        if !hold.is_held() {
            // The time of one attempt. That a connection was found dead is no reason not to ask.
            budget.deadline = Instant::now() + self.settings.response_timeout;
        }
        let ask = subject.kind.release(subject, &hold.holder, left);
        let answer = match self
            .transport
            .call(Lane::Release, &ask.request, None, budget)
        {
            Ok(answer) => answer,
            Err(failure) => {
                if left == 0 && failure.error.is_retryable() {
                    let left = hold.remaining();
                    self.watchdog
                        .adopt(Orphan::hold(hold, left, failure.fences));
                }
                return Err(self.note_wrong_type(hold, failure.error));
            }
        };
        let repeated = answer.repeated;
        self.tie_up(answer.loose);
        match (ask.decode)(answer.reply).map_err(|malformed| self.malformed(malformed))? {
            Released::Done => Ok(()),
            Released::Unannounced => Err(unannounced()),
            // An earlier copy of this very release may have done it, if there still was something.
            Released::Gone if repeated && left == 0 && hold.is_held() => Ok(()),
            Released::Gone => {
                self.lose(hold, LostReason::Gone);
                Err(not_held())
            }
        }
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
