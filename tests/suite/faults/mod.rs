//! What breaks between a client and its hold: the table of kinds and faults.
//!
//! A fault is one test and meets every kind of lock in turn. A new kind is a row in [`KINDS`]; a
//! new fault is a function, named in the `faults!` of its module.

mod cuts;
mod giving_up;
mod hand_overs;
mod holders;
mod late;
mod meddling;
mod partitions;
mod replies;
mod restarts;
mod scene;
mod stops;

use std::thread;

use lockson::{AnyLock, Client};
use redis::Commands;

use self::scene::Scene;
use crate::support::Ground;

/// A kind of lock, and what its holds look like in Redis.
pub(super) struct Kind {
    name: &'static str,
    lock: fn(&Client, &str) -> AnyLock,
    /// A lock of the same name that this kind keeps out.
    rival: fn(&Client, &str) -> AnyLock,
    /// What the peer calls it.
    peer_type: &'static str,
    /// Who holds it, with their counts.
    holders: fn(&mut redis::Connection, &str) -> Vec<(String, u64)>,
    /// As `PTTL` counts.
    ttl: fn(&mut redis::Connection, &str) -> i64,
    /// How many messages its last release sends while nobody waits.
    messages: u64,
    /// Freeing it whoever holds it, where the kind knows that.
    force_unlock: Option<fn(&Client, &str) -> lockson::Result<bool>>,
}

const KINDS: &[Kind] = &[
    Kind {
        name: "reentrant",
        lock: |client, name| client.reentrant_lock(name).into(),
        rival: |client, name| client.reentrant_lock(name).into(),
        peer_type: "lock",
        holders: |redis, name| redis.hgetall(name).expect("HGETALL"),
        ttl: |redis, name| redis.pttl(name).expect("PTTL"),
        messages: 1,
        force_unlock: Some(|client, name| client.reentrant_lock(name).force_unlock()),
    },
    Kind {
        name: "fair",
        lock: |client, name| client.fair_lock(name).into(),
        rival: |client, name| client.reentrant_lock(name).into(),
        peer_type: "fair",
        holders: |redis, name| redis.hgetall(name).expect("HGETALL"),
        ttl: |redis, name| redis.pttl(name).expect("PTTL"),
        messages: 1,
        force_unlock: Some(|client, name| client.fair_lock(name).force_unlock()),
    },
];

/// Something that breaks.
pub(super) struct Fault {
    name: &'static str,
    /// Beside other tests, or alone where it measures time.
    ground: fn() -> Ground,
    run: fn(&Scene<'_>),
}

impl Fault {
    fn meet_all(&'static self) {
        for kind in KINDS {
            let _context = Context(self, kind);
            let ground = (self.ground)();
            (self.run)(&Scene::new(&ground, kind));
        }
    }
}

/// Says which cell of the table failed.
struct Context(&'static Fault, &'static Kind);

impl Drop for Context {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("fault {:?} of the kind {:?}", self.0.name, self.1.name);
        }
    }
}

/// One test for each function: `new` runs beside other tests, `alone` does not.
macro_rules! faults {
    ($($ground:ident $fault:ident;)*) => {
        mod of_all_kinds {
            use crate::{faults::Fault, support::Ground};

            $(
                #[test]
                fn $fault() {
                    static FAULT: Fault = Fault {
                        name: stringify!($fault),
                        ground: Ground::$ground,
                        run: super::$fault,
                    };
                    FAULT.meet_all();
                }
            )*
        }
    };
}

use faults;
