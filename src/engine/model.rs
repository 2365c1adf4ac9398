//! The waiting machinery under a model checker: many orders of events, each wait without end.
//!
//! `RUSTFLAGS="--cfg lockson_model" cargo test --lib model` runs it. The contests, holds and the
//! registry are the real ones; Redis is a value, and its messages are threads. Who is left asleep
//! for ever is a deadlock, which the checker reports. Each model has a twin with a bug in it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use shuttle::{sync::Mutex, thread};

use super::{
    contest::{Contest, Granted, Left, Outcome, Turn, Wish},
    hold::{Hold, Keep},
    registry::Registry,
};
use crate::{
    event::LostReason,
    protocol::{Fair, Reentrant, Subject},
};

const ORDERS: usize = 20_000;
const NO_END: Duration = Duration::from_secs(3600);

/// Who holds the lock, as Redis sees it.
type Redis = Arc<Mutex<Option<Arc<str>>>>;

#[derive(Clone, Copy, PartialEq)]
enum Bug {
    None,
    /// Who was refused forgets what it heard while it asked.
    ForgetsNews,
    /// Who gives up drops what it was handed.
    DropsGrant,
    /// Who joined forgets that somebody has claimed it meanwhile.
    ForgetsClaim,
    /// Who gives up does not care that somebody is about to hand it the lock.
    IgnoresClaim,
    /// The watchdog does not look whether the hold was released meanwhile.
    TrustsGone,
}

/// One thread of our client, one holder elsewhere whose message comes at any moment.
fn a_message_is_never_missed(bug: Bug) {
    let redis: Redis = Arc::new(Mutex::new(Some("elsewhere:1".into())));
    let contest = Arc::new(Contest::new(&Reentrant));
    assert!(contest.should_listen());
    let waiter = {
        let (redis, contest) = (Arc::clone(&redis), Arc::clone(&contest));
        thread::spawn(move || wait(&redis, &contest, 1, bug))
    };
    *redis.lock().unwrap() = None;
    contest.heard();
    assert!(waiter.join().unwrap(), "it got in");
}

/// A holds; B and C wait; A hands over while B is cancelled: somebody gets in, and C for sure.
fn who_gives_up_passes_the_lock_on(bug: Bug) {
    let redis: Redis = Arc::new(Mutex::new(Some("ours:0".into())));
    let contest = Arc::new(Contest::new(&Reentrant));
    assert!(contest.should_listen());
    // As if asked before: nobody asks unless there is news.
    contest.held_until(Instant::now() + NO_END, contest.seen());
    let numbers = [1, 2].map(|number| (number, contest.join(wish(number), true, false)));
    let waiters = numbers.map(|(name, place)| {
        let (redis, contest) = (Arc::clone(&redis), Arc::clone(&contest));
        thread::spawn(move || wait_at(&redis, &contest, name, place, bug))
    });
    let canceller = {
        let contest = Arc::clone(&contest);
        thread::spawn(move || contest.cancel(numbers[0].1))
    };
    release(&redis, &contest, "ours:0");
    canceller.join().unwrap();
    let [_, second] = waiters.map(|waiter| waiter.join().unwrap());
    assert!(second, "who did not give up gets in");
    assert_eq!(*redis.lock().unwrap(), None, "nothing is left");
}

