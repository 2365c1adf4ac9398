//! What goes wrong and when: made of the seed alone, before anything runs.

use std::{fmt, time::Duration};

use crate::dice::Dice;

/// Something evil, for some time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) at: Duration,
    pub(crate) lasts: Duration,
    pub(crate) what: What,
    /// Which worker or server, where it concerns one.
    pub(crate) whom: usize,
}

/// What may go wrong.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum What {
    /// A worker stands still (SIGSTOP).
    StopWorker,
    /// A worker is killed, and replaced when it is over.
    KillWorker,
    /// A server stands still.
    StopServer,
    /// A server is killed and started again with its data, when it is over.
    RestartServer,
    /// CLIENT KILL TYPE normal.
    KillNormal,
    /// CLIENT KILL TYPE pubsub.
    KillPubsub,
    /// CLIENT PAUSE, of all or of those who write.
    Pause,
    /// All connections of a worker are closed.
    Cut,
    /// And new ones refused for a while.
    Refuse,
    /// Nothing arrives either way, and nothing is closed.
    BlackHole,
    /// Some requests run and their replies are lost.
    Swallow,
    /// Some requests never arrive.
    Drop,
    /// The connection is closed instead of the reply.
    CutReply,
    /// Some requests arrive when it is over.
    Hold,
    /// Each reply is late.
    Delay,
    /// All keys are deleted.
    Flush,
}

impl What {
    /// How often, and for how many milliseconds. What waits for requests waits for long enough to meet one.
    const ALL: [(u64, Self, u64, u64); 15] = [
        (14, Self::StopWorker, 50, 2500),
        (8, Self::KillWorker, 1, 500),
        (8, Self::StopServer, 50, 2000),
        (4, Self::RestartServer, 1, 800),
        (7, Self::KillNormal, 1, 2),
        (7, Self::KillPubsub, 1, 2),
        (7, Self::Pause, 20, 1500),
        (7, Self::Cut, 1, 2),
        (5, Self::Refuse, 50, 1500),
        (5, Self::BlackHole, 300, 2500),
        (8, Self::Swallow, 500, 1500),
        (6, Self::Drop, 500, 1500),
        (6, Self::CutReply, 500, 1500),
        (12, Self::Hold, 300, 2500),
        (4, Self::Delay, 300, 2000),
    ];

    fn is_of_server(self) -> bool {
        matches!(
            self,
            Self::StopServer
                | Self::RestartServer
                | Self::KillNormal
                | Self::KillPubsub
                | Self::Pause
                | Self::Flush
        )
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The longest of all faults.
pub(crate) const LONGEST: Duration = Duration::from_millis(2500);

/// The faults of a run, in their order. No two of one worker, and no two of one server, at a time.
pub(crate) fn of(
    seed: u64,
    length: Duration,
    workers: usize,
    servers: usize,
    flush: bool,
) -> Vec<Fault> {
    let mut dice = Dice::new(seed, 0);
    let mut faults = Vec::new();
    let mut worker_free = vec![Duration::ZERO; workers];
    let mut server_free = vec![Duration::ZERO; servers];
    let mut kinds: Vec<(u64, (What, u64, u64))> = What::ALL
        .into_iter()
        .map(|(weight, what, least, most)| (weight, (what, least, most)))
        .collect();
    if flush {
        kinds.push((5, (What::Flush, 1, 2)));
    }
    // A moment of peace first, for everybody to come in, and between two faults.
    let mut at = Duration::from_millis(500);
    // Each sort once first, in any order, so that a short run has them all.
    let mut first: Vec<(What, u64, u64)> = kinds.iter().map(|&(_, kind)| kind).collect();
    for place in (1..first.len()).rev() {
        first.swap(place, dice.below(place as u64 + 1) as usize);
    }
    while at < length {
        let next = first.last().copied();
        let (what, least, most) = next.unwrap_or_else(|| dice.weighed(&kinds));
        let mut lasts = dice.millis(least..most);
        if dice.percent(50) {
            // Short ones are as good, and leave time for more.
            lasts = lasts.min(Duration::from_millis(least + (most - least) / 5));
        }
        let free = if what.is_of_server() {
            &mut server_free
        } else {
            &mut worker_free
        };
        let whom = dice.below(free.len() as u64) as usize;
        if free[whom] <= at {
            first.pop();
            faults.push(Fault {
                at,
                lasts,
                what,
                whom,
            });
            // What it leads to shall be seen to end before the next.
            free[whom] = at + lasts + Duration::from_millis(200);
        }
        at += dice.millis(20..900);
    }
    faults
}
