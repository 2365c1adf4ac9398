//! Beside real Redisson: one table of kinds, scenarios and who sits where.
//!
//! Java needs a minute to be installed and a moment to start, so the table is played only with
//! `LOCKSON_INTEROP=1`. The tests of the Rust peer alone are always run.

mod load;
mod peer;
pub(crate) mod processes;
mod queues;
mod readers;
mod reads;
mod scenarios;
mod scene;
mod seats;
mod several;
mod times;
mod versions;
mod waits;
mod who_holds;

use std::{
    collections::BTreeMap,
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
    /// What is said there.
    message: &'static str,
    /// What the hash says of itself beside its holders.
    mode: Option<&'static str>,
    /// What a holder's field has behind its name.
    suffix: &'static str,
}

const LOCK: Kind = Kind {
    word: "lock",
    channel: "redisson_lock__channel",
    message: "0",
    mode: None,
    suffix: "",
};

const FAIR: Kind = Kind {
    word: "fair",
    ..LOCK
};

const READ: Kind = Kind {
    word: "read",
    channel: "redisson_rwlock",
    message: "0",
    mode: Some("read"),
    suffix: "",
};

const WRITE: Kind = Kind {
    word: "write",
    channel: "redisson_rwlock",
    message: "1",
    mode: Some("write"),
    suffix: ":write",
};

impl Kind {
    /// The hash when one holder has it so often.
    fn held(self, holder: &str, count: u32) -> BTreeMap<String, String> {
        let mode = self.mode.map(|mode| ("mode".to_owned(), mode.to_owned()));
        let field = (format!("{holder}{}", self.suffix), count.to_string());
        mode.into_iter().chain([field]).collect()
    }
}

/// Makes a test of each pair of kinds and scenario, so that `interop::pair::scenario` says what failed.
macro_rules! table {
    (kinds { $($name:ident: $first:ident, $second:ident;)+ } scenarios $scenarios:tt) => {$(
        mod $name {
            table! { @tests [super::$first, super::$second]; $scenarios }
        }
    )+};
    (@tests $kinds:expr; { $($module:ident::$scenario:ident,)+ }) => {$(
        #[test]
        fn $scenario() {
            super::play(stringify!($scenario), $kinds, super::$module::$scenario);
        }
    )+};
}

table! {
    kinds {
        lock: LOCK, LOCK;
        fair: FAIR, FAIR;
        write: WRITE, WRITE;
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
        waits::braces_do_not_keep_the_message,
        waits::watchdog_keeps_the_waiting_other_out,
        waits::killed_holder,
        waits::who_gives_up_leaves_nothing,
        waits::a_crowd_lets_the_other_in,
    }
}

table! {
    kinds {
        read: READ, WRITE;
    }
    scenarios {
        reads::exclusion,
        reads::reentry,
        reads::time_to_live,
        reads::force_unlock,
        reads::foreign_unlock,
        reads::end_of_lease,
        reads::names_and_channels,
        waits::release_lets_the_waiting_other_in,
        waits::braces_do_not_keep_the_message,
        waits::watchdog_keeps_the_waiting_other_out,
        waits::killed_holder,
        waits::who_gives_up_leaves_nothing,
    }
}

table! {
    kinds {
        reader_behind_a_writer: WRITE, READ;
    }
    scenarios {
        waits::release_lets_the_waiting_other_in,
        waits::braces_do_not_keep_the_message,
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

/// What happens in a scenario.
type Act = fn(&Pair<'_>);

/// A scenario, and the kinds of lock that the first and the second have.
type Play<'a> = (&'a str, [Kind; 2], Act);

/// Plays a scenario in all directions beside the usual Redisson.
fn play(scenario: &str, kinds: [Kind; 2], act: Act) {
    if is_beside_java() {
        let ground = Ground::new();
        stage(
            &ground,
            &java_peer(),
            &DIRECTIONS,
            &[(scenario, kinds, act)],
        );
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
    for &(scenario, kinds, act) in plays {
        let seat = |side, client, kind| {
            let peer = match side {
                Side::Java => java,
                Side::Rust => &rust,
            };
            Seat::new(peer, side, client, kind)
        };
        for &(first, second) in directions {
            let words = kinds.map(|kind| kind.word).join(" ");
            let title = format!("{words} {scenario}: {first:?}, then {second:?}");
            eprintln!("{title}");
            let pair = Pair {
                first: seat(first, "A", kinds[0]),
                second: seat(second, "B", kinds[1]),
                kind: kinds[0],
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