/// Refused just before it joined, and handed the lock as soon as it did: it has it once.
fn a_newcomer_has_one_hold(bug: Bug) {
    let redis: Redis = Arc::new(Mutex::new(Some("ours:0".into())));
    let contest = Arc::new(Contest::new(&Fair));
    assert!(contest.should_listen());
    let newcomer = {
        let (redis, contest) = (Arc::clone(&redis), Arc::clone(&contest));
        thread::spawn(move || {
            let wish = wish(1);
            let hold = Arc::clone(&wish.hold);
            let place = contest.join(wish, true, false);
            contest.asked(place, Outcome::Refused(3_600_000), true);
            if bug == Bug::ForgetsClaim {
                assert!(contest.let_go(place));
            }
            contest.left_the_client();
            contest.heard();
            loop {
                match contest.turn(place, None, NO_END) {
                    Turn::Granted(_) => break,
                    Turn::Ask(_) => {
                        let own = *redis.lock().unwrap() == Some(Arc::clone(&hold.holder));
                        let free = redis.lock().unwrap().is_none();
                        if own || free {
                            hold.grant(Keep::Leased, Instant::now() + NO_END);
                            contest.asked(place, Outcome::Held, true);
                            break;
                        }
                        contest.asked(place, Outcome::Refused(3_600_000), true);
                    }
                    _ => unreachable!("it waits for ever"),
                }
            }
            hold
        })
    };
    if let Some((place, wish)) = contest.pick() {
        *redis.lock().unwrap() = Some(Arc::clone(&wish.hold.holder));
        let share = wish.hold.grant(wish.keep, Instant::now() + NO_END);
        let granted: Granted = (Arc::clone(&wish.hold), share.expect("new"));
        let _ = contest.grant(place, granted);
    } else {
        *redis.lock().unwrap() = None;
        contest.heard();
    }
    let hold = newcomer.join().unwrap();
    assert_eq!(hold.count(), 1, "one hold");
}

/// A waiter in Redis' queue gives up while somebody tries to hand it the lock, in vain: its place is
/// left by exactly one of the two.
fn a_place_is_left_once(bug: Bug) {
    let left = Arc::new(Mutex::new(0));
    let contest = Arc::new(Contest::new(&Fair));
    // Else it looks by itself after a tenth of a second, by the real clock.
    assert!(contest.should_listen());
    contest.held_until(Instant::now() + NO_END, contest.seen());
    let place = contest.join(wish(1), true, false);
    let waiter = {
        let (left, contest) = (Arc::clone(&left), Arc::clone(&contest));
        thread::spawn(move || {
            assert!(matches!(contest.turn(place, None, NO_END), Turn::Cancelled));
            let claimed = contest.leave(place).claimed && bug != Bug::IgnoresClaim;
            *left.lock().unwrap() += u32::from(!claimed);
        })
    };
    let canceller = {
        let contest = Arc::clone(&contest);
        thread::spawn(move || contest.cancel(place))
    };
    if let Some((number, _)) = contest.pick() {
        thread::yield_now();
        *left.lock().unwrap() += u32::from(!contest.let_go(number));
    }
    canceller.join().unwrap();
    waiter.join().unwrap();
    assert_eq!(*left.lock().unwrap(), 1, "left once");
}

/// The watchdog asks while the guard releases: that is no loss.
fn a_release_is_never_taken_for_a_loss(bug: Bug) {
    let redis: Redis = Arc::new(Mutex::new(Some("ours:1".into())));
    let registry = Arc::new(Registry::default());
    let hold = Arc::new(hold(1));
    let share = hold.grant(Keep::Renewed(None), Instant::now() + NO_END);
    let (share, _) = share.expect("new");
    registry.insert(Arc::clone(&hold));
    let watchdog = {
        let (redis, registry) = (Arc::clone(&redis), Arc::clone(&registry));
        thread::spawn(move || {
            for hold in registry.all() {
                if hold.wanted(NO_END).is_none() {
                    continue;
                }
                let there = redis.lock().unwrap().as_ref() == Some(&hold.holder);
                let lost = !there && (bug == Bug::TrustsGone || registry.contains(&hold));
                if lost {
                    hold.lose(LostReason::Gone);
                }
            }
        })
    };
    assert_eq!(hold.begin_release(share).count, 0);
    registry.remove(&hold);
    *redis.lock().unwrap() = None;
    hold.end_share(share);
    watchdog.join().unwrap();
    assert_eq!(hold.lost(), None, "it was released");
}

#[test]
fn messages() {
    shuttle::check_random(|| a_message_is_never_missed(Bug::None), ORDERS);
}

#[test]
#[should_panic(expected = "deadlock")]
fn messages_forgotten() {
    shuttle::check_random(|| a_message_is_never_missed(Bug::ForgetsNews), ORDERS);
}

