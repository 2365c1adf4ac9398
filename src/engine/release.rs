//! THE way out: every hold is released here, handed to the next thread in line, or left to the watchdog.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Shared,
    contest::{COURTESY, Contest, Doubt, Wish},
    hold::{Chain, Hold},
    line::Queued,
    orphan::Orphan,
};
use crate::{
    error::{Error, ErrorKind, Result},
    event::{Event, LostReason},
    protocol::{Claim, HandedOver, Left, Queueing, Released, Standing, Subject},
    transport::{Answer, Budget, Earlier, Failure, Lane, Written},
};

/// A lock goes from thread to thread of one client so often, or so long, before others have a
/// chance: without a bound, other processes would starve.
const BOUND: (u32, Duration) = (8, Duration::from_millis(10));

/// When nobody else was there the last time: who has come since is told after this much.
const BOUND_ALONE: (u32, Duration) = (64, Duration::from_millis(20));

/// Of those who stand in a queue in Redis, only Redis knows who is first: so many of those who came
/// first here are named.
const MOST_HEIRS: usize = 8;

/// One acquisition on its way out.
pub(super) struct Parting<'a> {
    shared: &'a Shared,
    subject: &'a Arc<Subject>,
    hold: &'a Arc<Hold>,
    share: u64,
    left: Left,
    /// For those who do not wait for one server among several.
    deadline: Option<Instant>,
    written: Option<Written<'a>>,
}

/// A waiting thread that may be given the lock, claimed for as long as this is not decided.
struct Heir<'a> {
    contest: Arc<Contest>,
    number: u64,
    wish: Wish,
    /// A shutdown waits for it as for the waiter itself, whose place may become ours to leave.
    _queued: Option<Queued<'a>>,
}

/// How a release was told.
pub(super) struct Told {
    /// How many heard of it.
    pub(super) heard: u64,
    /// Who is first in Redis' own queue, if that is a waiter of this client.
    first: Option<Arc<str>>,
}

impl Shared {
    /// Gives up one acquisition of a hold. Whatever the answer, nothing of it is renewed after.
    pub(super) fn release(
        &self,
        subject: &Arc<Subject>,
        hold: &Arc<Hold>,
        share: u64,
    ) -> Result<()> {
        self.parting(subject, hold, share, None)?.end()
    }

