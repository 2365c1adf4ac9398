//! `options()`: what fits together.

use std::{
    thread,
    time::{Duration, Instant},
};

use lockson::{Ended, ErrorKind, LostReason, Ttl};

use super::{SOON, millis, seconds_left, secs, taken};
use crate::support::{Ground, connect, eventually};

#[test]
fn one_try_with_a_lease() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let options = lock.options().wait(Duration::ZERO).lease(secs(7));

    let guard = options.clone().acquire().expect("answered").expect("free");
    assert_eq!(seconds_left(&lock), 7);
    assert_eq!(client.state().renewals, 0);
    let again = options.clone().acquire().expect("answered").expect("ours");
    assert_eq!(again.holder(), guard.holder());
    assert!(options.clone().acquire_owned().expect("answered").is_none());
    drop((guard, again));

    let guard = options.acquire_owned().expect("answered").expect("free");
    assert_eq!(seconds_left(&lock), 7);
    thread::spawn(move || guard.unlock())
        .join()
        .expect("the thread ends well")
        .expect("held");
}

#[test]
fn one_try_without_a_lease_is_try_lock() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let options = lock.options().wait(Duration::ZERO);
    let guard = options.acquire().expect("answered").expect("free");
    assert_eq!(seconds_left(&lock), 30);
    assert_eq!(client.state().renewals, 1);
    drop(guard);
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    let calls = ground.server().script_calls();
    let base = lock.options().wait(Duration::ZERO);
    for (what, options) in [
        ("max_hold", base.clone().lease(secs(1)).max_hold(secs(2))),
        ("max_hold", base.clone().max_hold(Duration::ZERO)),
        ("lease", base.clone().lease(Duration::ZERO)),
        ("lease", base.clone().lease(Duration::MAX)),
        ("lease", lock.options().wait(secs(1)).lease(Duration::ZERO)),
    ] {
        for error in [
            options.clone().acquire().expect_err(what),
            options.acquire_owned().expect_err(what),
        ] {
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            assert!(error.to_string().contains(what), "{error}");
            assert_eq!(error.name(), Some(lock.name()));
        }
    }
    assert_eq!(ground.server().script_calls(), calls);
}

#[test]
fn max_hold_bounds_what_the_watchdog_does() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let options = lock.options().wait(Duration::ZERO);

    let most = millis(400);
    let guard = options.clone().max_hold(most).acquire();
    let guard = guard.expect("answered").expect("free");
    assert!(guard.remaining() <= most);
    assert_eq!(client.state().renewals, 1);
    assert_eq!(guard.lost().wait(SOON), Ended::Lost(LostReason::Expired));
    assert!(!guard.is_held());
    eventually(SOON, "the key ends", || {
        lock.remaining_ttl().expect("answered") == Ttl::Free
    });
    drop(guard);

    // Longer than the watchdog's timeout: the first TTL is the timeout.
    let guard = options.max_hold(secs(3600)).acquire();
    let guard = guard.expect("answered").expect("free");
    assert_eq!(seconds_left(&lock), 30);
    drop(guard);
}

#[test]
fn a_wait_is_counted_from_when_it_was_set() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let rival = connect(&ground).reentrant_lock(lock.name());
    let guard = taken(&rival);
    let options = lock.options().wait(millis(30));
    for _ in 0..2 {
        assert!(options.clone().acquire().expect("answered").is_none());
        assert!(options.clone().acquire_owned().expect("answered").is_none());
    }
    guard.unlock().expect("held");
    // A wait that is over is still one try.
    let guard = options.acquire().expect("answered").expect("free");
    guard.unlock().expect("held");
    assert_eq!(client.state().waiters, 0);
}

#[test]
fn without_a_wait_it_waits_for_ever() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let rival = connect(&ground).reentrant_lock(lock.name());
    for options in [
        lock.options(),
        lock.options().wait(Duration::MAX),
        lock.options().wait_until(Instant::now() + secs(3600)),
    ] {
        let guard = taken(&rival);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let guard = options.acquire().expect("answered").expect("woken");
                assert_eq!(seconds_left(&lock), 30);
                guard.unlock().expect("held");
            });
            eventually(SOON, "it waits", || client.state().waiters == 1);
            guard.unlock().expect("held");
            waiting.join().expect("it got in");
        });
    }
}
