//! A thread's bid for a lock: the hold it would have, and what it may have left in Redis so far.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Core, Shared,
    contest::{Doubt, Granted},
    grip::Grip,
    hold::Hold,
    line::{Place, Queued},
    orphan::Orphan,
};
use crate::{
    cancel::CancelToken,
    protocol::{Acquired, Claim, Queueing, Released, Standing, Subject},
    transport::{Budget, Earlier, Lane, Written},
};

/// How long who gives up waits for its own withdrawal; then the watchdog goes on.
const WITHDRAWAL: Duration = Duration::from_millis(200);

/// One bid. It keeps its holder as long as it waits: that is who stands in a queue. Dropped before
/// it was successful, it takes back whatever it did, a panic included.
pub(super) struct Bid<'a> {
    core: &'a Arc<Core>,
    pub(super) subject: &'a Arc<Subject>,
    pub(super) hold: Arc<Hold>,
    /// The count to reach.
    pub(super) count: u32,
    lease: Duration,
    /// Whether it goes on after an attempt without success.
    waits: bool,
    queued: Option<Queued<'a>>,
    /// Whether Redis has confirmed its place.
    placed: bool,
    /// Requests of which nobody knows whether they ran, or still will.
    doubt: Option<Doubt>,
    /// Its first request, when that is on its way already.
    written: Option<Written<'a>>,
    place: Option<Place<'a>>,
}

impl<'a> Bid<'a> {
    pub(super) fn new(
        core: &'a Arc<Core>,
        subject: &'a Arc<Subject>,
        hold: Arc<Hold>,
        lease: Duration,
        waits: bool,
    ) -> Self {
        Self {
            core,
            subject,
            count: hold.count() + 1,
            // A late copy of an earlier request for this hold would take away what this one gets.
            doubt: hold.take_copies(),
            hold,
            lease,
            waits,
            queued: None,
            placed: false,
            written: None,
            place: None,
        }
    }

    /// Writes the request that `ask` asks, if that takes no time.
    pub(super) fn begin(&mut self, deadline: Instant) {
        // What is to be killed before it is waited for.
        if self.is_clean() {
            let ask = self.subject.kind.acquire(self.subject, &self.claim());
            let transport = &self.core.transport;
            self.written = transport.begin(Lane::Acquire, &ask.request, deadline);
        }
    }

    pub(super) fn has_begun(&self) -> bool {
        self.written.is_some()
    }

    /// Asks Redis once; answers also when the request that was answered was sent.
    pub(super) fn ask(
        &mut self,
        budget: Budget,
        cancel: Option<&CancelToken>,
    ) -> crate::Result<(Acquired, Instant)> {
        let (core, subject) = (self.core, self.subject);
        let hold = Arc::clone(&self.hold);
        let ask = subject.kind.acquire(subject, &self.claim());
        // Who waits asks again under the same name: a late undoing would cost what it got then.
        // A reader's count is not lowered behind its back, see `Orphan::remedy`.
        let lowers = self.count > 1 && subject.kind.part().lives_by_leases();
        let undo = (!self.waits && !lowers).then(|| {
            let release = subject.kind.release(subject, &hold.holder, hold.left());
            release.request
        });
        let about = |error: crate::Error| error.about(&subject.key);
        let earlier = match (self.written.take(), self.doubt.clone()) {
            (Some(written), _) => Earlier::Written(written),
            (None, Some(fences)) => Earlier::Copies(fences),
            (None, None) => Earlier::Nothing,
        };
        // Before it is sent: a shutdown waits for who may come to stand there.
        if self.waits && self.queued.is_none() && subject.kind.standing() == Standing::Queued {
            self.queued = Some(core.contests.queue());
        }
        let over = || core.is_closed() || cancel.is_some_and(CancelToken::is_cancelled);
        match core.transport.call_again(
            earlier,
            Lane::Acquire,
            &ask.request,
            undo.as_ref(),
            budget,
            &over,
        ) {
            Ok(answer) => {
                let acquired = (ask.decode)(answer.reply)
                    .map_err(|malformed| about(core.malformed(malformed)))?;
                let refused = matches!(acquired, Acquired::Refused(_));
                if self.waits && refused {
                    self.doubt = Some(answer.loose).filter(|loose| !loose.is_empty());
                    self.placed = true;
                } else {
                    core.tie_up(answer.loose);
                    self.settled();
                }
                Ok((acquired, answer.sent))
            }
            Err(failure) => {
                if failure.doubtful {
                    self.doubt = Some(failure.fences);
                }
                let error = about(failure.error);
                Err(match self.count {
                    1 => error,
                    _ => core.note_wrong_type(&hold, error),
                })
            }
        }
    }

