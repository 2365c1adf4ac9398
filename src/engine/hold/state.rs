//! What the mutex of a hold guards: its acquisitions, and the clock they live by.

use std::{
    sync::Weak,
    time::{Duration, Instant},
};

use super::{super::watch::Watch, Chain, Fate};
use crate::{event::LostReason, transport::Fence};

/// One acquisition of a hold.
#[derive(Clone)]
pub(super) struct Share {
    pub(super) number: u64,
    pub(super) renewed: Renewed,
    /// Until when it is kept for this one.
    pub(super) end: Instant,
    /// Whether its release is on its way.
    pub(super) leaves: bool,
    pub(super) fate: Fate,
}

#[derive(Clone, Copy)]
pub(super) enum Renewed {
    Not,
    Until(Instant),
    ForEver,
}

pub(super) struct State {
    /// What Redis should say.
    pub(super) count: u32,
    pub(super) shares: Vec<Share>,
    pub(super) next_share: u64,
    pub(super) chain: Option<Chain>,
    pub(super) deadline: Instant,
    /// The longest time that Redis was told.
    pub(super) span: Duration,
    pub(super) lost: Option<LostReason>,
    /// Whether the release is under way of the last acquisition that was alive: it ended the hold,
    /// and not the clock.
    pub(super) let_go: bool,
    /// Whether a request that raises the TTL went unanswered, so that Redis may keep the entry
    /// longer than we believe.
    pub(super) doubtful: bool,
    /// The connections of requests for it that were given up: late copies may still run.
    pub(super) copies: Vec<Fence>,
    /// Who watches several holds at once.
    pub(super) watches: Vec<Weak<Watch>>,
}

impl State {
    pub(super) fn remaining(&self) -> Duration {
        match self.lost {
            Some(_) => Duration::ZERO,
            None => self.deadline.saturating_duration_since(Instant::now()),
        }
    }

    pub(super) fn note_span(&mut self, now: Instant, deadline: Instant) {
        let told = deadline.saturating_duration_since(now);
        self.span = self.span.max(told);
    }

    /// Until when it is kept for those who stay.
    pub(super) fn longest_lease(&self) -> Option<Instant> {
        let stay = self.shares.iter().filter(|share| !share.leaves);
        stay.map(|share| share.end).max()
    }

    /// Why it is lost, if `reason` is what is said now: the first reason stays, and the clock may
    /// have been first without anybody noticing.
    pub(super) fn reason(&self, reason: LostReason) -> LostReason {
        match self.lost {
            Some(first) => first,
            None if self.is_over() => LostReason::Expired,
            None => reason,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.remaining().is_zero()
    }
}
