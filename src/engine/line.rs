//! The lines of a client: which key has waiting threads, and a place among them.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use parking_lot::{Condvar, Mutex};

use super::{
    contest::{Contest, Left, Wish},
    hold::Hold,
    rest,
};
use crate::protocol::{Standing, Subject};

/// The contests of a client, by key.
///
/// One key may have several: one for all threads that wait for a plain lock, one for each that
/// stands in Redis' own queue.
#[derive(Default)]
pub(crate) struct Contests {
    by_key: Mutex<HashMap<Arc<str>, Vec<Arc<Contest>>>>,
    /// Spares the uncontended acquire and release the map.
    keys: AtomicUsize,
    alone: Mutex<Alone>,
    queued: Mutex<usize>,
    nobody_queued: Condvar,
}

/// What is known of those who did not have to stand in line.
#[derive(Default)]
struct Alone {
    /// The keys for which one of them asks Redis, and since when.
    asked: HashMap<Arc<str>, Instant>,
    /// The keys that one of them released while others waited elsewhere, and until when those go first.
    left: HashMap<Arc<str>, Instant>,
}

/// Says that its owner stands in a queue in Redis, which it has to leave.
pub(crate) struct Queued<'a>(&'a Contests);

/// Says that its owner asks Redis without standing in line: whoever comes meanwhile is behind it. Dropped
/// before it was [`settled`](Self::settled), those are told to ask by themselves.
pub(crate) struct Asking<'a> {
    contests: &'a Contests,
    key: Arc<str>,
    settled: bool,
    /// Until when it lets others go first.
    pub(crate) rests: Option<Instant>,
}

/// A place in a contest, to be left on every way out.
pub(crate) struct Place<'a> {
    contests: &'a Contests,
    key: Arc<str>,
    pub(crate) contest: Arc<Contest>,
    pub(crate) number: u64,
}

impl Contests {
    pub(crate) fn of(&self, key: &str) -> Vec<Arc<Contest>> {
        if self.keys.load(Ordering::SeqCst) == 0 {
            return Vec::new();
        }
        self.by_key.lock().get(key).cloned().unwrap_or_default()
    }

    /// Whether a thread that would share its contest waits for this key.
    pub(crate) fn has_line(&self, subject: &Subject) -> bool {
        self.of(&subject.key)
            .iter()
            .any(|contest| contest.is_shared_by(subject))
    }

    /// Lets the caller ask Redis if nobody of this client waits or asks who would share its contest.
    pub(crate) fn ask_first(&self, subject: &Subject) -> Option<Asking<'_>> {
        let mut alone = self.alone.lock();
        if alone.asked.contains_key(&subject.key) || self.has_line(subject) {
            return None;
        }
        alone.asked.insert(Arc::clone(&subject.key), Instant::now());
        Some(Asking {
            contests: self,
            key: Arc::clone(&subject.key),
            settled: false,
            rests: alone.left.remove(&subject.key),
        })
    }

    /// Whether somebody asks who is to be waited for: not who has no answer for so long that it may
    /// never have one.
    pub(crate) fn is_asked_for(&self, key: &str) -> bool {
        let alone = self.alone.lock();
        let since = alone.asked.get(key);
        since.is_some_and(|since| since.elapsed() < rest::longest(false))
    }

    /// Others elsewhere were told of a release by somebody behind whom nobody stood.
    pub(crate) fn leave_to_others(&self, key: &Arc<str>, until: Instant) {
        let mut alone = self.alone.lock();
        let now = Instant::now();
        alone.left.retain(|_, until| *until > now);
        alone.left.insert(Arc::clone(key), until);
    }

    /// Whether another of this client began before who stands in Redis' queue too. Not who joined before:
    /// the first there may be the last to hear of its place.
    pub(crate) fn is_behind(&self, key: &str, hold: &Hold) -> bool {
        let by_key = self.by_key.lock();
        let mut queued = (by_key.get(key).into_iter().flatten())
            .filter(|one| one.standing() == Standing::Queued);
        queued.any(|one| one.began_before(hold))
    }

    pub(crate) fn all(&self) -> Vec<Arc<Contest>> {
        self.by_key.lock().values().flatten().cloned().collect()
    }

    pub(crate) fn waiters(&self) -> usize {
        self.all().iter().map(|contest| contest.len()).sum()
    }

    pub(crate) fn join(
        &self,
        subject: &Subject,
        wish: Wish,
        clean: bool,
        ahead: bool,
    ) -> Place<'_> {
        let mut by_key = self.by_key.lock();
        let of_key = by_key.entry(Arc::clone(&subject.key)).or_insert_with(|| {
            self.keys.fetch_add(1, Ordering::SeqCst);
            Vec::with_capacity(1)
        });
        let shared = of_key.iter().find(|one| one.is_shared_by(subject));
        let contest = shared.cloned().unwrap_or_else(|| {
            let contest = Arc::new(Contest::new(subject.kind));
            of_key.push(Arc::clone(&contest));
            contest
        });
        Place {
            contests: self,
            key: Arc::clone(&subject.key),
            number: contest.join(wish, clean, ahead),
            contest,
        }
    }

    /// Notes that somebody stands in a queue in Redis.
    pub(crate) fn queue(&self) -> Queued<'_> {
        *self.queued.lock() += 1;
        Queued(self)
    }

    /// Waits until nobody stands in a queue in Redis any more.
    pub(crate) fn wait_for_queues(&self, until: Instant) {
        let mut queued = self.queued.lock();
        while *queued > 0 {
            if self
                .nobody_queued
                .wait_until(&mut queued, until)
                .timed_out()
            {
                return;
            }
        }
    }
}