    /// The same in two steps.
    pub(super) fn parting<'a>(
        &'a self,
        subject: &'a Arc<Subject>,
        hold: &'a Arc<Hold>,
        share: u64,
        deadline: Option<Instant>,
    ) -> Result<Parting<'a>> {
        self.check_open()?;
        Ok(Parting {
            shared: self,
            subject,
            hold,
            share,
            left: self.begin_release(hold, share),
            deadline,
            written: None,
        })
    }

    /// Takes an acquisition out, here; answers what is left.
    pub(super) fn begin_release(&self, hold: &Arc<Hold>, share: u64) -> Left {
        if !hold.is_held() {
            // Told before it goes: perhaps nobody else has noticed yet.
            self.lose(hold, LostReason::Expired);
        }
        let left = hold.begin_release(share);
        if left.lives.is_zero() {
            // What is left of it is over already.
            self.lose(hold, LostReason::Expired);
        }
        if left.count == 0 {
            // Before the request is sent: no renewal may follow a release.
            self.registry.remove(hold);
        }
        left
    }

    fn release_last(
        &self,
        subject: &Arc<Subject>,
        hold: &Arc<Hold>,
        limit: Option<Duration>,
    ) -> Result<()> {
        let contests = self.contests.of(&subject.key);
        if contests.is_empty() {
            let nothing = Left::NOTHING;
            let told = self.send_release(subject, hold, nothing, limit, Earlier::Nothing)?;
            if let Some(told) = told {
                self.leave_to_others(subject, hold, told.heard);
            }
            return Ok(());
        }
        let heirs = self.heirs(subject, hold, &contests);
        let (lines, others): (Vec<_>, Vec<_>) = contests
            .into_iter()
            .partition(|contest| contest.standing() == Standing::OneForAll);
        let yields = others
            .iter()
            .any(|other| other.standing() == Standing::Together);
        for line in &lines {
            line.releasing();
        }
        let told = match heirs.is_empty() {
            true => self.send_release(subject, hold, Left::NOTHING, limit, Earlier::Nothing),
            false => self.hand_over(subject, hold, heirs, limit),
        };
        // Those who have come since rely on being told as well.
        let mut others = self.contests.of(&subject.key);
        others.retain(|contest| contest.standing() != Standing::OneForAll);
        match &told {
            Ok(None) => others.clear(),
            // The lock stays here: those behind it are handed it, as before.
            Ok(Some(Told {
                first: Some(first), ..
            })) => others.retain(|one| one.standing() != Standing::Queued || one.waits_as(first)),
            Ok(Some(_)) | Err(_) => {}
        }
        for other in others {
            other.left_the_client();
        }
        for line in &lines {
            match &told {
                Ok(None) => line.settled(),
                Ok(Some(told)) => line.released(told.heard, yields),
                Err(_) => line.released(0, yields),
            }
        }
        told.map(drop)
    }

    /// Nobody here waited for it. If others did, the next thread of this client lets them go first.
    fn leave_to_others(&self, subject: &Subject, hold: &Hold, heard: u64) {
        if heard == 0 || subject.kind.standing() != Standing::OneForAll {
            return;
        }
        let channel = subject.kind.channel(subject, &hold.holder);
        if heard > u64::from(self.transport.notifier().listens_to(&channel)) {
            let until = Instant::now() + COURTESY;
            self.contests.leave_to_others(&subject.key, until);
        }
    }

    /// Those who may be given the lock, each claimed.
    fn heirs(&self, subject: &Subject, hold: &Hold, contests: &[Arc<Contest>]) -> Vec<Heir<'_>> {
        // Those who wait together are told of a release, and would never see one.
        let crowd = |contest: &Arc<Contest>| contest.standing() == Standing::Together;
        if !hold.is_held() || contests.iter().any(crowd) {
            return Vec::new();
        }
        let chain = hold.chain();
        let is_within = |(most, longest): (u32, Duration)| {
            chain.handed < most && chain.since.elapsed() < longest
        };
        let may = |contest: &Contest| match contest.standing() {
            Standing::OneForAll if contest.is_alone() => is_within(BOUND_ALONE),
            Standing::OneForAll => is_within(BOUND),
            // It passes nobody: the queue decides, wherever its waiters are.
            Standing::Queued => true,
            Standing::Together => false,
        };
        let picked = contests
            .iter()
            .filter(|contest| contest.is_of(subject) && may(contest))
            .filter_map(|contest| {
                let (number, wish) = contest.pick()?;
                let is_queued = contest.standing() == Standing::Queued;
                Some(Heir {
                    _queued: is_queued.then(|| self.contests.queue()),
                    contest: Arc::clone(contest),
                    number,
                    wish,
                })
            });
        picked.take(MOST_HEIRS).collect()
    }

    /// Somebody else than the one who was first may be it now.
    pub(super) fn tell_queued(&self, key: &str) {
        for contest in self.contests.of(key) {
            if contest.standing() == Standing::Queued {
                contest.left_the_client();
            }
        }
    }

    /// Moves the lock to a thread that waits, in one request and without a message. Where it was
    /// released instead, answers how that was told.
    fn hand_over(
        &self,
        subject: &Arc<Subject>,
        hold: &Arc<Hold>,
        heirs: Vec<Heir<'_>>,
        limit: Option<Duration>,
    ) -> Result<Option<Told>> {
        let claims: Vec<Claim<'_>> = heirs.iter().map(Heir::claim).collect();
        let ask = subject.kind.hand_over(subject, &hold.holder, &claims);
        let answer = self
            .transport
            .call(Lane::Release, &ask.request, None, self.limited(limit));
        drop(claims);
        let answer = match answer {
            Ok(answer) => answer,
            Err(failure) => {
                // One of them may have it: they find out by asking.
                for heir in heirs {
                    self.leave_in_doubt(heir, failure.fences.clone());
                }
                return self.abandon(hold, failure);
            }
        };
        let (sent, repeated) = (answer.sent, answer.repeated);
        self.tie_up(answer.loose);
        let said = (ask.decode)(answer.reply).map_err(|malformed| self.malformed(malformed));
        for (place, heir) in heirs.into_iter().enumerate() {
            if matches!(said, Ok(HandedOver::To(to)) if to == place) {
                self.hand_to(heir, hold.chain(), sent);
            } else {
                self.let_go(&heir);
            }
        }
        match said? {
            HandedOver::To(_) => Ok(None),
            HandedOver::Instead(released) => {
                self.read_release(hold, Left::NOTHING, released, repeated)
            }
        }
    }

    /// Lets a waiting thread have what it was given in Redis.
    fn hand_to(&self, heir: Heir<'_>, chain: Chain, sent: Instant) {
        let Heir {
            contest,
            number,
            wish,
            _queued,
        } = heir;
        let next = wish.hold;
        next.handed_over(Chain {
            handed: chain.handed + 1,
            since: chain.since,
        });
        let Some(share) = next.grant(wish.keep, sent + wish.lease) else {
            unreachable!("a new hold is never too late");
        };
        // Before the next thread returns: it may be gone for a long time then.
        self.register(&next);
        if let Err((next, (share, _))) = contest.grant(number, (next, share)) {
            // It gave up meanwhile: the lock goes on as if it had released at once.
            let _ = self.release(&next.subject, &next, share);
        }
    }

    /// The heir got nothing. What it did in Redis is ours to take back, if it has gone meanwhile.
    fn let_go(&self, heir: &Heir<'_>) {
        if !heir.contest.let_go(heir.number) && heir.contest.standing() == Standing::Queued {
            self.withdraw(&heir.wish.hold);
        }
    }

    fn leave_in_doubt(&self, heir: Heir<'_>, fences: Doubt) {
        if let Err(fences) = heir.contest.doubt(heir.number, fences) {
            let orphan = Orphan::hold(&heir.wish.hold, heir.wish.lease, fences);
            self.watchdog.adopt(orphan);
        }
    }

    /// Sends a release; answers how it was told, if there was something to tell.
    pub(super) fn send_release(
        &self,
        subject: &Subject,
        hold: &Arc<Hold>,
        left: Left,
        limit: Option<Duration>,
        earlier: Earlier<'_>,
    ) -> Result<Option<Told>> {
        let mut budget = self.limited(limit);
        if !hold.is_released_in_time() {
            // The time of one attempt. That a connection was found dead is no reason not to ask.
            let one = Instant::now() + self.settings.response_timeout;
            budget.deadline = budget.deadline.min(one);
        }
        let ask = subject.kind.release(subject, &hold.holder, left);
        let never = || false;
        match self
            .transport
            .call_again(earlier, Lane::Release, &ask.request, None, budget, &never)
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
            Err(failure) => self.not_released(hold, left, failure),
        }
    }

    pub(super) fn not_released<T>(
        &self,
        hold: &Arc<Hold>,
        left: Left,
        failure: Failure,
    ) -> Result<T> {
        if left.count == 0 {
            return self.abandon(hold, failure);
        }
        // It may live on in Redis as long as before, and a late copy may come yet.
        hold.note_copies(&failure.fences);
        self.doubt(hold);
        self.tie_up(failure.fences);
        Err(self.note_wrong_type(hold, failure.error))
    }

    pub(super) fn read_release(
        &self,
        hold: &Arc<Hold>,
        left: Left,
        released: Released,
        repeated: bool,
    ) -> Result<Option<Told>> {
        match released {
            Released::Done(heard) => Ok(Some(Told { heard, first: None })),
            Released::Next { told, first } => Ok(Some(Told {
                heard: told,
                first: Some(first),
            })),
            Released::Shared => Ok(None),
            Released::Unannounced => Err(unannounced()),
            // An earlier copy of this very release may have done it, if there still was something.
            Released::Gone if repeated && left.count == 0 && hold.is_released_in_time() => {
                Ok(Some(Told {
                    heard: 0,
                    first: None,
                }))
            }
            Released::Gone => {
                self.lose(hold, LostReason::Gone);
                Err(not_held())
            }
        }
    }

    pub(super) fn limited(&self, limit: Option<Duration>) -> Budget {
        let mut budget = self.short_budget();
        if let Some(limit) = limit {
            budget.deadline = budget.deadline.min(Instant::now() + limit);
        }
        budget
    }

    /// A guard was dropped, and its release failed.
    pub(super) fn tell_not_released(&self, name: Arc<str>, error: Error) {
        if self.is_closed() || error.kind() == ErrorKind::NotHeld {
            // Lost, and that was told already.
            return;
        }
        log::warn!("a guard was dropped and not released: {error}");
        self.raise(|| Event::ReleaseFailed { name, error });
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

impl Parting<'_> {
    /// Writes the request that `end` sends, if that takes no time.
    pub(super) fn begin(&mut self) {
        let (shared, subject) = (self.shared, self.subject);
        if self.left.count == 0 {
            if !shared.contests.of(&subject.key).is_empty() {
                // Who waits here may be given it instead.
                return;
            }
            self.left = Left::NOTHING;
        }
        let ask = subject.kind.release(subject, &self.hold.holder, self.left);
        let deadline = shared.limited(self.limit()).deadline;
        self.written = shared
            .transport
            .begin(Lane::Release, &ask.request, deadline);
    }

    pub(super) fn has_begun(&self) -> bool {
        self.written.is_some()
    }

    pub(super) fn end(mut self) -> Result<()> {
        let limit = self.limit();
        let (shared, subject, hold, left) = (self.shared, self.subject, self.hold, self.left);
        let result = match self.written.take() {
            None if left.count == 0 => shared.release_last(subject, hold, limit),
            written => {
                let earlier = written.map_or(Earlier::Nothing, Earlier::Written);
                shared
                    .send_release(subject, hold, left, limit, earlier)
                    .map(drop)
            }
        };
        hold.end_share(self.share);
        result.map_err(|error| error.about(&subject.key))
    }

    fn limit(&self) -> Option<Duration> {
        let deadline = self.deadline?;
        Some(deadline.saturating_duration_since(Instant::now()))
    }
}

impl Heir<'_> {
    fn claim(&self) -> Claim<'_> {
        Claim {
            holder: &self.wish.hold.holder,
            count: 1,
            lease: self.wish.lease,
            under: None,
            queueing: Some(Queueing {
                patience: self.wish.hold.patience,
                longest: self.wish.hold.patience,
                queued: true,
            }),
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
