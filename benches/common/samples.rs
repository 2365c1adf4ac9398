//! The waits that were measured, and what is said of them.

use std::time::Duration;

/// How long each acquisition took, from the call to the guard.
#[derive(Default)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    pub(crate) fn push(&mut self, wait: Duration) {
        self.0.push(wait);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn all_of(parts: Vec<Self>) -> Self {
        Self(parts.into_iter().flat_map(|part| part.0).collect())
    }

    pub(crate) fn summary(mut self) -> Summary {
        self.0.sort_unstable();
        Summary {
            count: self.0.len(),
            p50: self.at(0.50),
            p99: self.at(0.99),
            max: self.at(1.0),
        }
    }

    /// The least wait that so great a part of all did not exceed.
    fn at(&self, part: f64) -> Duration {
        let rank = (self.0.len() as f64 * part).ceil() as usize;
        let wait = self.0.get(rank.saturating_sub(1));
        wait.copied().unwrap_or_default()
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Summary {
    pub(crate) count: usize,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) max: Duration,
}