#[test]
fn hand_overs() {
    shuttle::check_random(|| who_gives_up_passes_the_lock_on(Bug::None), ORDERS);
}

#[test]
#[should_panic(expected = "deadlock")]
fn hand_overs_dropped() {
    shuttle::check_random(|| who_gives_up_passes_the_lock_on(Bug::DropsGrant), ORDERS);
}

#[test]
fn newcomers() {
    shuttle::check_random(|| a_newcomer_has_one_hold(Bug::None), ORDERS);
}

#[test]
#[should_panic(expected = "one hold")]
fn newcomers_that_forget() {
    shuttle::check_random(|| a_newcomer_has_one_hold(Bug::ForgetsClaim), ORDERS);
}

#[test]
fn places() {
    shuttle::check_random(|| a_place_is_left_once(Bug::None), ORDERS);
}

#[test]
#[should_panic(expected = "left once")]
fn places_claimed() {
    shuttle::check_random(|| a_place_is_left_once(Bug::IgnoresClaim), ORDERS);
}

#[test]
fn renewals() {
    shuttle::check_random(|| a_release_is_never_taken_for_a_loss(Bug::None), ORDERS);
}

#[test]
#[should_panic(expected = "it was released")]
fn renewals_that_trust() {
    shuttle::check_random(
        || a_release_is_never_taken_for_a_loss(Bug::TrustsGone),
        ORDERS,
    );
}

fn wait(redis: &Redis, contest: &Contest, name: u32, bug: Bug) -> bool {
    let place = contest.join(wish(name), true, false);
    wait_at(redis, contest, name, place, bug)
}

/// The acquire loop, with a Redis that is a value. False when it was cancelled.
fn wait_at(redis: &Redis, contest: &Contest, name: u32, place: u64, bug: Bug) -> bool {
    let own: Arc<str> = format!("ours:{name}").into();
    let held = loop {
        match contest.turn(place, None, NO_END) {
            Turn::Granted(_) => break true,
            Turn::Ask(_) => {
                let mut holder = redis.lock().unwrap();
                if holder.is_none() {
                    *holder = Some(Arc::clone(&own));
                    drop(holder);
                    contest.asked(place, Outcome::Held, true);
                    break true;
                }
                drop(holder);
                contest.asked(place, Outcome::Refused(3_600_000), true);
                if bug == Bug::ForgetsNews {
                    contest.held_until(Instant::now() + NO_END, contest.seen());
                }
            }
            Turn::Cancelled => break false,
            Turn::Refused(error) => panic!("{error}"),
            Turn::TimedOut(_) => unreachable!("no wait ends by its time"),
        }
    };
    let Left { granted, .. } = contest.leave(place);
    if granted.is_some() && bug != Bug::DropsGrant {
        release(redis, contest, &own);
    }
    if held {
        release(redis, contest, &own);
    }
    held
}

/// The release: handed to the first in line, or free.
fn release(redis: &Redis, contest: &Contest, own: &str) {
    {
        let holder = redis.lock().unwrap();
        assert_eq!(holder.as_deref(), Some(own), "nobody else's");
    }
    let Some((place, wish)) = contest.pick() else {
        contest.releasing();
        *redis.lock().unwrap() = None;
        contest.released(1, false);
        return;
    };
    contest.releasing();
    *redis.lock().unwrap() = Some(Arc::clone(&wish.hold.holder));
    contest.settled();
    let share = wish.hold.grant(wish.keep, Instant::now() + NO_END);
    let granted: Granted = (Arc::clone(&wish.hold), share.expect("new"));
    if let Err((next, _)) = contest.grant(place, granted) {
        release(redis, contest, &next.holder);
    }
}

fn hold(number: u32) -> Hold {
    let subject = Arc::new(Subject::new(&Reentrant, "L".into(), "L".into()));
    Hold::new(
        subject,
        format!("ours:{number}").into(),
        None,
        Duration::ZERO,
    )
}

fn wish(number: u32) -> Wish {
    Wish {
        hold: Arc::new(hold(number)),
        lease: NO_END,
        keep: Keep::Leased,
    }
}
