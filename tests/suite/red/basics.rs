//! A majority, in time, or nothing.

use std::{
    thread,
    time::{Duration, Instant},
};

use lockson::{AnyLock, Client, ErrorKind, RedLock};
use redis::Commands;

use super::{Scene, clients, red};
use crate::support::{Ground, log_everything, logged, watched};

#[test]
fn a_majority_is_enough_and_less_is_nothing() {
    for members in [3_usize, 5] {
        let ground = Ground::new();
        let scene = Scene::new(&ground, members);
        let lock = scene.lock();
        // Every pattern of members that somebody else has.
        for mask in 0..1_u32 << members {
            let is_taken = |place: usize| mask & (1 << place) != 0;
            for (place, server) in scene.servers.iter().enumerate() {
                if is_taken(place) {
                    let mut redis = server.connection();
                    let _: i64 = redis.hset(&scene.name, "other:1", 1).expect("HSET");
                }
            }
            let free = members - mask.count_ones() as usize;
            let taken = lock.try_lock().expect("answered");
            assert_eq!(taken.is_some(), free > members / 2, "{mask:b}");
            if let Some(guard) = taken {
                let holders: Vec<&str> = guard.holder().split(',').collect();
                for (place, holder) in holders.iter().enumerate() {
                    assert_eq!(*holder == "-", is_taken(place), "{holders:?}");
                }
                guard.unlock().expect("held");
            }
            for (place, server) in scene.servers.iter().enumerate() {
                let mut redis = server.connection();
                let fields: Vec<String> = redis.hkeys(&scene.name).expect("HKEYS");
                let expected: &[&str] = if is_taken(place) { &["other:1"] } else { &[] };
                assert_eq!(fields, expected, "{mask:b}");
                let _: i64 = redis.del(&scene.name).expect("DEL");
            }
        }
    }
}

#[test]
fn validity_is_what_is_left_of_the_lease() {
    let ground = Ground::new();
    let scene = Scene::new(&ground, 3);
    let lock = scene.lock();
    let guard = lock
        .try_lock_with_lease(Duration::from_secs(10))
        .expect("answered")
        .expect("free");
    let validity = guard.validity();
    // Less one hundredth and two milliseconds.
    assert!(validity <= Duration::from_millis(9898), "{validity:?}");
    assert!(validity > Duration::from_secs(8), "{validity:?}");
    assert!(lock.is_held_by_current_thread().expect("answered"));
    let again = lock.lock().expect("its own");
    again.unlock().expect("held");
    guard.verify().expect("held");
    guard.unlock().expect("held");
    // Nothing would be left of it.
    let short = lock.try_lock_with_lease(Duration::from_millis(1));
    assert!(short.expect("answered").is_none());
}

#[test]
fn members_that_do_not_fit_are_refused() {
    let ground = Ground::new();
    let scene = Scene::new(&ground, 1);
    let same = clients(&ground, &scene.servers, |plain| plain);
    let member = |one: &lockson::Client| one.reentrant_lock(&scene.name).into();
    let errors = [
        RedLock::new([]).expect_err("none"),
        RedLock::new([member(&scene.clients[0]), member(&same[0])]).expect_err("one server"),
        RedLock::new([scene.lock().into()]).expect_err("made of several"),
        lockson::MultiLock::new([scene.lock().into()]).expect_err("made of several"),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    }
    scene
        .lock()
        .lock()
        .expect("one is allowed")
        .unlock()
        .expect("held");
}

#[test]
fn a_server_by_another_name_is_the_same() {
    let ground = Ground::new();
    let member = |url: &str| -> AnyLock {
        let client = watched(&ground, Client::builder().connect_lazy(url));
        client.reentrant_lock("L").into()
    };
    for (one, other) in [
        ("redis://127.0.0.1:7001/", "redis://localhost:7001/"),
        ("redis://LocalHost:7001/", "redis://[::1]:7001/1"),
        ("redis://Some.Host/", "redis://some.host:6379/"),
        ("redis://[2001:db8::1]/", "redis://[2001:DB8:0::1]/"),
        ("unix:///one.sock", "unix:///one.sock"),
    ] {
        let error = RedLock::new([member(one), member(other)]).expect_err(other);
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    }
    for (one, other) in [
        ("redis://127.0.0.1:7001/", "redis://127.0.0.1:7002/"),
        ("redis://127.0.0.1/", "redis://127.0.0.2/"),
        ("redis://one/", "redis://two/"),
        ("unix:///one.sock", "unix:///ONE.sock"),
    ] {
        RedLock::new([member(one), member(other)]).expect("two servers");
    }
}

#[test]
fn few_and_even_numbers_are_warned_about() {
    let ground = Ground::new();
    log_everything();
    for number in 1..=6_usize {
        let members = (0..number).map(|place| {
            let url = format!("redis://host-{place}/");
            let client = watched(&ground, Client::builder().connect_lazy(&url));
            client.reentrant_lock("L").into()
        });
        RedLock::new(members).expect("servers of their own");
        let start = format!("WARN lockson::red a RedLock of {number} ");
        let warned = logged(|lines| lines.iter().any(|line| line.starts_with(&start)));
        assert_eq!(warned, number < 3 || number % 2 == 0, "{number}");
    }
}

#[test]
fn who_waits_is_told() {
    let ground = Ground::new();
    let scene = Scene::new(&ground, 3);
    let others = clients(&ground, &scene.servers, |plain| plain);
    let (lock, other) = (scene.lock(), red(&others, &scene.name));
    let guard = lock.lock().expect("free");
    let began = Instant::now();
    let refused = other.try_lock_for(Duration::from_millis(300));
    assert!(refused.expect("answered").is_none());
    assert!(began.elapsed() >= Duration::from_millis(300));
    thread::scope(|scope| {
        let waiter = scope.spawn(|| other.lock().map(|guard| guard.unlock()));
        scene.assert_heard();
        guard.unlock().expect("held");
        waiter
            .join()
            .expect("ends well")
            .expect("let in")
            .expect("held");
    });
}
