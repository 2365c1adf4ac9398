//! How long a waiter sleeps before it asks again by itself.

use std::time::Duration;

use crate::protocol::Standing;

/// No sleep is longer, whatever Redis said: a message that was lost costs this much at most.
const LONGEST: Duration = Duration::from_secs(3);

/// As long as nobody listens, somebody looks sooner: what others do to the key is not heard of.
const UNHEARD: Duration = Duration::from_millis(100);

/// A TTL that is over says "now" again and again until Redis removes the key: ask ever more slowly.
const SHORTEST: Duration = Duration::from_millis(1);
const SLOWEST: Duration = Duration::from_millis(64);

/// How soon a failed attempt is followed by the next, and how slow that becomes.
const FIRST_RETRY: Duration = Duration::from_millis(10);
const SLOWEST_RETRY: Duration = Duration::from_millis(64);

/// Where each waiter asks for itself, hundreds may ask a server that is just coming back.
const SLOWEST_RETRY_OF_MANY: Duration = Duration::from_millis(500);

/// The longest sleep of somebody who hears of releases, or does not.
pub(super) fn longest(listens: bool) -> Duration {
    if listens { LONGEST } else { UNHEARD }
}

/// Remembers how often in a row there was no time to sleep.
#[derive(Debug, Default)]
pub(super) struct Rest {
    hurries: u32,
}

impl Rest {
    /// Others have it for so many milliseconds more, as `PTTL` counts.
    pub(super) fn after_refusal(&mut self, ttl: i64) -> Duration {
        match u64::try_from(ttl) {
            Err(_) => LONGEST,
            Ok(ttl) if ttl <= 2 => self.hurry(SHORTEST, SLOWEST),
            Ok(ttl) => {
                self.hurries = 0;
                Duration::from_millis(ttl).min(LONGEST)
            }
        }
    }

    pub(super) fn after_failure(&mut self, standing: Standing) -> Duration {
        let slowest = match standing {
            Standing::OneForAll => SLOWEST_RETRY,
            Standing::Queued | Standing::Together => SLOWEST_RETRY_OF_MANY,
        };
        self.hurry(FIRST_RETRY, slowest)
    }

    fn hurry(&mut self, first: Duration, slowest: Duration) -> Duration {
        let sleep = first.saturating_mul(1 << self.hurries.min(16));
        self.hurries += 1;
        sleep.min(slowest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_state_of_the_key_makes_a_busy_loop() {
        for ttl in [-2, -1, 0, 1, 2, 3, 50, 3_600_000, i64::MAX] {
            let mut rest = Rest::default();
            let slept: Duration = (0..100).map(|_| rest.after_refusal(ttl)).sum();
            assert!(slept >= Duration::from_millis(300), "{ttl}: {slept:?}");
            assert!(rest.after_refusal(ttl) <= LONGEST);
        }
    }

    #[test]
    fn a_dead_server_is_asked_ever_more_slowly() {
        let mut rest = Rest::default();
        let pauses: Vec<_> = (0..8)
            .map(|_| rest.after_failure(Standing::Queued))
            .collect();
        assert!(pauses.is_sorted(), "{pauses:?}");
        assert_eq!(pauses[0], FIRST_RETRY);
        assert_eq!(pauses[7], SLOWEST_RETRY_OF_MANY);
    }
}
