//! Who tells a contest something without keeping it: the messages, and the token that cancels.

use std::sync::{Arc, Weak};

use super::{contest::Contest, watch::Watch};
use crate::{error::Error, transport::Listener};

/// Hears the messages of a channel for a contest.
pub(crate) struct Ear(Weak<Contest>);

/// Wakes one waiter for good; what a token keeps.
pub(crate) enum Bell {
    InLine { contest: Weak<Contest>, number: u64 },
    Watching(Weak<Watch>),
}

impl Ear {
    pub(super) fn of(contest: &Arc<Contest>) -> Arc<Self> {
        Arc::new(Self(Arc::downgrade(contest)))
    }
}

impl Listener for Ear {
    fn woken(&self) {
        if let Some(contest) = self.0.upgrade() {
            contest.heard();
        }
    }

    fn listening(&self) {
        if let Some(contest) = self.0.upgrade() {
            contest.listening();
        }
    }

    fn refused(&self, error: Error) {
        if let Some(contest) = self.0.upgrade() {
            contest.forbidden(error);
        }
    }
}

impl Bell {
    pub(crate) fn ring(&self) {
        match self {
            Self::InLine { contest, number } => {
                if let Some(contest) = contest.upgrade() {
                    contest.cancel(*number);
                }
            }
            Self::Watching(watch) => {
                if let Some(watch) = watch.upgrade() {
                    watch.ring();
                }
            }
        }
    }
}
