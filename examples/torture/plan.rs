//! What a call asks for, by chance.

use std::time::Duration;

use crate::{
    dice::Dice,
    history::event::Kind,
    worker::{LONGEST_LEASE, World},
};

/// What a call asks for.
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    pub(crate) names: Vec<String>,
    pub(crate) lease: Option<Duration>,
    /// A bound for a hold that is renewed.
    pub(crate) most: Option<Duration>,
    pub(crate) wait: Option<Duration>,
    pub(crate) cancelled_after: Option<Duration>,
}

impl Plan {
    /// Any lock, in any way.
    pub(crate) fn of(dice: &mut Dice, world: &World) -> Self {
        let kind = dice.weighed(&world.kinds);
        let lease = dice.percent(50).then(|| short_or_long(dice));
        let most = (lease.is_none() && dice.percent(30)).then(|| dice.millis(100..600));
        let names = match kind {
            Kind::Fair => vec![world.fair_name()],
            // Some are mostly free: what comes late can do its worst there.
            Kind::Lock if dice.percent(40) => vec![(*dice.pick(&QUIET)).to_owned()],
            Kind::Lock => vec![(*dice.pick(&["a", "b"])).to_owned()],
            Kind::Multi if dice.percent(50) => vec!["a".to_owned(), "b".to_owned()],
            Kind::Multi => vec!["b".to_owned(), "a".to_owned()],
            Kind::Read | Kind::Write => vec!["page".to_owned()],
            Kind::Red => vec!["red".to_owned()],
        };
        let mut plan = Self {
            kind,
            names,
            lease,
            most,
            wait: None,
            cancelled_after: None,
        };
        match dice.below(100) {
            0..15 => plan.wait = Some(Duration::ZERO),
            15..45 => plan.wait = Some(dice.millis(1..2000)),
            // Behind somebody dead a fair waiter would stand for minutes.
            45..85 if kind == Kind::Fair => plan.cancelled_after = Some(QUEUE_PATIENCE),
            45..85 => {}
            _ => plan.cancelled_after = Some(dice.millis(1..1500)),
        }
        plan
    }

    /// The same lock as another call, once more.
    pub(crate) fn beneath(outer: &Self, kind: Kind, lease: Option<Duration>) -> Self {
        Self {
            kind,
            names: outer.names.clone(),
            lease,
            most: None,
            wait: Some(Duration::from_millis(500)),
            cancelled_after: None,
        }
    }
}

/// A lease: many are over soon, so that the dead do not keep others out for most of the time.
pub(crate) fn short_or_long(dice: &mut Dice) -> Duration {
    let longest = LONGEST_LEASE.as_millis() as u64;
    let longest = if dice.percent(70) {
        longest / 4
    } else {
        longest
    };
    dice.millis(40..longest)
}

/// Names that few take.
pub(crate) const QUIET: [&str; 4] = ["c", "d", "e", "f"];

/// How long somebody stands in a queue at most.
pub(crate) const QUEUE_PATIENCE: Duration = Duration::from_secs(12);
