//! Arguments and settings that cannot be: refused by name, and nothing is sent.

use std::time::Duration;

use lockson::{Client, ClientBuilder, Error, ErrorKind, ReentrantLock, Ttl};

use super::{SOON, leased, millis, secs, taken};
use crate::support::{Ground, connect, connect_with, eventually};

const MEBIBYTE: usize = 1 << 20;

#[test]
fn names_that_are_none() {
    let ground = Ground::new();
    let plain = connect(&ground);
    let mapped = connect_with(&ground, |plain| {
        plain.name_mapper(|name| match name {
            "nothing" => String::new(),
            _ => "x".repeat(MEBIBYTE + 1),
        })
    });
    assert_untouched(&ground, || {
        for lock in [
            plain.reentrant_lock(""),
            plain.reentrant_lock("x".repeat(MEBIBYTE + 1)),
            mapped.reentrant_lock("nothing"),
            mapped.reentrant_lock("much"),
        ] {
            for error in refusals(&lock) {
                assert_eq!(error.kind(), ErrorKind::Config);
                assert!(error.to_string().contains("name"), "{error}");
                assert!(error.to_string().len() < 1000);
                let key = error.name().expect("it is about a key");
                assert!(key.is_empty() || key.len() == MEBIBYTE + 1);
            }
        }
    });
}

#[test]
fn the_longest_name_is_a_good_one() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock("x".repeat(MEBIBYTE));
    let guard = taken(&lock);
    assert!(lock.is_locked().expect("answered"));
    guard.unlock().expect("held");
    assert!(!lock.is_locked().expect("answered"));
}

#[test]
fn leases_that_are_none() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    assert_untouched(&ground, || {
        for lease in [Duration::ZERO, TEN_YEARS + millis(1), Duration::MAX] {
            for error in [
                lock.try_lock_with_lease(lease).expect_err("no lease"),
                lock.try_lock_owned_with_lease(lease).expect_err("no lease"),
            ] {
                assert_eq!(error.kind(), ErrorKind::Config);
                assert_eq!(error.name(), Some(lock.name()));
                assert!(error.to_string().contains("lease"), "{error}");
            }
        }
    });
    // Nor can a hold be given one later.
    let guard = leased(&lock, secs(20));
    for lease in [Duration::ZERO, TEN_YEARS + millis(1), Duration::MAX] {
        let error = guard.extend(lease).expect_err("no lease");
        assert_eq!(error.kind(), ErrorKind::Config);
        assert_eq!(error.name(), Some(lock.name()));
    }
    assert_eq!(super::seconds_left(&lock), 20);
    guard.verify().expect("there");
    guard.unlock().expect("held");
}

#[test]
fn the_longest_lease_is_a_good_one() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    let guard = leased(&lock, TEN_YEARS);
    let Ttl::Left(left) = lock.remaining_ttl().expect("answered") else {
        panic!("the key ends some day");
    };
    assert!(left <= TEN_YEARS && left > TEN_YEARS - secs(60), "{left:?}");
    guard.unlock().expect("held");
}

#[test]
fn a_lease_is_rounded_up_to_milliseconds() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    let monitor = ground.server().monitor();
    for (lease, millis) in [
        (Duration::from_micros(500), 1),
        (Duration::from_nanos(1), 1),
        (Duration::from_micros(1500), 2),
    ] {
        let guard = leased(&lock, lease);
        // PEXPIRE 0 would have deleted the key, and no PEXPIRE left it for ever.
        let told = monitor.take();
        let expiry = format!("\"pexpire\" \"{}\" \"{millis}\"", lock.name());
        assert!(told.iter().any(|line| line.contains(&expiry)), "{told:#?}");
        eventually(SOON, "the key ends", || {
            lock.remaining_ttl().expect("answered") == Ttl::Free
        });
        assert!(!guard.is_held());
        drop(guard);
    }
}

#[test]
fn settings_that_are_none() {
    type Setting = fn(ClientBuilder, Duration) -> ClientBuilder;
    let ground = Ground::new();
    let durations: [(&str, Setting); 5] = [
        (
            "lock_watchdog_timeout",
            ClientBuilder::lock_watchdog_timeout,
        ),
        (
            "fair_lock_wait_timeout",
            ClientBuilder::fair_lock_wait_timeout,
        ),
        ("response_timeout", ClientBuilder::response_timeout),
        ("connect_timeout", ClientBuilder::connect_timeout),
        (
            "red_lock_member_timeout",
            ClientBuilder::red_lock_member_timeout,
        ),
    ];
    let mut bad = vec![
        ("pool_size", Client::builder().pool_size(0)),
        ("pool_size", Client::builder().pool_size(usize::MAX)),
        (
            "lock_watchdog_batch_size",
            Client::builder().lock_watchdog_batch_size(0),
        ),
        (
            "retry_timeout",
            Client::builder().retry_timeout(Duration::MAX),
        ),
    ];
    for (name, set) in durations {
        for value in [Duration::ZERO, Duration::MAX] {
            bad.push((name, set(Client::builder(), value)));
        }
    }
    let url = ground.server().url();
    assert_untouched(&ground, || {
        let monitor = ground.server().monitor();
        for (name, builder) in bad {
            for refused in [builder.clone().connect(&url), builder.connect_lazy(&url)] {
                let error = refused.expect_err(name);
                assert_eq!(error.kind(), ErrorKind::Config);
                assert!(error.to_string().contains(name), "{error}");
            }
        }
        assert_eq!(monitor.take(), [""; 0], "not even connected");
    });
}

/// Every call that there is on a lock.
fn refusals(lock: &ReentrantLock) -> Vec<Error> {
    let lease = secs(5);
    vec![
        lock.try_lock().expect_err("no name"),
        lock.try_lock_with_lease(lease).expect_err("no name"),
        lock.try_lock_owned().expect_err("no name"),
        lock.try_lock_owned_with_lease(lease).expect_err("no name"),
        lock.is_locked().expect_err("no name"),
        lock.is_held_by_current_thread().expect_err("no name"),
        lock.hold_count().expect_err("no name"),
        lock.remaining_ttl().expect_err("no name"),
        lock.force_unlock().expect_err("no name"),
        lock.inspect().expect_err("no name"),
    ]
}

/// Runs what must be refused before anything is sent.
#[track_caller]
fn assert_untouched(ground: &Ground, body: impl FnOnce()) {
    let server = ground.server();
    let calls = server.script_calls();
    body();
    assert_eq!(server.cli(&["DBSIZE"]), redis::Value::Int(0));
    assert_eq!(server.script_calls(), calls);
}

const TEN_YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
