//! What a request whose reply was lost may have left in Redis, until the watchdog has put it right.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::hold::Hold;
use crate::{
    protocol::{Call, Request},
    transport::Fence,
};

/// A server away for longer than this after an orphan's lease is not waited for.
const PATIENCE: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(crate) struct Orphan {
    what: What,
    /// The connections of the late copies: before the remedy counts, they must be killed.
    pub(super) fences: Vec<Fence>,
    /// When it need not be tried any more.
    pub(super) until: Instant,
}

#[derive(Debug)]
enum What {
    /// A hold that must not be there.
    Hold(Arc<Hold>),
    /// A hold that is there, but perhaps counted once too often.
    Count(Arc<Hold>),
    /// Nothing but the late copies themselves.
    Copies,
}

impl Orphan {
    /// A hold that must not be there; a late copy may give it this lease.
    pub(super) fn hold(hold: &Arc<Hold>, lease: Duration, fences: Vec<Fence>) -> Self {
        Self::new(What::Hold(Arc::clone(hold)), lease, fences)
    }

    /// A hold that is believed in, but perhaps counted once too often.
    pub(super) fn count(hold: &Arc<Hold>, lease: Duration, fences: Vec<Fence>) -> Self {
        Self::new(What::Count(Arc::clone(hold)), lease, fences)
    }

    /// Requests that must not run any more.
    pub(super) fn copies(fences: Vec<Fence>) -> Self {
        Self::new(What::Copies, Duration::ZERO, fences)
    }

    /// What puts it right; `None` when nothing is to be done any more.
    pub(super) fn remedy(&self) -> Option<Request> {
        let ask = match &self.what {
            What::Hold(hold) => {
                let subject = &hold.subject;
                subject.kind.withdraw(subject, &hold.holder, hold.patience)
            }
            // Lowering its count lowers its time too, and may come after its next re-entry, which
            // that would cost its lease. Its next release puts it right.
            What::Count(hold) if hold.part().lives_by_leases() => return Some(ping()),
            What::Count(hold) => {
                let subject = &hold.subject;
                // As it is now: the hold may have gone on meanwhile. Its last release is not ours.
                let left = Some(hold.left()).filter(|left| left.count > 0)?;
                subject.kind.release(subject, &hold.holder, left)
            }
            What::Copies => return Some(ping()),
        };
        Some(ask.request)
    }

    fn new(what: What, lease: Duration, fences: Vec<Fence>) -> Self {
        Self {
            what,
            fences,
            until: Instant::now() + lease + PATIENCE,
        }
    }
}

/// Where the fences before it are all.
fn ping() -> Request {
    Request {
        call: Call::Command("PING"),
        keys: vec![],
        arguments: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        engine::hold::Keep,
        protocol::{Argument, Reentrant, Subject},
    };

    /// Putting a count right once removed the hold itself, while its guard was about to release it.
    #[test]
    fn a_count_in_doubt_does_not_cost_the_hold() {
        let subject = Subject::new(&Reentrant, "L".into(), "L".into());
        let subject = Arc::new(subject);
        let hold = Arc::new(Hold::new(subject, "u:1".into(), None, Duration::ZERO));
        let end = Instant::now() + Duration::from_secs(60);
        let (outer, _) = hold.grant(Keep::Leased, end).expect("new");
        let (inner, _) = hold.grant(Keep::Leased, end).expect("held");
        let count = Orphan::count(&hold, Duration::ZERO, vec![]);
        let whole = Orphan::hold(&hold, Duration::ZERO, vec![]);
        let left = |orphan: &Orphan| Some(orphan.remedy()?.arguments[1].clone());
        assert_eq!(left(&count), Some(Argument::Int(2)));
        hold.begin_release(inner);
        assert_eq!(left(&count), Some(Argument::Int(1)));
        hold.begin_release(outer);
        assert_eq!(left(&count), None);
        assert_eq!(left(&whole), Some(Argument::Int(0)));
    }
}
