//! Two parties, each with its own lock over the same keys.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use redis::Commands;

use crate::{
    interop::{
        Kind, LOCK,
        processes::{java_peer, rust_peer},
        seats::{BOUND, Seat, Side, WATCHDOG},
        sweep_latches,
    },
    support::{Ground, Peer, Pending, Server, eventually},
};

/// A lock of three members.
#[derive(Clone, Copy)]
pub(super) struct Several {
    /// Its TYPE for the peers.
    pub(super) word: &'static str,
    /// Where the members are: on one server, or each on its own.
    pub(super) servers: usize,
    /// So many must be held.
    pub(super) needed: usize,
}

/// The processes and servers of a test.
pub(super) struct Table {
    pub(super) servers: Vec<Arc<Server>>,
    java: Peer,
    rust: Peer,
    kind: Several,
}

/// Who sits where, and what it is about.
pub(super) struct Scene<'a> {
    pub(super) first: Party<'a>,
    pub(super) second: Party<'a>,
    pub(super) table: &'a Table,
    pub(super) names: [String; 3],
}

/// A thread of one side with its lock of several.
#[derive(Clone)]
pub(super) struct Party<'a> {
    pub(super) side: Side,
    seat: Seat<'a>,
    lock: String,
    /// As plain locks.
    members: Vec<(Seat<'a>, String)>,
}

impl Table {
    pub(super) fn new(ground: &Ground, kind: Several) -> Self {
        let more = (1..kind.servers).map(|_| ground.server_with(|plain| plain));
        let table = Self {
            servers: [ground.server()].into_iter().chain(more).collect(),
            java: java_peer(),
            rust: rust_peer(),
            kind,
        };
        for peer in [&table.java, &table.rust] {
            for clients in CLIENTS {
                seat_clients(peer, clients, &table.servers, WATCHDOG);
            }
        }
        table
    }

    pub(super) fn scene<'a>(&'a self, ground: &Ground, sides: (Side, Side)) -> Scene<'a> {
        let names = ["a", "b", "c"].map(|name| ground.name(name));
        let party = |side, clients| {
            let peer = match side {
                Side::Java => &self.java,
                Side::Rust => &self.rust,
            };
            Party::new(peer, side, self.kind, clients, &names)
        };
        Scene {
            first: party(sides.0, CLIENTS[0]),
            second: party(sides.1, CLIENTS[1]),
            table: self,
            names: names.clone(),
        }
    }

    pub(super) fn sweep(&self) {
        for server in &self.servers {
            sweep_latches(server);
        }
    }
}

impl Scene<'_> {
    pub(super) fn kind(&self) -> Several {
        self.table.kind
    }

    /// The hash of each key; empty when there is none.
    pub(super) fn hashes(&self) -> Vec<BTreeMap<String, String>> {
        let each = self.connections().into_iter().zip(&self.names);
        each.map(|(mut redis, name)| redis.hgetall(name).expect("the key is a hash"))
            .collect()
    }

    pub(super) fn is_free(&self) -> bool {
        self.hashes().iter().all(BTreeMap::is_empty)
    }

    /// The longest time that any key has left.
    pub(super) fn left(&self) -> Duration {
        let each = self.connections().into_iter().zip(&self.names);
        let times = each.map(|(mut redis, name)| redis.pttl(name).expect("PTTL"));
        let longest: i64 = times.max().expect("three members");
        Duration::from_millis(u64::try_from(longest).expect("it ends by itself"))
    }

    /// Whether somebody waits for a message about one of the keys.
    pub(super) fn is_listened_to(&self) -> bool {
        self.connections()
            .into_iter()
            .zip(&self.names)
            .any(|(mut redis, name)| {
                let channel = format!("redisson_lock__channel:{{{name}}}");
                let (_, listeners): (String, u64) = redis::cmd("PUBSUB")
                    .arg("NUMSUB")
                    .arg(channel)
                    .query(&mut redis)
                    .expect("PUBSUB NUMSUB");
                listeners > 0
            })
    }

    /// This party, and nobody else, holds enough of them, each so often.
    #[track_caller]
    pub(super) fn assert_held(&self, by: &Party<'_>, count: u32) {
        let holders = by.holders();
        let hashes = self.hashes();
        let mut held = 0;
        for (holder, hash) in holders.iter().zip(&hashes) {
            let expected = match &**holder {
                "-" => BTreeMap::new(),
                holder => BTreeMap::from([(holder.to_owned(), count.to_string())]),
            };
            held += usize::from(holder != "-");
            assert_eq!(*hash, expected, "{holders:?} {hashes:?}");
        }
        assert!(held >= self.kind().needed, "{holders:?}");
    }

    /// Has a party wait, and returns when it listens.
    #[track_caller]
    pub(super) fn waits(&self, party: &Party<'_>, operation: &str) -> Pending {
        eventually(BOUND, "nobody listens", || !self.is_listened_to());
        let waiting = party.send(operation);
        eventually(BOUND, "the waiter listens", || self.is_listened_to());
        assert!(!waiting.is_done(), "{operation}: it is held");
        waiting
    }

    /// To the server of each key.
    fn connections(&self) -> Vec<redis::Connection> {
        let servers = &self.table.servers;
        (0..3)
            .map(|place| servers[place % servers.len()].connection())
            .collect()
    }
}