    /// Nothing of it is left that would have to be taken back.
    pub(super) fn settled(&mut self) {
        self.doubt = None;
        self.queued = None;
        self.placed = false;
    }

    /// The bid goes on as this hold.
    pub(super) fn replace(&mut self, hold: Arc<Hold>) {
        self.count = hold.count() + 1;
        self.hold = hold;
    }

    pub(super) fn take_place(&mut self, place: Place<'a>) -> (Arc<super::contest::Contest>, u64) {
        let taken = (Arc::clone(&place.contest), place.number);
        self.place = Some(place);
        taken
    }

    pub(super) fn inherit(&mut self, doubt: Option<Doubt>) {
        if let Some(doubt) = doubt {
            self.doubt.get_or_insert_default().extend(doubt);
        }
    }

    /// What is to be killed before anything is asked in its name; it is the caller's from now on.
    pub(super) fn take_doubt(&mut self) -> Option<Doubt> {
        self.doubt.take()
    }

    /// Whether no request of it may still be on its way.
    pub(super) fn is_clean(&self) -> bool {
        self.doubt.is_none()
    }

    pub(super) fn grip(&mut self, granted: Granted) -> Grip {
        self.settled();
        let (hold, share) = granted;
        Grip::new(Arc::clone(self.core), self.subject, hold, share)
    }

    pub(super) fn claim(&self) -> Claim<'_> {
        let settings = &self.core.settings;
        Claim {
            holder: &self.hold.holder,
            count: self.count,
            lease: self.lease,
            under: self.hold.under.as_ref(),
            queueing: self.waits.then(|| Queueing {
                patience: self.hold.patience,
                longest: settings.fair_lock_wait_timeout.max(REDISSONS_PATIENCE),
                queued: self.placed,
            }),
        }
    }
}

impl Drop for Bid<'_> {
    fn drop(&mut self) {
        if let Some(written) = self.written.take() {
            self.inherit(Some(written.fences()));
        }
        let place = self.place.take();
        if let Some(left) = place.map(|place| place.leave()) {
            if let Some(granted) = left.granted {
                // Handed over in the very moment in which it gave up: on to the next.
                drop(self.grip(granted));
                return;
            }
            if left.claimed {
                return;
            }
            self.inherit(left.doubt);
        }
        match self.doubt.take() {
            Some(fences) => self.core.disown(&self.hold, self.count, self.lease, fences),
            None if self.queued.is_some() && self.placed => self.core.withdraw(&self.hold),
            None => {}
        }
    }
}

impl Shared {
    /// Leaves to the watchdog what an acquisition may have done.
    fn disown(&self, hold: &Arc<Hold>, count: u32, lease: Duration, fences: Doubt) {
        self.watchdog.adopt(match count {
            1 => Orphan::hold(hold, lease, fences),
            _ => {
                // It may have raised the TTL above what the hold believes.
                hold.note_copies(&fences);
                self.doubt(hold);
                Orphan::count(hold, lease, fences)
            }
        });
    }

    /// Takes back what a waiter did that is gone.
    pub(super) fn withdraw(&self, hold: &Arc<Hold>) {
        let subject = &hold.subject;
        let ask = subject.kind.withdraw(subject, &hold.holder, hold.patience);
        let budget = Budget {
            attempts: 2,
            deadline: Instant::now() + WITHDRAWAL,
            repeats: true,
        };
        match self
            .transport
            .call(Lane::Release, &ask.request, None, budget)
        {
            Ok(answer) => {
                self.tie_up(answer.loose);
                if let Ok(Released::Unannounced) = (ask.decode)(answer.reply) {
                    log::warn!("{}: the next in the queue was not told", hold.holder);
                }
                // Those of ours behind it relied on its turn to come first.
                self.tell_queued(&subject.key);
            }
            Err(failure) => {
                let orphan = Orphan::hold(hold, Duration::ZERO, failure.fences);
                self.watchdog.adopt(orphan);
            }
        }
    }
}

/// What a waiter of Redisson is given when nobody set anything: it stands before ours, and takes
/// this much from our time when it enters.
const REDISSONS_PATIENCE: Duration = Duration::from_secs(300);
