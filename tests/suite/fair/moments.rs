//! The head gives up at the very moment in which it is told: the word belongs to the next.

use std::{
    thread,
    time::{Duration, Instant},
};

use lockson::{CancelToken, ErrorKind, FairLock};

use super::{SOON, millis, nobody_waits, queue};
use crate::support::{Ground, connect, eventually};

#[test]
fn cancelled_when_told_the_next_is_never_left_asleep() {
    rounds(|lock, token, end| {
        thread::scope(|scope| {
            scope.spawn(|| {
                sleep_until(end);
                token.cancel();
            });
            match lock.options().cancel(token).acquire() {
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
fn timed_out_when_told_the_next_is_never_left_asleep() {
    rounds(|lock, _, end| lock.try_lock_until(end).expect("answered").is_some());
}

/// Three hundred times: the head waits until `end`, another behind it for as long as it takes, and
/// the lock is released shortly before `end`, shortly after, or just then.
fn rounds(wait: impl Fn(&FairLock, &CancelToken, Instant) -> bool + Sync) {
    let ground = Ground::alone();
    let server = ground.server();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let lock = ours.fair_lock(&name);
    let (mut got, mut left, mut aimed) = (0, 0, 0);
    let mut longest = Duration::ZERO;
    for round in 0..ROUNDS {
        // The holder, the head and the next, of one client or of two.
        let of = |bit: u64| [&ours, &theirs][usize::from(round & bit != 0)].fair_lock(&name);
        let (holder, head, behind) = (of(1), of(2), of(4));
        let guard = holder.lock_owned().expect("free");
        let shot = Instant::now() + LEAD;
        // From before the release is sent until after it was heard of.
        let end = shot - Duration::from_micros(300) + Duration::from_micros(round * 7 % 1000);
        let token = CancelToken::new();
        thread::scope(|scope| {
            let first = scope.spawn(|| wait(&head, &token, end));
            let stand = |count| {
                eventually(SOON, "they stand in the queue", || {
                    first.is_finished() || queue(&server, &lock).len() >= count
                });
            };
            stand(1);
            let next = scope.spawn(|| {
                behind.lock().expect("told").unlock().expect("held");
                Instant::now()
            });
            stand(2);
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
    assert!(aimed > 0, "no round was in time");
    // Who is not told looks by itself after 250 ms at the soonest, as a rule after three seconds.
    assert!(longest < millis(1000), "the next slept for {longest:?}");
    nobody_waits(&server, &[&ours, &theirs], &lock);
}

/// Precisely: the last part is not slept.
fn sleep_until(moment: Instant) {
    let left = moment.saturating_duration_since(Instant::now());
    thread::sleep(left.saturating_sub(Duration::from_micros(200)));
    while Instant::now() < moment {
        std::hint::spin_loop();
    }
}

const ROUNDS: u64 = 300;

/// Time for two threads to take their places.
const LEAD: Duration = millis(25);
