//! Connections that died while nobody used them.

use std::{thread, time::Duration};

use lockson::{Client, ErrorKind};

use super::{BOUND, LONG, calls, connections_of, exists, holders, patience, timed};
use crate::support::{Ground, Server, eventually, watched};

#[test]
fn the_first_call_after_a_restart_works() {
    let ground = Ground::new();
    let server = ground.server();
    let client = watched(&ground, patience(LONG, LONG).connect(&server.url()));
    for pause in [Duration::ZERO, Duration::from_millis(1500)] {
        open_some(&ground, &client);
        server.restart();
        thread::sleep(pause);
        take_once(&ground, &server, &client);
    }
}

#[test]
fn the_first_call_after_the_server_closed_idle_connections_works() {
    let ground = Ground::new();
    let server = ground.server();
    let client = watched(&ground, patience(LONG, LONG).connect(&server.url()));
    open_some(&ground, &client);
    server.cli(&["CONFIG", "SET", "timeout", "1"]);
    eventually(BOUND, "the server closes what is idle", || {
        connections_of(&server, &client).is_empty()
    });
    server.cli(&["CONFIG", "SET", "timeout", "0"]);
    take_once(&ground, &server, &client);
}

#[test]
fn a_hold_that_a_restart_lost_is_not_held() {
    let ground = Ground::new();
    let server = ground.server();
    let client = watched(&ground, patience(LONG, LONG).connect(&server.url()));
    let lock = client.reentrant_lock(ground.name("L"));
    for nested in [false, true] {
        let outer = lock.try_lock().expect("an answer").expect("free");
        let inner = nested.then(|| lock.try_lock().expect("an answer").expect("own"));
        server.restart();
        // By now the connection is asked before it is trusted.
        thread::sleep(Duration::from_millis(1200));
        for guard in inner.into_iter().chain([outer]) {
            let error = guard.unlock().expect_err("Redis has forgotten it");
            assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
        }
    }
    assert_eq!(client.state().holds, 0);
}

#[test]
fn connections_killed_between_calls_cost_nothing() {
    let ground = Ground::new();
    let server = ground.server();
    let client = watched(&ground, patience(LONG, LONG).connect(&server.url()));
    let name = ground.name("L");
    let lock = client.reentrant_lock(&name);
    let mut spy = server.connection();
    let mut kill = || {
        // Of the one that asks nothing is killed.
        let _: redis::Value = redis::cmd("CLIENT")
            .arg(&["KILL", "TYPE", "normal"])
            .query(&mut spy)
            .expect("CLIENT KILL");
        calls(&mut spy, "publish")
    };
    for round in 0..10 {
        open_some(&ground, &client);
        kill();
        let guard = lock.try_lock().expect("an answer").expect("free");
        assert_eq!(holders(&server, &name), [(guard.holder().to_owned(), 1)]);
        kill();
        let nested = lock.try_lock().expect("an answer").expect("own");
        assert_eq!(holders(&server, &name), [(guard.holder().to_owned(), 2)]);
        kill();
        nested.unlock().expect("released");
        assert_eq!(holders(&server, &name), [(guard.holder().to_owned(), 1)]);
        let before = kill();
        guard.unlock().expect("released");
        assert!(!exists(&server, &name));
        assert_eq!(kill() - before, 1, "one message in round {round}");
    }
}

/// Has several threads use the client at once, so that its pool has several connections.
fn open_some(ground: &Ground, client: &Client) {
    let name = ground.name("busy");
    eventually(BOUND, "several connections are open", || {
        thread::scope(|scope| {
            for number in 0..8 {
                let lock = client.reentrant_lock(format!("{name}-{number}"));
                scope.spawn(move || drop(lock.try_lock().expect("an answer").expect("free")));
            }
        });
        client.state().connections >= 3
    });
}

#[track_caller]
fn take_once(ground: &Ground, server: &Server, client: &Client) {
    let name = ground.name("L");
    let (tried, took) = timed(|| client.reentrant_lock(&name).try_lock());
    let guard = tried.expect("an answer").expect("free");
    assert!(took < LONG / 2, "{took:?}");
    assert_eq!(holders(server, &name), [(guard.holder().to_owned(), 1)]);
    guard.unlock().expect("released");
}
