//! Both peers on one server, for what is no row of the table.

use std::{collections::BTreeMap, path::Path, time::Duration};

use redis::Commands;

use super::{
    Kind, is_beside_java,
    processes::{java_peer, java_peer_of, rust_peer},
    seats::{BOUND, Seat, Side},
    sweep_latches,
};
use crate::support::{Ground, Peer, Pending, eventually};

/// Each side has one client, `A`.
pub(super) struct Scene {
    rust: Peer,
    java: Peer,
    settings: [String; 2],
    version: Option<&'static str>,
    pub(super) ground: Ground,
}

impl Scene {
    /// None when the tests beside Java are not wanted.
    pub(super) fn open(watchdog: Duration, of_rust: &str, of_java: &str) -> Option<Self> {
        let watchdog = watchdog.as_millis();
        Self::with(
            [of_rust, of_java].map(|of| format!("{watchdog} {of}")),
            None,
        )
    }

    /// What the clients of Rust and Java are made with, beginning with the watchdog's timeout; and
    /// another version of Redisson than usual.
    pub(super) fn with(settings: [String; 2], version: Option<&'static str>) -> Option<Self> {
        if !is_beside_java() {
            return None;
        }
        let ground = Ground::alone();
        let url = ground.server().url();
        let scene = Self {
            rust: rust_peer(),
            java: java_of(version),
            settings: settings.map(|of| format!("client A single {url} {of}")),
            version,
            ground,
        };
        for side in SIDES {
            scene.greet(scene.peer(side), side);
        }
        Some(scene)
    }

    pub(super) fn peer(&self, side: Side) -> &Peer {
        match side {
            Side::Java => &self.java,
            Side::Rust => &self.rust,
        }
    }

    pub(super) fn sits<'a>(&'a self, side: Side, kind: Kind, thread: &'a str) -> Seat<'a> {
        Seat::new(self.peer(side), side, "A", kind).on(thread)
    }

    /// A process of its own, for one that dies.
    pub(super) fn process(&self, side: Side) -> Peer {
        let peer = match side {
            Side::Java => java_of(self.version),
            Side::Rust => rust_peer(),
        };
        self.greet(&peer, side);
        peer
    }

    /// Also lets it connect, so that the times are not those of a start.
    fn greet(&self, peer: &Peer, side: Side) {
        let made = &self.settings[usize::from(side == Side::Java)];
        for request in [made.trim_end(), "A t1 isLocked lock warm-up"] {
            let answer = peer.call(request);
            answer.unwrap_or_else(|refusal| panic!("{request}: {refusal}"));
        }
    }

    /// Has a seat wait, and returns when it listens; nobody else does.
    #[track_caller]
    pub(super) fn waits(&self, seat: &Seat<'_>, operation: &str, lock: &str) -> Pending {
        let channel = format!("{}:{{{lock}}}", seat.kind.channel);
        eventually(BOUND, "nobody listens", || !self.has_ear(&channel));
        let waiting = seat.send(operation, lock);
        eventually(BOUND, "the waiter listens", || self.has_ear(&channel));
        assert!(!waiting.is_done(), "{operation}: it is held");
        waiting
    }

    pub(super) fn hash(&self, lock: &str) -> BTreeMap<String, String> {
        let mut redis = self.ground.server().connection();
        redis.hgetall(lock).expect("a hash")
    }

    /// As `PTTL` says it.
    pub(super) fn pttl(&self, key: &str) -> i64 {
        let mut redis = self.ground.server().connection();
        redis.pttl(key).expect("PTTL")
    }

    pub(super) fn has_ear(&self, channel: &str) -> bool {
        let (_, count): (String, u64) = redis::cmd("PUBSUB")
            .arg("NUMSUB")
            .arg(channel)
            .query(&mut self.ground.server().connection())
            .expect("PUBSUB NUMSUB");
        count > 0
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        sweep_latches(&self.ground.server());
    }
}

impl Side {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Java => Self::Rust,
            Self::Rust => Self::Java,
        }
    }
}

fn java_of(version: Option<&str>) -> Peer {
    match version {
        None => java_peer(),
        named => java_peer_of(named),
    }
}

#[track_caller]
pub(super) fn kill(victim: &Peer) {
    victim.kill();
    let process = format!("/proc/{}", victim.pid());
    assert!(!Path::new(&process).exists(), "{process} is gone");
}

pub(super) const SIDES: [Side; 2] = [Side::Rust, Side::Java];

/// From the word that it is free to the word that the other has it.
pub(super) const SOON: Duration = Duration::from_millis(500);
