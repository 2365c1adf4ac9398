//! One lock on several servers: a majority of them must agree, and in time.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Terms, Wait,
    acquire::{cancelled, is_passing, would_deadlock},
    bundle::{self, Bundle, Rule},
    ear::Bell,
    grip::Grip,
    hold::drift_of,
    multi::{Member, by_chance},
    parallel,
    watch::Watch,
};
use crate::{
    cancel::CancelToken,
    error::{Error, Result},
    transport::{Budget, Listener, Subscription},
};

/// How long it rests between two tries unless it is told of a release: by chance, so that those who
/// took a part each do not meet again.
const REST: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(150)];

/// Takes it on a majority, or says `None` when that was not to be had.
pub(crate) fn acquire(members: &[Member], terms: &Terms) -> Result<Option<Bundle>> {
    terms.check()?;
    if terms.wait == Wait::ForEver && terms.lease.is_some_and(|lease| lease <= drift_of(lease)) {
        return Err(Error::config(
            "nothing of this lease is left after what clocks may drift",
        ));
    }
    // Also in a forked child, which must touch nothing from here on.
    if members.iter().all(|one| one.core.is_closed()) {
        return Err(Error::closed());
    }
    let own = members
        .iter()
        .filter(|one| one.core.is_in_its_own_way(&one.subject, terms));
    if members.len() - own.count() < majority(members.len()) {
        return Err(would_deadlock());
    }
    let watch = Arc::new(Watch::default());
    let _bell = terms.cancel.as_ref().map(|token| {
        let bell = Bell::Watching(Arc::downgrade(&watch));
        token.attach(bell)
    });
    let mut ears: Vec<Option<Subscription>> = members.iter().map(|_| None).collect();
    let mut failing: Option<Instant> = None;
    loop {
        // First: a cancel that comes later is seen.
        let seen = watch.rung();
        if terms.cancel.as_ref().is_some_and(CancelToken::is_cancelled) {
            return Err(cancelled());
        }
        let round = Round::of(members, terms);
        let rule = round.rule;
        if !rule.remaining(round.held()).is_zero() {
            let names: Vec<&str> = members.iter().map(|one| &*one.subject.name).collect();
            return Ok(Some(Bundle::new(&names, round.into_grips(), rule)));
        }
        let (verdict, began) = (round.verdict(), round.began);
        let refused: Vec<usize> = round.refused().collect();
        // All are released: also those that did not answer, by what was written behind the request.
        // Their messages are ours: only those that refused are listened to.
        for (place, ear) in ears.iter_mut().enumerate() {
            if !refused.contains(&place) {
                *ear = None;
            }
        }
        let brief = Rule {
            apart: Some(round.limit),
            ..rule
        };
        bundle::drop_all(round.into_grips(), brief);
        if let Verdict::Hopeless(error) = verdict {
            return Err(error);
        }
        let over = match terms.wait {
            Wait::Not => true,
            Wait::Until(deadline) => Instant::now() >= deadline,
            Wait::ForEver => false,
        };
        match verdict {
            Verdict::Silent(error) if over => return Err(error),
            _ if over => return Ok(None),
            Verdict::Silent(error) | Verdict::TooFew(error) => {
                let patience = members[0].core.settings().retry_timeout;
                let is_endless = terms.wait == Wait::ForEver;
                if is_endless && failing.get_or_insert(began).elapsed() >= patience {
                    return Err(error);
                }
            }
            _ => failing = None,
        }
        for place in refused {
            let limit = match terms.wait {
                Wait::Until(deadline) => deadline.saturating_duration_since(Instant::now()),
                Wait::Not | Wait::ForEver => Duration::MAX,
            };
            ears[place].get_or_insert_with(|| members[place].listen(&watch, limit));
        }
        let mut until = Instant::now() + by_chance(REST[0], REST[1]);
        if let Wait::Until(deadline) = terms.wait {
            until = until.min(deadline);
        }
        watch.wait(seen, until);
    }
}

/// So many of so many.
pub(crate) fn majority(members: usize) -> usize {
    members / 2 + 1
}