impl<'a> Party<'a> {
    pub(super) fn new(
        peer: &'a Peer,
        side: Side,
        kind: Several,
        clients: [&'static str; 3],
        names: &[String; 3],
    ) -> Self {
        let client_of = |place: usize| clients[place % kind.servers];
        let each = names.iter().enumerate();
        let words: Vec<String> = each
            .clone()
            .map(|(place, name)| format!("{}/{name}", client_of(place)))
            .collect();
        let plain = |place| Seat::new(peer, side, client_of(place), LOCK);
        let word = kind.word;
        Self {
            side,
            seat: Seat::new(peer, side, clients[0], Kind { word, ..LOCK }),
            lock: words.join(","),
            members: each
                .map(|(place, name)| (plain(place), name.clone()))
                .collect(),
        }
    }

    /// Another thread of the same clients.
    pub(super) fn on(&self, thread: &'a str) -> Self {
        let members = self.members.iter();
        Self {
            seat: self.seat.on(thread),
            members: members
                .map(|(seat, name)| (seat.on(thread), name.clone()))
                .collect(),
            ..self.clone()
        }
    }

    pub(super) fn turned(mut self) -> Self {
        let words: Vec<&str> = self.lock.split(',').rev().collect();
        self.lock = words.join(",");
        self
    }

    pub(super) fn send(&self, operation: &str) -> Pending {
        self.seat.send(operation, &self.lock)
    }

    #[track_caller]
    pub(super) fn says(&self, operation: &str, expected: &str) {
        self.seat.says(operation, &self.lock, expected);
    }

    #[track_caller]
    pub(super) fn refuses(&self, operation: &str, kind: &str) {
        self.seat.refuses(operation, &self.lock, kind);
    }

    #[track_caller]
    pub(super) fn cancel(&self) {
        self.seat.cancel();
    }

    /// As they stand in Redis, in the order of the members.
    #[track_caller]
    pub(super) fn holders(&self) -> Vec<String> {
        let all = self.seat.holder(&self.lock);
        all.split(',').map(str::to_owned).collect()
    }

    /// Asks a member, as a plain lock.
    #[track_caller]
    pub(super) fn member_says(&self, place: usize, operation: &str, expected: &str) {
        let (seat, name) = &self.members[place];
        seat.says(operation, name, expected);
    }
}

/// A client for each place, all of which have connected: a scenario's times are not those of a start.
pub(super) fn seat_clients(
    peer: &Peer,
    clients: [&str; 3],
    servers: &[Arc<Server>],
    watchdog: Duration,
) {
    let watchdog = watchdog.as_millis();
    for (client, server) in clients.iter().zip(servers) {
        for request in [
            format!(
                "client {client} single {} {watchdog} member=500",
                server.url()
            ),
            format!("{client} t1 isLocked lock warm-up"),
        ] {
            peer.call(&request)
                .unwrap_or_else(|refusal| panic!("{request}: {refusal}"));
        }
    }
}

/// Those of the first party and those of the second.
pub(super) const CLIENTS: [[&str; 3]; 2] = [["A1", "A2", "A3"], ["B1", "B2", "B3"]];
