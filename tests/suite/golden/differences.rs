//! Where this crate does something else than the recorded Redisson, on purpose.

use super::vectors;

/// The types whose releases are also told to those who wait by the plain lock of that name, where
/// Redisson tells the queue alone.
pub(super) const ALSO_TOLD: &[(&str, &str)] = &[("fair", "redisson_lock__channel:{L}")];

/// The steps in which this crate does something else than Redisson, on purpose.
pub(super) const DIFFERENCES: &[Difference] = &[
    Difference {
        lock_type: "lock",
        scenario: "two waiters in one client share one subscription",
        step: 6,
        instead: Instead::MessagesMayLack,
        why: "a hold that goes to a waiter of the same client needs no message",
    },
    Difference {
        lock_type: "fair",
        scenario: "tryLock(wait) times out while queued",
        step: 2,
        instead: Instead::Later("<uuid-A>:<tid-3>", 300_000),
        why: "who enters before it may take a whole wait from its time, not only its own short one",
    },
    Difference {
        lock_type: "fair",
        scenario: "tryLock(wait) times out while queued",
        step: 3,
        instead: Instead::Later("<uuid-A>:<tid-3>", 300_000),
        why: "it has not looked again since the one before it left",
    },
    Difference {
        lock_type: "fair",
        scenario: "tryLock(wait) times out while queued",
        step: 4,
        instead: Instead::MessagesMayLack,
        why: "a hold that goes to a waiter of the same client needs no message",
    },
    Difference {
        lock_type: "fair",
        scenario: "forceUnlock with a waiter, then delete()",
        step: 5,
        instead: Instead::ByHand(&[
            "DEL",
            "L",
            "redisson_lock_queue:{L}",
            "redisson_lock_timeout:{L}",
        ]),
        why: "a lock is not deleted; what others do to its keys is borne all the same",
    },
    Difference {
        lock_type: "write",
        scenario: "reentry adds lease to remaining ttl",
        step: 3,
        instead: Instead::Later("L", 10_000),
        why: "a partial release leaves the time as it is: the other guard was told of it",
    },
    Difference {
        lock_type: "readwrite",
        scenario: "unlock when nothing is held",
        step: 0,
        instead: Instead::Silent,
        why: "without a guard there is nothing to release, and so nothing to tell",
    },
    Difference {
        lock_type: "readwrite",
        scenario: "unlock when nothing is held",
        step: 1,
        instead: Instead::Silent,
        why: "without a guard there is nothing to release, and so nothing to tell",
    },
    Difference {
        lock_type: "multi",
        scenario: "tryLock fails when one member is taken",
        step: 1,
        instead: Instead::Silent,
        why: "it takes all or none by one request: nothing was taken, and nobody is told",
    },
    Difference {
        lock_type: "multi",
        scenario: "tryLock fails when one member is taken",
        step: 2,
        instead: Instead::Silent,
        why: "it waits for the one that refused with nothing in its hands",
    },
    Difference {
        lock_type: "multi",
        scenario: "lock(lease) blocks then gets in",
        step: 1,
        instead: Instead::Without("M1"),
        why: "who held some while it waits for others could wait for one that waits for it",
    },
];

#[derive(Debug)]
pub(super) struct Difference {
    pub(super) lock_type: &'static str,
    pub(super) scenario: &'static str,
    pub(super) step: usize,
    pub(super) instead: Instead,
    why: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Instead {
    /// It is done to the server.
    ByHand(&'static [&'static str]),
    /// This waiter may be passed, or this key ends, so many milliseconds later.
    Later(&'static str, i64),
    MessagesMayLack,
    /// Nothing is published.
    Silent,
    /// This key is not there.
    Without(&'static str),
}

#[test]
fn each_difference_is_one_of_a_recorded_step() {
    let vectors = vectors();
    for one in DIFFERENCES {
        assert!(!one.why.is_empty());
        let vector = vectors
            .iter()
            .find(|vector| vector.lock_type == one.lock_type && vector.scenario == one.scenario)
            .unwrap_or_else(|| panic!("nothing recorded for {one:?}"));
        let step = &vector.steps[one.step];
        match one.instead {
            Instead::ByHand(_) => assert!(step.op.starts_with("delete "), "{one:?}"),
            Instead::Later(what, _) | Instead::Without(what) => {
                let quoted = format!("\"{what}\"");
                assert!(step.keys_after.to_string().contains(&quoted), "{one:?}");
            }
            Instead::MessagesMayLack | Instead::Silent => {
                assert!(!step.published.is_empty(), "{one:?}")
            }
        }
    }
}