impl Asking<'_> {
    /// It has the lock, and will find who waits when it releases; or it stands in line itself.
    pub(crate) fn settled(mut self) {
        self.settled = true;
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.contests.alone.lock().asked.remove(&self.key);
        if !self.settled {
            for contest in self.contests.of(&self.key) {
                contest.news();
            }
        }
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        let mut queued = self.0.queued.lock();
        *queued -= 1;
        if *queued == 0 {
            self.0.nobody_queued.notify_all();
        }
    }
}

impl Place<'_> {
    /// Leaves the contest; answers what came at the very last moment.
    pub(crate) fn leave(&self) -> Left {
        let mut by_key = self.contests.by_key.lock();
        let left = self.contest.leave(self.number);
        if left.last
            && let Some(of_key) = by_key.get_mut(&self.key)
        {
            of_key.retain(|other| !Arc::ptr_eq(other, &self.contest));
            if of_key.is_empty() {
                by_key.remove(&self.key);
                self.contests.keys.fetch_sub(1, Ordering::SeqCst);
            }
        }
        left
    }
}

#[cfg(all(test, not(lockson_model)))]
mod tests {
    use std::time::Duration;

    use super::{super::hold::Keep, *};
    use crate::protocol::{Fair, Kind, Reentrant};

    fn subject(kind: &'static dyn Kind) -> Arc<Subject> {
        Arc::new(Subject::new(kind, "L".into(), "L".into()))
    }

    fn wish(subject: &Arc<Subject>, holder: &str) -> Wish {
        let subject = Arc::clone(subject);
        Wish {
            hold: Arc::new(Hold::new(subject, holder.into(), None, Duration::ZERO)),
            lease: Duration::ZERO,
            keep: Keep::Leased,
        }
    }

    #[test]
    fn who_began_first_is_behind_nobody_even_if_it_joined_last() {
        let contests = Contests::default();
        let subject = subject(&Fair);
        let [first, second] = ["u:9", "u:10"].map(|holder| wish(&subject, holder));
        let places =
            [&second, &first].map(|wish| contests.join(&subject, wish.clone(), true, false));
        assert!(!contests.is_behind(&subject.key, &first.hold));
        assert!(contests.is_behind(&subject.key, &second.hold));
        places[1].leave();
        assert!(!contests.is_behind(&subject.key, &second.hold));
        places[0].leave();
    }

    #[test]
    fn one_asks_and_the_others_stand_behind_it() {
        let contests = Contests::default();
        let subject = subject(&Reentrant);
        let asking = contests.ask_first(&subject).expect("nobody is there");
        assert!(contests.ask_first(&subject).is_none());
        assert!(contests.is_asked_for(&subject.key));
        let place = contests.join(&subject, wish(&subject, "u:2"), true, false);
        let seen = place.contest.seen();
        asking.settled();
        assert!(!contests.is_asked_for(&subject.key));
        assert_eq!(place.contest.seen(), seen, "it will be handed the lock");
        assert!(contests.ask_first(&subject).is_none(), "there is a line");
        place.leave();
        drop(contests.ask_first(&subject).expect("nobody is there"));
        assert!(!contests.is_asked_for(&subject.key));
    }

    /// A short wait behind it would say that others have the lock, and nobody knows.
    #[test]
    fn who_asks_without_an_answer_is_not_waited_for() {
        let contests = Contests::default();
        let subject = subject(&Reentrant);
        let asking = contests.ask_first(&subject).expect("nobody is there");
        let long_ago = Instant::now().checked_sub(Duration::from_millis(150));
        let long_ago = long_ago.expect("the machine runs for longer");
        (contests.alone.lock().asked).insert(Arc::clone(&subject.key), long_ago);
        assert!(!contests.is_asked_for(&subject.key));
        assert!(contests.ask_first(&subject).is_none(), "it still asks");
        asking.settled();
        assert!(contests.ask_first(&subject).is_some());
    }

    #[test]
    fn who_left_it_to_others_lets_them_go_first_once() {
        let contests = Contests::default();
        let subject = subject(&Reentrant);
        let until = Instant::now() + Duration::from_secs(60);
        contests.leave_to_others(&subject.key, until);
        contests.leave_to_others(&"M".into(), Instant::now());
        contests.leave_to_others(&"N".into(), until);
        assert_eq!(contests.alone.lock().left.len(), 2, "what is over goes");
        let rests = || contests.ask_first(&subject).expect("nobody is there").rests;
        assert_eq!(rests(), Some(until));
        assert_eq!(rests(), None);
    }

    #[test]
    fn who_stops_asking_tells_those_behind_it() {
        let contests = Contests::default();
        let subject = subject(&Reentrant);
        let asking = contests.ask_first(&subject).expect("nobody is there");
        let place = contests.join(&subject, wish(&subject, "u:2"), true, false);
        let seen = place.contest.seen();
        drop(asking);
        assert!(place.contest.seen() > seen);
        place.leave();
    }
}
