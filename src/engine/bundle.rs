//! Acquisitions of several locks that are one: so many of them must be held.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Core, grip::Grip, joint::Part, parallel, release::Parting, release::too_late, signal::Signal,
};
use crate::{
    error::{Error, Result},
    protocol::joint,
};

/// What a guard of several locks is made of. Dropping it releases all.
pub(crate) struct Bundle {
    /// In the order of the members; none for one that is not held.
    grips: Vec<Option<Grip>>,
    rule: Rule,
    name: String,
    holder: String,
}

/// When several acquisitions are one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    /// So many must be held.
    pub(super) needed: usize,
    /// So much of the time of each is not counted on, at least.
    pub(super) margin: Duration,
    /// Each is on a server of its own, none is waited for longer than this, and all are asked at once.
    pub(super) apart: Option<Duration>,
}

impl Bundle {
    pub(super) fn new(names: &[&str], grips: Vec<Option<Grip>>, rule: Rule) -> Self {
        let holder = |grip: &Option<Grip>| {
            grip.as_ref()
                .map_or_else(|| "-".to_owned(), |one| one.holder().to_owned())
        };
        let holders: Vec<String> = grips.iter().map(holder).collect();
        Self {
            name: names.join(","),
            holder: holders.join(","),
            grips,
            rule,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn holder(&self) -> &str {
        &self.holder
    }

    pub(crate) fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// For how long enough of them are held.
    pub(crate) fn remaining(&self) -> Duration {
        self.rule.remaining(self.held())
    }

    /// The names of those that are lost.
    pub(crate) fn lost_members(&self) -> Vec<&str> {
        let lost = self.held().filter(|grip| !grip.is_held());
        lost.map(Grip::name).collect()
    }

    pub(crate) fn verify(&self) -> Result<()> {
        self.ask_all(|grip| grip.verify_within(self.rule.apart))
    }

    pub(crate) fn extend(&self, lease: Duration) -> Result<()> {
        self.ask_all(|grip| grip.extend_within(lease, self.rule.apart))
    }

    pub(crate) fn signal(&self) -> Signal {
        let members = self.held().map(Grip::fated).collect();
        Signal::of_many(members, self.rule.needed, self.rule.margin)
    }

    /// Releases every member; an error when fewer than needed were held and released.
    pub(crate) fn unlock(mut self) -> Result<()> {
        let results = release_all(std::mem::take(&mut self.grips), self.rule);
        enough(results, self.rule.needed)
    }

    fn ask_all(&self, ask: impl Fn(&Grip) -> Result<()> + Sync) -> Result<()> {
        let results = match self.rule.apart {
            Some(_) => parallel::each(self.held().collect(), |_| false, ask),
            None => self.held().map(ask).collect(),
        };
        enough(results, self.rule.needed)?;
        match self.is_held() {
            true => Ok(()),
            // Too late by now, or by what clocks may drift.
            false => Err(too_late()),
        }
    }

    fn held(&self) -> impl Iterator<Item = &Grip> {
        self.grips.iter().flatten()
    }
}

impl Drop for Bundle {
    fn drop(&mut self) {
        let grips = std::mem::take(&mut self.grips);
        // In a closed client, or after a fork, there is nobody to tell.
        if grips.iter().flatten().any(|grip| !grip.core().is_closed()) {
            drop_all(grips, self.rule);
        }
    }
}

impl Rule {
    /// For how long enough of these are held.
    pub(super) fn remaining<'a>(self, held: impl Iterator<Item = &'a Grip>) -> Duration {
        let mut times: Vec<Duration> = held.map(|grip| grip.counted_on(self.margin)).collect();
        times.sort_unstable_by(|one, other| other.cmp(one));
        times.get(self.needed - 1).copied().unwrap_or_default()
    }
}

impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.held()).finish()
    }
}

/// Releases what was taken and is not wanted any more. What fails is told as with a dropped guard.
pub(super) fn drop_all(grips: Vec<Option<Grip>>, rule: Rule) {
    let names: Vec<(Arc<Core>, Arc<str>)> = grips
        .iter()
        .flatten()
        .map(|grip| (Arc::clone(grip.core()), Arc::clone(&grip.subject().name)))
        .collect();
    for ((core, name), result) in names.into_iter().zip(release_all(grips, rule)) {
        if let Err(error) = result {
            core.tell_not_released(name, error);
        }
    }
}

/// Releases each, those that can by one request; answers for each that there was, in their order.
fn release_all(grips: Vec<Option<Grip>>, rule: Rule) -> Vec<Result<()>> {
    if let Some(limit) = rule.apart {
        let deadline = Instant::now() + limit;
        let mut grips: Vec<Grip> = grips.into_iter().flatten().collect();
        let partings = grips.iter_mut().map(|grip| grip.part(deadline)).collect();
        let has_begun = |one: &Result<Parting<'_>>| one.as_ref().map_or(true, Parting::has_begun);
        return parallel::each(partings, has_begun, |one| one.and_then(Parting::end));
    }
    let mut clients: Vec<Vec<(usize, Grip)>> = Vec::new();
    for (place, grip) in grips.into_iter().flatten().enumerate() {
        let is_its = |one: &&mut Vec<(usize, Grip)>| Arc::ptr_eq(one[0].1.core(), grip.core());
        match clients.iter_mut().find(is_its) {
            Some(client) => client.push((place, grip)),
            None => clients.push(vec![(place, grip)]),
        }
    }
    // At once: a server that hangs does not keep what is held on the others.
    let results = parallel::each(clients, |_| false, release_of_one);
    let mut results: Vec<(usize, Result<()>)> = results.into_iter().flatten().collect();
    results.sort_unstable_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Releases what one client holds, each with its place among all.
fn release_of_one(grips: Vec<(usize, Grip)>) -> Vec<(usize, Result<()>)> {
    let mut results = Vec::with_capacity(grips.len());
    let mut together: Vec<(usize, Part)> = Vec::new();
    let mut core = None;
    for (place, grip) in grips {
        // The same hold once more: its count goes down by itself first.
        let is_again = together
            .iter()
            .any(|(_, part)| &*part.hold.holder == grip.holder());
        if is_again || !joint::may_join(grip.subject()) {
            results.push((place, grip.unlock()));
        } else {
            core.get_or_insert_with(|| Arc::clone(grip.core()));
            together.push((place, grip.into_part()));
        }
    }
    if let Some(core) = core {
        let (places, parts): (Vec<usize>, Vec<Part>) = together.into_iter().unzip();
        results.extend(places.into_iter().zip(core.release_jointly(&parts)));
    }
    results
}

/// One error for all of them, if fewer than needed went well.
fn enough(results: Vec<Result<()>>, needed: usize) -> Result<()> {
    let all = results.len();
    let errors: Vec<Error> = results.into_iter().filter_map(Result::err).collect();
    let [first, rest @ ..] = &errors[..] else {
        return Ok(());
    };
    if all - errors.len() >= needed {
        return Ok(());
    }
    Err(match rest {
        [] => first.clone(),
        _ => first.clone().together_with(rest),
    })
}
