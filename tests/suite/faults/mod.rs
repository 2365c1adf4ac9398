//! What breaks between a client and its hold: the table of kinds and faults.
//!
//! A fault is one test and meets every kind of lock in turn. A new kind is a row in [`KINDS`]; a
//! new fault is a function, named in the `faults!` of its module.

pub(crate) mod clocks;
mod cuts;
mod giving_up;
mod hand_overs;
mod holders;
mod holding;
mod late;
mod meddling;
mod partitions;
mod refusals;
mod replies;
mod restarts;
mod scene;
mod slowness;
mod stops;
mod waiting;

use std::{
    sync::{Mutex, PoisonError},
    thread,
};

use lockson::{AnyLock, Client, MultiLock, RedLock};
use redis::Commands;

use self::scene::Scene;
use crate::support::Ground;

/// A kind of lock, and what its holds look like in Redis.
pub(super) struct Kind {
    name: &'static str,
    lock: fn(&Client, &str) -> AnyLock,
    /// A lock of the same name that this kind keeps out.
    rival: fn(&Client, &str) -> AnyLock,
    /// A lock of the same name whose release tells those who wait for this one.
    teller: fn(&Client, &str) -> AnyLock,
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
    /// Whether a release may hand it to a thread of the same client that waits for it.
    hands_over: bool,
    /// Whether a count in doubt is put right at once, and not by the next release.
    count_is_put_right: bool,
    /// Whether this script was sent by a call, and not by the watchdog of its own accord.
    is_call: fn(&[u8]) -> bool,
}

const KINDS: &[Kind] = &[
    Kind {
        name: "reentrant",
        lock: |client, name| client.reentrant_lock(name).into(),
        rival: |client, name| client.reentrant_lock(name).into(),
        teller: |client, name| client.reentrant_lock(name).into(),
        peer_type: "lock",
        holders: |redis, name| redis.hgetall(name).expect("HGETALL"),
        ttl: |redis, name| redis.pttl(name).expect("PTTL"),
        messages: 1,
        force_unlock: Some(|client, name| client.reentrant_lock(name).force_unlock()),
        hands_over: true,
        count_is_put_right: true,
        is_call: |_| true,
    },
    Kind {
        name: "fair",
        lock: |client, name| client.fair_lock(name).into(),
        rival: |client, name| client.reentrant_lock(name).into(),
        teller: |client, name| client.fair_lock(name).into(),
        peer_type: "fair",
        holders: |redis, name| redis.hgetall(name).expect("HGETALL"),
        ttl: |redis, name| redis.pttl(name).expect("PTTL"),
        messages: 1,
        force_unlock: Some(|client, name| client.fair_lock(name).force_unlock()),
        hands_over: true,
        count_is_put_right: true,
        is_call: |_| true,
    },
    Kind {
        name: "read",
        lock: |client, name| client.read_write_lock(name).read_lock().into(),
        rival: |client, name| client.read_write_lock(name).write_lock().into(),
        teller: |client, name| client.read_write_lock(name).write_lock().into(),
        peer_type: "read",
        holders: readers_or_writer,
        ttl: |redis, name| redis.pttl(name).expect("PTTL"),
        messages: 1,
        force_unlock: Some(|client, name| client.read_write_lock(name).read_lock().force_unlock()),
        hands_over: false,
        count_is_put_right: false,
        // A renewal, which is also how a lease is asserted, has this many words, and nothing else has.
        is_call: |request| !request.starts_with(b"*8\r\n"),
    },
    Kind {
        name: "write",
        lock: |client, name| client.read_write_lock(name).write_lock().into(),
        rival: |client, name| client.read_write_lock(name).read_lock().into(),
        teller: |client, name| client.read_write_lock(name).write_lock().into(),
        peer_type: "write",
        holders: readers_or_writer,
        ttl: |redis, name| redis.pttl(name).expect("PTTL"),
        messages: 1,
        force_unlock: Some(|client, name| {
            let lock = client.read_write_lock(name);
            lock.write_lock().force_unlock()
        }),
        hands_over: true,
        count_is_put_right: true,
        is_call: |_| true,
    },
    // Of one member, so that it has one holder: it is taken and released by the requests for many.
    Kind {
        name: "multi",
        lock: |client, name| {
            let member = client.reentrant_lock(name).into();
            MultiLock::new([member]).expect("one member").into()
        },
        rival: |client, name| client.reentrant_lock(name).into(),
        teller: |client, name| client.reentrant_lock(name).into(),
        peer_type: "multi",
        holders: |redis, name| redis.hgetall(name).expect("HGETALL"),
        ttl: |redis, name| redis.pttl(name).expect("PTTL"),
        messages: 1,
        force_unlock: Some(|client, name| client.reentrant_lock(name).force_unlock()),
        hands_over: false,
        count_is_put_right: true,
        is_call: |_| true,
    },
    // Of one member, which is given the time of two attempts.
    Kind {
        name: "red",
        lock: |client, name| {
            let member = client.reentrant_lock(name).into();
            RedLock::new([member]).expect("one member").into()
        },
        rival: |client, name| client.reentrant_lock(name).into(),
        teller: |client, name| client.reentrant_lock(name).into(),
        peer_type: "red",
        holders: |redis, name| redis.hgetall(name).expect("HGETALL"),
        ttl: |redis, name| redis.pttl(name).expect("PTTL"),
        messages: 1,
        force_unlock: Some(|client, name| client.reentrant_lock(name).force_unlock()),
        hands_over: false,
        count_is_put_right: true,
        is_call: |_| true,
    },
];

