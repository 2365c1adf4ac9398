//! A token by which another thread ends a wait.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use lockson::{CancelToken, ErrorKind};

use super::{
    SOON, channels, millis, nothing_left, secs, taken, wait_for_listener, wait_for_waiters,
};
use crate::{
    basics::connect,
    support::{Ground, eventually},
};

#[test]
fn a_token_that_is_cancelled_already_asks_nobody() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let token = CancelToken::new();
    let same = token.clone();
    assert!(!token.is_cancelled());
    same.cancel();
    same.cancel();
    assert!(token.is_cancelled());
    let calls = ground.server().script_calls();
    for options in [
        lock.options(),
        lock.options().wait(Duration::ZERO),
        lock.options().wait(SOON).lease(secs(1)),
    ] {
        let options = options.cancel(&token);
        let error = options.clone().acquire().expect_err("cancelled");
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        assert_eq!(error.name(), Some(lock.name()));
        let error = options.acquire_owned().expect_err("cancelled");
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    }
    assert_eq!(ground.server().script_calls(), calls);
}

#[test]
fn a_token_that_nobody_cancels_changes_nothing() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let token = CancelToken::new();
    let guard = lock.options().cancel(&token).acquire();
    let guard = guard.expect("answered").expect("free");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let guard = lock.options().cancel(&token).acquire();
            drop(guard.expect("answered").expect("woken"));
            let none = lock.options().cancel(&token).wait(millis(1)).acquire();
            drop(none.expect("answered"));
        });
        wait_for_waiters(&client, 1);
        guard.unlock().expect("held");
        waiting.join().expect("it got in");
    });
    // Too late: there is nothing to end any more.
    token.cancel();
    nothing_left(&ground, &[&client], &lock);
}

#[test]
fn one_token_ends_all_waits_that_have_it_and_no_other() {
    let ground = Ground::new();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let names = [ground.name("L"), ground.name("L")];
    let guards = names
        .each_ref()
        .map(|name| taken(&theirs.reentrant_lock(name)));
    let locks = names.each_ref().map(|name| ours.reentrant_lock(name));
    let token = CancelToken::new();
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..6)
            .map(|number| {
                let (lock, token) = (&locks[number % 2], token.clone());
                scope.spawn(move || {
                    let options = lock.options().cancel(&token);
                    let error = match number % 3 {
                        0 => options.acquire().map(drop),
                        1 => options.acquire_owned().map(drop),
                        _ => options.wait(secs(60)).lease(secs(9)).acquire().map(drop),
                    };
                    (error.expect_err("cancelled").kind(), Instant::now())
                })
            })
            .collect();
        let others: Vec<_> = locks
            .iter()
            .map(|lock| scope.spawn(move || lock.lock().expect("woken").unlock()))
            .collect();
        wait_for_waiters(&ours, 8);
        let start = Instant::now();
        token.cancel();
        for one in waiting {
            let (kind, ended) = one.join().expect("ends well");
            assert_eq!(kind, ErrorKind::Cancelled);
            assert!(ended - start < secs(1), "{:?}", ended - start);
        }
        assert_eq!(ours.state().waiters, 2, "the others wait on");
        drop(guards);
        for one in others {
            one.join().expect("ends well").expect("it got in");
        }
    });
    nothing_left(&ground, &[&ours, &theirs], &locks[0]);
}

#[test]
fn who_was_cancelled_leaves_nothing() {
    let ground = Ground::new();
    let server = ground.server();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let guard = taken(&theirs.reentrant_lock(&name));
    let lock = ours.reentrant_lock(&name);
    let token = CancelToken::new();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| lock.options().cancel(&token).acquire().map(drop));
        wait_for_listener(&server, &lock);
        token.cancel();
        let error = waiting.join().expect("ends well").expect_err("cancelled");
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    });
    let state = ours.state();
    assert_eq!((state.waiters, state.holds, state.renewals), (0, 0, 0));
    assert_eq!(lock.inspect().expect("answered").waiters, 0);
    guard.unlock().expect("untouched");
    eventually(SOON, "nothing is listened to", || {
        channels(&server).is_empty()
    });
    nothing_left(&ground, &[&ours, &theirs], &lock);
}

/// The wake that a cancelled waiter was about to use belongs to the next.
#[test]
fn cancelled_at_the_moment_of_the_wake_the_next_is_never_left_asleep() {
    let ground = Ground::alone();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let lock = ours.reentrant_lock(&name);
    let (got, cancelled) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut longest = Duration::ZERO;
    for round in 0..300_u64 {
        // The hold comes from another client, or from a thread of this one.
        let holder = [&theirs, &ours][usize::from(round % 2 == 1)];
        let guard = holder.reentrant_lock(&name).lock_owned().expect("free");
        let token = CancelToken::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                let taken = lock.options().cancel(&token).acquire().map(drop);
                let count = match taken {
                    Ok(()) => &got,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Cancelled);
                        &cancelled
                    }
                };
                count.fetch_add(1, Ordering::Relaxed);
            });
            wait_for_waiters(&ours, 1);
            let next = scope.spawn(|| {
                lock.lock().expect("woken").unlock().expect("held");
                Instant::now()
            });
            wait_for_waiters(&ours, 2);
            let shot = Instant::now() + Duration::from_micros(300);
            let token = &token;
            scope.spawn(move || {
                // From before the release is sent until after it was heard of.
                let shot = shot + Duration::from_micros(round * 7 % 600);
                while Instant::now() < shot {
                    std::hint::spin_loop();
                }
                token.cancel();
            });
            while Instant::now() < shot {
                std::hint::spin_loop();
            }
            let freed = Instant::now();
            guard.unlock().expect("held");
            let entered = next.join().expect("it got in");
            longest = longest.max(entered.saturating_duration_since(freed));
        });
    }
    println!("{got:?} got in, {cancelled:?} cancelled; the next after {longest:?} at most");
    assert!(
        got.into_inner() > 0 && cancelled.into_inner() > 0,
        "both happen"
    );
    assert!(
        longest < millis(1000),
        "the next was asleep for {longest:?}"
    );
    nothing_left(&ground, &[&ours, &theirs], &lock);
}