/// Rings when a member is released, or may have been.
struct Ear(Arc<Watch>);

impl Listener for Ear {
    fn woken(&self) {
        self.0.ring();
    }

    fn listening(&self) {
        self.0.ring();
    }

    fn refused(&self, _: Error) {
        // It looks by itself now and then.
    }
}

impl Member {
    fn listen(&self, watch: &Arc<Watch>, limit: Duration) -> Subscription {
        let subject = &self.subject;
        // A fair lock tells only who stands in its queue, which nobody here does: the rest ends by itself.
        let channel = subject.kind.channel(subject, &Arc::from(self.core.id()));
        let limit = limit.min(self.core.settings().red_lock_member_timeout);
        let ear = Arc::new(Ear(Arc::clone(watch)));
        self.core.transport().listen(&channel, ear, limit)
    }
}

/// All members asked once, at the same time.
struct Round {
    answers: Vec<Result<Option<Grip>>>,
    began: Instant,
    /// How long each member was waited for.
    limit: Duration,
    rule: Rule,
}

/// Why a round did not succeed.
enum Verdict {
    /// A majority answered, and others have it.
    Refused,
    /// Too few answered; one of those who did not.
    TooFew(Error),
    /// Nobody answered.
    Silent(Error),
    /// So many refuse to be asked that there can be no majority.
    Hopeless(Error),
}

impl Round {
    fn of(members: &[Member], terms: &Terms) -> Self {
        let began = Instant::now();
        let timeouts = members
            .iter()
            .map(|one| one.core.settings().red_lock_member_timeout);
        let timeout = timeouts.max().unwrap_or_default();
        let mut limit = timeout;
        if let Wait::Until(deadline) = terms.wait {
            let left = deadline.saturating_duration_since(began);
            limit = limit.min(left.max(LEAST));
        }
        let leases = members.iter().map(|one| one.core.lease(terms));
        let lease = leases.max().unwrap_or_default();
        let rule = Rule {
            needed: majority(members.len()),
            margin: drift_of(lease),
            apart: Some(timeout),
        };
        let budget = Budget {
            attempts: 2,
            deadline: began + limit,
            repeats: true,
        };
        // On this thread: the holds are its own.
        let bids = members.iter().map(|one| {
            let (mut bid, seeker) = one.core.bid_once(&one.subject, terms, Some(limit));
            bid.begin(budget.deadline);
            (one, bid, seeker)
        });
        let answers = parallel::each(
            bids.collect(),
            |(_, bid, _)| bid.has_begun(),
            |(member, bid, seeker)| member.core.try_once((bid, seeker), terms, budget),
        );
        Self {
            answers,
            began,
            limit,
            rule,
        }
    }

    fn held(&self) -> impl Iterator<Item = &Grip> {
        self.answers.iter().flatten().flatten()
    }

    fn refused(&self) -> impl Iterator<Item = usize> {
        let answers = self.answers.iter().enumerate();
        answers.filter_map(|(place, answer)| matches!(answer, Ok(None)).then_some(place))
    }

    fn verdict(&self) -> Verdict {
        let errors = || self.answers.iter().filter_map(|one| one.as_ref().err());
        let answered = self.answers.len() - errors().count();
        let spare = self.answers.len() - self.rule.needed;
        let lasting = || errors().filter(|error| !is_passing(error)).cloned();
        match (lasting().next(), errors().next().cloned()) {
            (Some(error), _) if lasting().count() > spare => Verdict::Hopeless(error),
            (_, Some(error)) if answered == 0 => Verdict::Silent(error),
            (_, Some(error)) if answered < self.rule.needed => Verdict::TooFew(error),
            _ => Verdict::Refused,
        }
    }

    fn into_grips(self) -> Vec<Option<Grip>> {
        self.answers
            .into_iter()
            .map(|one| one.ok().flatten())
            .collect()
    }
}

/// A member is given this much even when the wait is over sooner: a try is worth making.
const LEAST: Duration = Duration::from_millis(1);
