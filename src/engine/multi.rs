//! Several locks as one: all or nothing, and nothing is held while it waits.

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Core, Terms, Wait,
    acquire::{cancelled, is_passing},
    bundle::{self, Bundle, Rule},
    grip::Grip,
    joint::Jointly,
};
use crate::{
    cancel::CancelToken,
    error::{Error, ErrorKind, Result},
    protocol::{Subject, joint},
};

/// Who has the one that refused waits so long for the rest, and somewhat less at times: two that take
/// the same ones in opposite order must not give up at the same moment for ever.
const WINDOW: Duration = Duration::from_millis(20);

/// One of several locks.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) core: Arc<Core>,
    pub(crate) subject: Arc<Subject>,
}

/// Takes all of them, or says `None` when others had one of them all the time.
pub(crate) fn acquire(members: &[Member], terms: &Terms) -> Result<Option<Bundle>> {
    terms.check()?;
    // The one that refused: it is waited for with nothing held, and taken first.
    let mut first: Option<usize> = match is_over(terms) {
        true => None,
        // Others of this client came before.
        false => members.iter().position(|one| one.has_line(terms)),
    };
    let mut patience = Duration::ZERO;
    loop {
        if terms.cancel.as_ref().is_some_and(CancelToken::is_cancelled) {
            return Err(cancelled());
        }
        let mut taken = Taken::none_of(members, patience);
        if let Some(first) = first {
            match members[first].acquire(terms)? {
                Some(grip) => taken.put(first, grip),
                None => return Ok(None),
            }
        }
        let window = first.map(|_| Instant::now() + window());
        match taken.take_rest(terms, window) {
            Ok(()) => return Ok(Some(taken.into_bundle())),
            Err(Stop::Refused(_)) if terms.wait == Wait::Not => return Ok(None),
            Err(Stop::Refused(by)) => first = Some(by),
            Err(Stop::Failed(_, error)) if is_over(terms) || !is_passing(&error) => {
                return Err(error);
            }
            // That one has its own patience. Several that are slow need more than one has by then.
            Err(Stop::Failed(by, _)) => {
                first = Some(by);
                patience = (2 * patience).max(A_MOMENT);
            }
        }
        drop(taken);
        if is_over(terms) {
            return Ok(None);
        }
    }
}

/// Whether there is no time for another try.
fn is_over(terms: &Terms) -> bool {
    match terms.wait {
        Wait::Not => true,
        Wait::Until(end) => Instant::now() >= end,
        Wait::ForEver => false,
    }
}

impl Member {
    pub(crate) fn acquire(&self, terms: &Terms) -> Result<Option<Grip>> {
        self.core.acquire(&self.subject, terms)
    }

    /// Whether others of this client wait for what this caller does not have.
    fn has_line(&self, terms: &Terms) -> bool {
        self.core.has_line(&self.subject, terms)
    }

    /// Tries once.
    fn try_within(&self, terms: &Terms, limit: Option<Instant>) -> Result<Option<Grip>> {
        let budget = self.core.budget(limit);
        let bid = self.core.bid_once(&self.subject, terms, None);
        self.core.try_once(bid, terms, budget)
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.core, &other.core) && self.subject.key == other.subject.key
    }
}

/// Why not all were taken: which one it was.
enum Stop {
    Refused(usize),
    Failed(usize, Error),
}

/// What was taken so far; dropped, it is released.
struct Taken<'a> {
    members: &'a [Member],
    grips: Vec<Option<Grip>>,
    /// When the first was taken.
    since: Option<Instant>,
    /// How long a server may take for the rest, beside the least that an attempt is given.
    patience: Duration,
}

impl<'a> Taken<'a> {
    fn none_of(members: &'a [Member], patience: Duration) -> Self {
        Self {
            members,
            grips: members.iter().map(|_| None).collect(),
            since: None,
            patience,
        }
    }

    fn put(&mut self, place: usize, grip: Grip) {
        self.grips[place] = Some(grip);
        self.since.get_or_insert_with(Instant::now);
    }

    /// Takes what is missing: at once, or within the window.
    fn take_rest(&mut self, terms: &Terms, window: Option<Instant>) -> Result<(), Stop> {
        while let Some(together) = self.next_together() {
            let core = &self.members[together[0]].core;
            let subjects: Vec<_> = together
                .iter()
                .map(|place| Arc::clone(&self.members[*place].subject))
                .collect();
            match core.acquire_jointly(&subjects, terms, self.limit(terms)) {
                Ok(Jointly::Held(grips)) => {
                    for (place, grip) in together.into_iter().zip(grips) {
                        self.put(place, grip);
                    }
                }
                Ok(Jointly::Refused(by)) => self.take_one(together[by], terms, window, true)?,
                Err(error) => return Err(Stop::Failed(together[0], error)),
            }
        }
        for place in 0..self.members.len() {
            if self.grips[place].is_none() {
                self.take_one(place, terms, window, false)?;
            }
        }
        self.renew_leases(terms)
    }

