//! Who stands in one queue, and what the server says of it.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use redis::Commands;

use super::super::{
    FAIR,
    scene::{SOON, Scene},
    seats::{BOUND, Seat, Side},
};
use crate::support::{Pending, eventually};

/// One that stands in the queue.
pub(super) struct Waiting<'a> {
    seat: Seat<'a>,
    /// What it is called there, and will be when it holds.
    pub(super) entry: String,
    pub(super) pending: Pending,
}

impl Scene {
    pub(super) fn seat<'a>(&'a self, side: Side, thread: &'a str) -> Seat<'a> {
        self.sits(side, FAIR, thread)
    }

    pub(super) fn plays_in_order(&self, holder: Side, sides: &[Side]) {
        let lock = &self.ground.name("L");
        let holding = self.seat(holder, "holder");
        holding.says("tryLockWL 0 60000", lock, "true");
        let threads = (0..sides.len()).map(|number| format!("w{number}"));
        let threads: Vec<String> = threads.collect();
        let waiting = sides.iter().zip(&threads);
        let waiting = waiting.map(|(side, thread)| {
            let waiting = self.joins(self.seat(*side, thread), "lockL 60000", lock);
            if *side != holder || *side == Side::Java {
                let channel = format!("redisson_lock__channel:{{{lock}}}:{}", waiting.entry);
                eventually(BOUND, "it listens", || self.has_ear(&channel));
            }
            waiting
        });
        let waiting = waiting.collect();
        holding.says("unlock", lock, "null");
        self.enter_in_order(lock, waiting, Instant::now(), SOON);
    }

    /// Has a seat wait, and returns when it stands in the queue, behind all others.
    #[track_caller]
    pub(super) fn joins<'a>(&self, seat: Seat<'a>, operation: &str, lock: &str) -> Waiting<'a> {
        let before = self.queue(lock);
        let pending = seat.send(operation, lock);
        let entry = eventually(BOUND, "it stands in the queue", || {
            let mut queue = self.queue(lock);
            let last = queue.pop()?;
            (!before.contains(&last)).then_some(last)
        });
        Waiting {
            seat,
            entry,
            pending,
        }
    }

    /// Each enters when the one before it has released, the first within `bound` of `since`; answers
    /// how long that took.
    #[track_caller]
    pub(super) fn enter_in_order(
        &self,
        lock: &str,
        waiting: Vec<Waiting<'_>>,
        since: Instant,
        bound: Duration,
    ) -> Duration {
        let mut released = since;
        let mut times = Vec::new();
        let mut waiting = waiting.into_iter();
        while let Some(first) = waiting.next() {
            assert_eq!(first.pending.wait(BOUND).as_deref(), Ok("null"));
            times.push(released.elapsed());
            let expected = BTreeMap::from([(first.entry, "1".to_owned())]);
            assert_eq!(self.hash(lock), expected);
            assert!(waiting.as_slice().iter().all(|one| !one.pending.is_done()));
            first.seat.says("unlock", lock, "null");
            released = Instant::now();
        }
        eprintln!("  in after {times:?}");
        assert!(times[0] < bound, "{times:?}");
        assert!(times[1..].iter().all(|time| *time < SOON), "{times:?}");
        assert!(self.queue(lock).is_empty());
        times[0]
    }

    pub(super) fn queue(&self, lock: &str) -> Vec<String> {
        let key = format!("redisson_lock_queue:{{{lock}}}");
        let mut redis = self.ground.server().connection();
        redis.lrange(key, 0, -1).expect("a list")
    }

    /// How long this one may not be passed; none when it is not there.
    pub(super) fn left(&self, lock: &str, entry: &str) -> Option<Duration> {
        let mut redis = self.ground.server().connection();
        let key = format!("redisson_lock_timeout:{{{lock}}}");
        let time: Option<u64> = redis.zscore(key, entry).expect("a sorted set");
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut redis).expect("TIME");
        let now = seconds * 1000 + micros / 1000;
        time.map(|time| Duration::from_millis(time.saturating_sub(now)))
    }
}
