//! Beside real Redisson: one table of kinds, scenarios and who sits where.
//!
//! Java needs a minute to be installed and a moment to start, so the table is played only with
//! `LOCKSON_INTEROP=1`. The tests of the Rust peer alone are always run.

mod load;
mod peer;
pub(crate) mod processes;
mod queues;
mod scenarios;
mod seats;
mod several;
mod times;
mod versions;
mod waits;

use std::{
    env,
    panic::{AssertUnwindSafe, catch_unwind},
};

use redis::Commands;

use self::{
    processes::{java_peer, rust_peer},
    seats::{Pair, Seat, Side},
};
use crate::support::{Ground, Peer, Server};

/// A kind of lock and what its users agree on.
#[derive(Clone, Copy)]
struct Kind {
    /// Its TYPE for the peers.
    word: &'static str,
    /// What a full release is told on, before the colon and the name.
    channel: &'static str,
}

/// Makes a test of each kind and scenario, so that `interop::kind::scenario` says what failed.
macro_rules! table {
    (kinds { $($kind:ident: $channel:literal,)+ } scenarios $scenarios:tt) => {$(
        mod $kind {
            table! {
                @tests super::Kind { word: stringify!($kind), channel: $channel }; $scenarios
            }
        }
    )+};
    (@tests $kind:expr; { $($module:ident::$scenario:ident,)+ }) => {$(
        #[test]
        fn $scenario() {
            super::play(stringify!($scenario), $kind, super::$module::$scenario);
        }
    )+};
}

table! {
    kinds {
        lock: "redisson_lock__channel",
        fair: "redisson_lock__channel",
    }
    scenarios {
        scenarios::exclusion,
        scenarios::reentry,
        scenarios::time_to_live,
        scenarios::force_unlock,
        scenarios::foreign_unlock,
        scenarios::end_of_lease,
        scenarios::names_and_channels,
        waits::release_lets_the_waiting_other_in,
        waits::watchdog_keeps_the_waiting_other_out,
        waits::killed_holder,
        waits::who_gives_up_leaves_nothing,
        waits::a_crowd_lets_the_other_in,
    }
}

/// Java beside Java proves the scenario itself.
const DIRECTIONS: [(Side, Side); 4] = [
    (Side::Java, Side::Java),
    (Side::Rust, Side::Rust),
    (Side::Rust, Side::Java),
    (Side::Java, Side::Rust),
];

/// A scenario, and the kind of lock it is played with.
type Play<'a> = (&'a str, Kind, fn(&Pair<'_>));

/// Plays a scenario in all directions beside the usual Redisson.
fn play(scenario: &str, kind: Kind, act: fn(&Pair<'_>)) {
    if is_beside_java() {
        let ground = Ground::new();
        stage(&ground, &java_peer(), &DIRECTIONS, &[(scenario, kind, act)]);
    }
}

/// Whether the tests beside Java are wanted.
fn is_beside_java() -> bool {
    let wanted = env::var("LOCKSON_INTEROP").as_deref() == Ok("1");
    if !wanted {
        eprintln!("not played: LOCKSON_INTEROP=1 cargo test --test suite interop (JDK 17, Maven)");
    }
    wanted
}

/// Plays scenarios in these directions, also after one has failed: which of them fail tells whose
/// fault it is.
fn stage(ground: &Ground, java: &Peer, directions: &[(Side, Side)], plays: &[Play<'_>]) {
    let server = ground.server();
    let rust = rust_peer();
    // One process for each side, as a second Java takes long to start; two clients in each, as
    // the clients are what excludes each other.
    seat_clients(&[&rust, java], &server.url());
    let mut failed = Vec::new();
    for &(scenario, kind, act) in plays {
        let seat = |side, client| {
            let peer = match side {
                Side::Java => java,
                Side::Rust => &rust,
            };
            Seat::new(peer, side, client, kind.word)
        };
        for &(first, second) in directions {
            let title = format!("{} {scenario}: {first:?}, then {second:?}", kind.word);
            eprintln!("{title}");
            let pair = Pair {
                first: seat(first, "A"),
                second: seat(second, "B"),
                kind,
                ground,
            };
            if catch_unwind(AssertUnwindSafe(|| act(&pair))).is_err() {
                failed.push(title);
            }
        }
    }
    sweep_latches(&server);
    assert!(failed.is_empty(), "failed:\n  {}", failed.join("\n  "));
}

/// Some versions of Redisson leave one with each release, for as long as a command may take.
fn sweep_latches(server: &Server) {
    let mut redis = server.connection();
    let latches: Vec<String> = redis.keys("redisson_unlock_latch:*").expect("KEYS");
    if !latches.is_empty() {
        let _: u64 = redis.del(latches).expect("DEL");
    }
}

/// Also lets every client connect, so that a scenario's times are not those of a start.
fn seat_clients(peers: &[&Peer], url: &str) {
    let requests = ["A", "B"].iter().flat_map(|client| {
        [
            format!(
                "client {client} single {url} {}",
                seats::WATCHDOG.as_millis()
            ),
            format!("{client} t1 isLocked lock warm-up"),
        ]
    });
    for request in requests {
        let pending: Vec<_> = peers.iter().map(|peer| peer.send(&request)).collect();
        for answer in pending {
            answer
                .wait(seats::BOUND)
                .unwrap_or_else(|refusal| panic!("{request}: {refusal}"));
        }
    }
}