    /// Takes one within the window; without one, tries once unless that `was_refused` just now.
    fn take_one(
        &mut self,
        place: usize,
        terms: &Terms,
        window: Option<Instant>,
        was_refused: bool,
    ) -> Result<(), Stop> {
        let member = &self.members[place];
        let taken = match window {
            None if was_refused => return Err(Stop::Refused(place)),
            None => member.try_within(terms, self.limit(terms)),
            Some(end) => {
                let end = match terms.wait {
                    Wait::Until(deadline) => end.min(deadline),
                    Wait::Not | Wait::ForEver => end,
                };
                member.acquire(&Terms {
                    wait: Wait::Until(end),
                    ahead: true,
                    ..terms.clone()
                })
            }
        };
        match taken {
            Ok(Some(grip)) => {
                self.put(place, grip);
                Ok(())
            }
            Ok(None) => Err(Stop::Refused(place)),
            Err(error) => Err(Stop::Failed(place, error)),
        }
    }

    /// Until when a single request may take: who holds something already does not keep it from
    /// others because a server hangs.
    fn limit(&self, terms: &Terms) -> Option<Instant> {
        if self.since.is_some() {
            return Some(Instant::now() + self.patience);
        }
        match terms.wait {
            Wait::Until(deadline) => Some(deadline),
            Wait::Not | Wait::ForEver => None,
        }
    }

    /// Those that are missing and that one request can take: plain locks of one client, each once.
    fn next_together(&self) -> Option<Vec<usize>> {
        let mut together: Vec<usize> = Vec::new();
        for (place, member) in self.members.iter().enumerate() {
            let may = self.grips[place].is_none() && joint::may_join(&member.subject);
            let fits = together.first().is_none_or(|first| {
                let first = &self.members[*first];
                Arc::ptr_eq(&first.core, &member.core)
            });
            // The same lock once more is a re-entry, by itself.
            let again = self.members[..place].iter().any(|other| other.is(member));
            if may && fits && !again {
                together.push(place);
            }
        }
        (!together.is_empty()).then_some(together)
    }

    /// A lease begins when all are taken: what came first gets as much as what came last.
    fn renew_leases(&mut self, terms: &Terms) -> Result<(), Stop> {
        let Some(lease) = terms.lease else {
            return Ok(());
        };
        if self.since.is_none_or(|since| since.elapsed() < ONE_REQUEST) {
            return Ok(());
        }
        for (place, grip) in self.grips.iter().enumerate() {
            let Some(grip) = grip else { continue };
            match grip.extend_within(lease, Some(A_MOMENT)) {
                Ok(()) => {}
                // Over already: it is taken anew.
                Err(error) if matches!(error.kind(), ErrorKind::Lost | ErrorKind::NotHeld) => {
                    return Err(Stop::Refused(place));
                }
                Err(error) => return Err(Stop::Failed(place, error)),
            }
        }
        Ok(())
    }

    fn rule(&self) -> Rule {
        Rule {
            needed: self.members.len(),
            margin: Duration::ZERO,
            apart: None,
        }
    }

    fn into_bundle(mut self) -> Bundle {
        let names: Vec<&str> = self.members.iter().map(|one| &*one.subject.name).collect();
        let grips = std::mem::take(&mut self.grips);
        Bundle::new(&names, grips, self.rule())
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        bundle::drop_all(std::mem::take(&mut self.grips), self.rule());
    }
}

/// From half of it to all of it, by chance.
fn window() -> Duration {
    by_chance(WINDOW / 2, WINDOW)
}

/// A time between these two.
pub(super) fn by_chance(least: Duration, most: Duration) -> Duration {
    // Each has keys of its own, from the system's source of chance.
    let chance = RandomState::new().hash_one(0) % 1024;
    least + (most - least).mul_f64(chance as f64 / 1024.0)
}

/// For a request while others wait for what is held already.
const A_MOMENT: Duration = Duration::from_millis(200);

/// Leases that began so close together are not worth another request.
const ONE_REQUEST: Duration = Duration::from_millis(1);