/// Who has a read-write lock. Each reader must have a slot, and no slot may be nobody's beside them.
fn readers_or_writer(redis: &mut redis::Connection, name: &str) -> Vec<(String, u64)> {
    let stem = format!("{{{name}}}:");
    let (fields, slots): (Vec<(String, String)>, Vec<String>) = redis::pipe()
        .atomic()
        .hgetall(name)
        .keys(format!("{stem}*"))
        .query(redis)
        .expect("MULTI");
    let mut holders = Vec::new();
    let mut owned = 0;
    for (field, value) in fields.iter().filter(|(field, _)| field != "mode") {
        let count = value.parse().expect("a count");
        let holder = match field.strip_suffix(":write") {
            Some(writer) => writer,
            None => {
                let slot = |number| format!("{stem}{field}:rwlock_timeout:{number}");
                let own = (1..=count).filter(|number| slots.contains(&slot(*number)));
                let own = own.count();
                assert!(own > 0, "{field} has a slot: {slots:?}");
                owned += own;
                field
            }
        };
        holders.push((holder.to_owned(), count));
    }
    assert!(
        holders.is_empty() || owned == slots.len(),
        "{slots:?} of {fields:?}"
    );
    holders
}

/// How many kinds meet a fault at the same time.
const AT_ONCE: usize = 3;

/// Something that breaks.
pub(super) struct Fault {
    name: &'static str,
    /// Beside other tests, or alone where it measures time.
    ground: fn() -> Ground,
    /// Which kinds it can happen to.
    concerns: fn(&Kind) -> bool,
    run: fn(&Scene<'_>),
}

impl Fault {
    fn meet_all(&'static self) {
        let ground = (self.ground)();
        let kinds: Vec<&Kind> = KINDS.iter().filter(|kind| (self.concerns)(kind)).collect();
        let kinds = Mutex::new(kinds.into_iter());
        let next = || kinds.lock().unwrap_or_else(PoisonError::into_inner).next();
        let meet = || {
            while let Some(kind) = next() {
                let _context = Context(self, kind);
                (self.run)(&Scene::new(&ground.beside(), kind));
            }
        };
        // They wait most of the time, each on a server of its own.
        thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(meet);
            }
        });
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

/// One test for each function: `new` runs beside other tests, `alone` does not. All of them meet
/// every kind, or only those of which what stands behind `where` is true.
macro_rules! faults {
    (where $true_of_it:ident; $($faults:tt)*) => {
        faults!(|kind| kind.$true_of_it => $($faults)*);
    };
    (new $($faults:tt)*) => {
        faults!(|_| true => new $($faults)*);
    };
    (alone $($faults:tt)*) => {
        faults!(|_| true => alone $($faults)*);
    };
    ($concerns:expr => $($ground:ident $fault:ident;)*) => {
        mod of_all_kinds {
            use crate::{faults::Fault, support::Ground};

            $(
                #[test]
                fn $fault() {
                    static FAULT: Fault = Fault {
                        name: stringify!($fault),
                        ground: Ground::$ground,
                        concerns: $concerns,
                        run: super::$fault,
                    };
                    FAULT.meet_all();
                }
            )*
        }
    };
}

use faults;
