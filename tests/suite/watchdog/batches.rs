//! One bad key does not cost the others their renewal.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use lockson::{Client, Ended, ErrorKind, Event, LockGuard, LostReason};
use redis::Commands;

use super::{BOUND, millis, pttl, taken};
use crate::support::{Ground, Server, Told, connect_to, eventually};

#[test]
fn a_key_of_another_type_does_not_stop_its_batch() {
    let ground = Ground::new();
    let server = ground.server();
    let (client, told) = in_batches_of_50(&ground, &server.url());
    let mut guards = hold(&client, &ground.name("L"));
    let bad = guards.remove(77);
    server.cli(&["SET", bad.name(), "something else"]);
    assert_eq!(bad.lost().wait(BOUND), Ended::Lost(LostReason::Gone));
    all_kept(&server, &guards);
    let holder = bad.holder().to_owned();
    assert_eq!(
        told.lost(),
        [(bad.name().to_owned(), holder, LostReason::Gone)]
    );
    let error = bad.unlock().expect_err("gone");
    assert_eq!(error.kind(), ErrorKind::WrongType, "{error}");
    for guard in guards {
        guard.unlock().expect("held");
    }
    let keys: Vec<String> = server.connection().keys("*").expect("KEYS");
    assert_eq!(keys.len(), 1, "what somebody else wrote is left alone");
    server.cli(&["FLUSHALL"]);
}

#[test]
fn deleted_keys_do_not_stop_their_batch() {
    let ground = Ground::new();
    let server = ground.server();
    let (client, told) = in_batches_of_50(&ground, &server.url());
    let mut guards = hold(&client, &ground.name("L"));
    let gone: Vec<_> = [140, 90, 60, 0].map(|place| guards.remove(place)).into();
    for guard in &gone {
        server.cli(&["DEL", guard.name()]);
    }
    for guard in &gone {
        assert_eq!(guard.lost().wait(BOUND), Ended::Lost(LostReason::Gone));
    }
    all_kept(&server, &guards);
    assert_eq!(told.lost().len(), gone.len());
}

#[test]
fn a_key_without_permission_does_not_stop_its_batch() {
    let ground = Ground::new();
    let server = ground.server();
    server.cli(&["ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all"]);
    let (client, told) = in_batches_of_50(&ground, &format!("redis://u:p@{}/", server.addr()));
    let base = ground.name("L");
    let mut guards = hold(&client, &base);
    // Numbers that begin with 3: eleven of them, in one batch or another.
    let allowed: Vec<String> = [0, 1, 2, 4, 5, 6, 7, 8, 9]
        .iter()
        .map(|digit| format!("~{base}-{digit}*"))
        .collect();
    let mut order = vec!["ACL", "SETUSER", "u", "resetkeys"];
    order.extend(allowed.iter().map(String::as_str));
    server.cli(&order);
    let forbidden = format!("{base}-3");
    let (refused, kept): (Vec<_>, Vec<_>) = guards
        .drain(..)
        .partition(|guard| guard.name().starts_with(&forbidden));
    assert_eq!(refused.len(), 11);

    for guard in &refused {
        assert_eq!(guard.lost().wait(BOUND), Ended::Lost(LostReason::Expired));
    }
    all_kept(&server, &kept);
    let lost: HashSet<String> = told.lost().into_iter().map(|(name, ..)| name).collect();
    let names: HashSet<String> = refused
        .iter()
        .map(|guard| guard.name().to_owned())
        .collect();
    assert_eq!(lost, names);
    let mut complained = HashSet::new();
    for event in told.all() {
        if let Event::RenewalFailed { names, error, .. } = event {
            assert_eq!(error.kind(), ErrorKind::NoPermission, "{error}");
            complained.extend(names.iter().map(|name| name.to_string()));
        }
    }
    assert_eq!(complained, names);
    for guard in refused {
        let error = guard.unlock().expect_err("forbidden");
        assert_eq!(error.kind(), ErrorKind::NoPermission, "{error}");
    }
    drop(kept);
    eventually(BOUND, "the keys run out", || {
        server
            .connection()
            .keys::<_, Vec<String>>("*")
            .is_ok_and(|keys| keys.is_empty())
    });
}

fn in_batches_of_50(ground: &Ground, url: &str) -> (Client, Told) {
    let told = Told::default();
    let client = connect_to(ground, url, |builder| {
        builder
            .lock_watchdog_timeout(TIMEOUT)
            .lock_watchdog_batch_size(50)
            .on_event(told.handler())
    });
    (client, told)
}

fn hold(client: &Client, base: &str) -> Vec<LockGuard> {
    (0..150)
        .map(|number| taken(&client.reentrant_lock(format!("{base}-{number}"))))
        .collect()
}

/// Each of them is renewed twice at least, counted from now.
#[track_caller]
fn all_kept(server: &Server, guards: &[LockGuard]) {
    let mut spy = server.connection();
    let ends = || -> Vec<Instant> {
        let end = |guard: &LockGuard| Instant::now() + guard.remaining();
        guards.iter().map(end).collect()
    };
    for _ in 0..2 {
        let before = ends();
        eventually(BOUND, "each is renewed", || {
            let now = ends();
            (0..guards.len()).all(|place| now[place] > before[place] + millis(100))
        });
    }
    for guard in guards {
        assert!(guard.is_held(), "{}", guard.name());
        assert!(pttl(&mut spy, guard.name()) > 0, "{}", guard.name());
    }
}

const TIMEOUT: Duration = millis(1500);
