//! The server goes away under waiting threads.

use std::time::{Duration, Instant};

use lockson::ErrorKind;

use super::{BOUND, PATIENCE, Waiter, client, client_with, listeners, taken};
use crate::support::{Ground, Told, eventually};

#[test]
fn all_get_in_when_the_server_comes_back_empty() {
    under_a_hundred_waiters(false);
}

#[test]
fn all_get_in_when_the_server_comes_back_with_the_lock() {
    under_a_hundred_waiters(true);
}

fn under_a_hundred_waiters(aof: bool) {
    let ground = Ground::new();
    let server = ground.server_with(|plain| if aof { plain.aof() } else { plain });
    let told = Told::default();
    let waiting = client_with(&ground, &server.url(), |settings| {
        settings.on_event(told.handler())
    });
    let name = &ground.name("L");
    // Nobody releases it: with its key it ends by its time.
    server.cli(&["HSET", name, "somebody:1", "1"]);
    server.cli(&["PEXPIRE", name, "4000"]);
    let lock = waiting.reentrant_lock(name);
    let waiters: Vec<_> = (0..100).map(|_| Waiter::start(&lock, PATIENCE)).collect();
    eventually(BOUND, "all wait and one listens", || {
        waiting.state().waiters == 100 && listeners(&server, name) == 1
    });
    server.kill();
    eventually(BOUND, "the loss is noticed", || told.all().pop().is_some());
    server.restart();
    let back = Instant::now();
    let last = waiters.into_iter().map(Waiter::entered).max();
    let last = last.expect("a hundred").saturating_duration_since(back);
    println!("restarted (AOF {aof}): a hundred in after {last:?}");
    assert!(last < Duration::from_secs(9), "{last:?}");
    assert_eq!(waiting.state().waiters, 0);
}

#[test]
fn all_fail_by_their_deadline_when_it_does_not_come_back() {
    let ground = Ground::alone();
    let server = ground.server();
    let waiting = client(&ground, &server.url());
    let name = &ground.name("L");
    server.cli(&["HSET", name, "somebody:1", "1"]);
    let lock = waiting.reentrant_lock(name);
    let wait = Duration::from_secs(2);
    let began = Instant::now();
    let waiters: Vec<_> = (0..100).map(|_| Waiter::start(&lock, wait)).collect();
    eventually(BOUND, "all wait and one listens", || {
        waiting.state().waiters == 100 && listeners(&server, name) == 1
    });
    server.kill();
    for waiter in waiters {
        let (got, at) = waiter.end();
        assert!(!matches!(got, Ok(true)), "there is no server: {got:?}");
        let took = at.saturating_duration_since(began);
        assert!(took < wait + Duration::from_millis(900), "{took:?}");
    }
}

#[test]
fn a_frozen_server_does_not_hold_up_a_shutdown() {
    let ground = Ground::alone();
    let server = ground.server();
    let timeout = Duration::from_millis(500);
    let waiting = client_with(&ground, &server.url(), |settings| {
        settings.response_timeout(timeout)
    });
    let holding = client(&ground, &server.url());
    let name = &ground.name("L");
    let guard = taken(&holding.reentrant_lock(name));
    let waiter = Waiter::listening(&server, &waiting.reentrant_lock(name), name);
    server.freeze();
    let began = Instant::now();
    waiting.shutdown();
    let took = began.elapsed();
    let (got, at) = waiter.end();
    server.thaw();
    println!("shut down in {took:?}");
    assert!(took < timeout + Duration::from_millis(700), "{took:?}");
    assert_eq!(got.expect_err("closed").kind(), ErrorKind::Closed);
    assert!(at.saturating_duration_since(began) < timeout + Duration::from_millis(700));
    guard.unlock().expect("held");
}
