//! A wait that ends at the very moment of its wake: what it was woken for belongs to the next.

use std::{
    thread,
    time::{Duration, Instant},
};

use lockson::{CancelToken, ErrorKind, ReentrantLock};

use super::{SOON, millis, nothing_left};
use crate::support::{Ground, connect};

#[test]
fn cancelled_at_the_moment_of_the_wake_the_next_is_never_left_asleep() {
    rounds(|lock, end| {
        let token = CancelToken::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                sleep_until(end);
                token.cancel();
            });
            match lock.options().cancel(&token).acquire() {
                Ok(guard) => guard.is_some(),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Cancelled);
                    false
                }
            }
        })
    });
}

#[test]
fn timed_out_at_the_moment_of_the_wake_the_next_is_never_left_asleep() {
    rounds(|lock, end| lock.try_lock_until(end).expect("answered").is_some());
}

/// A thousand times: one waits until `end`, another behind it for as long as it takes, and the lock
/// is released shortly before `end`, shortly after, or just then.
fn rounds(wait: impl Fn(&ReentrantLock, Instant) -> bool + Sync) {
    let ground = Ground::alone();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let lock = ours.reentrant_lock(&name);
    let (mut got, mut left, mut aimed) = (0, 0, 0);
    let mut longest = Duration::ZERO;
    for round in 0..ROUNDS {
        // The hold comes from another client, or from a thread of this one.
        let holder = [&theirs, &ours][usize::from(round % 2 == 1)];
        let guard = holder.reentrant_lock(&name).lock_owned().expect("free");
        let shot = Instant::now() + LEAD;
        // From before the release is sent until after it was heard of.
        let end = shot - Duration::from_micros(300) + Duration::from_micros(round * 7 % 1000);
        thread::scope(|scope| {
            let first = scope.spawn(|| wait(&lock, end));
            let both = |count| {
                let bound = Instant::now() + SOON;
                // Without a sleep in between: the moment is near.
                while ours.state().waiters < count && !first.is_finished() {
                    assert!(Instant::now() < bound, "{count} wait");
                    thread::yield_now();
                }
            };
            both(1);
            let next = scope.spawn(|| {
                lock.lock().expect("woken").unlock().expect("held");
                Instant::now()
            });
            both(2);
            aimed += u64::from(Instant::now() < shot && !first.is_finished());
            sleep_until(shot);
            let freed = Instant::now();
            guard.unlock().expect("held");
            let entered = next.join().expect("it got in");
            longest = longest.max(entered.saturating_duration_since(freed));
            match first.join().expect("ends well") {
                true => got += 1,
                false => left += 1,
            }
        });
    }
    println!("{got} got in, {left} left, {aimed} in time; the next after {longest:?} at most");
    assert!(got > 0 && left > 0, "both happen");
    // How many is for the machine to say, and for what else it is doing.
    assert!(aimed > 0, "no round was in time");
    // A wake that was lost shows as a sleep of three seconds.
    assert!(longest < millis(1000), "the next slept for {longest:?}");
    nothing_left(&ground, &[&ours, &theirs], &lock);
}

/// Precisely: the last part is not slept.
fn sleep_until(moment: Instant) {
    let left = moment.saturating_duration_since(Instant::now());
    thread::sleep(left.saturating_sub(Duration::from_micros(200)));
    while Instant::now() < moment {
        std::hint::spin_loop();
    }
}

const ROUNDS: u64 = 1_000;

/// Time for two threads to begin to wait.
const LEAD: Duration = millis(3);
