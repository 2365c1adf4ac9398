//! The notifier's link is cut, or falls silent.

use std::{
    thread,
    time::{Duration, Instant},
};

use lockson::{Event, LockGuard};

use super::{
    BOUND, CAP, LATE, PATIENCE, Waiter, client, client_with, contended, kill_subscribers,
    listeners, pair, subscribers, taken,
};
use crate::support::{
    Ground, Proxy, Server, Told, command, eventually,
    proxy::{ALWAYS, Matcher},
    script,
};

/// What was given up in doubt is put right by the thread that also shows the link to be alive: more
/// than a link is believed in without a sign of life.
#[test]
fn a_sign_of_life_does_not_wait_behind_what_is_put_right() {
    let ground = Ground::alone();
    let server = ground.server();
    let proxy = Proxy::to(server.addr());
    let (waiting, holding) = (
        client(&ground, &proxy.url()),
        client(&ground, &server.url()),
    );
    let (guard, waiter) = contended(&ground, &waiting, &holding);
    let name = ground.name("M");
    // Only who acquires says for how long.
    proxy.cut_after(script("30000"), ALWAYS);
    proxy.delay(Duration::from_millis(20));
    thread::scope(|scope| {
        for number in 0..40 {
            let (waiting, name) = (&waiting, &name);
            scope.spawn(move || {
                for round in 0..3 {
                    let lock = waiting.reentrant_lock(format!("{name}-{number}-{round}"));
                    lock.try_lock().expect_err("cut");
                }
            });
        }
    });
    proxy.clear();
    eventually(PATIENCE, "all is put right", || {
        let keys: u64 = redis::cmd("DBSIZE")
            .query(&mut server.connection())
            .expect("DBSIZE");
        keys == 1
    });
    proxy.delay(Duration::ZERO);
    assert_eq!(waiting.state().reconnects, 0);
    guard.unlock().expect("held");
    waiter.entered();
}

#[test]
fn a_cut_before_the_unlock_costs_next_to_nothing() {
    let mut pause = Duration::ZERO;
    let reconnects = twenty_rounds("before", |server, guard| {
        assert!(kill_subscribers(server) >= 1);
        // From the very moment of the cut to well after the link is back.
        thread::sleep(pause);
        pause += Duration::from_millis(6);
        guard.unlock().expect("held");
        Instant::now()
    });
    // The last one may come when nobody needs the link any more.
    assert!(reconnects >= 19, "{reconnects} times connected again");
}

#[test]
fn a_cut_together_with_the_unlock_costs_next_to_nothing() {
    let reconnects = twenty_rounds("together with", |server, guard| {
        // In one transaction the message is never delivered: a client marked for its end gets
        // nothing more.
        let _: redis::Value = redis::pipe()
            .atomic()
            .cmd("CLIENT")
            .arg(&["KILL", "TYPE", "pubsub"])
            .cmd("HDEL")
            .arg(&[guard.name(), guard.holder()])
            .cmd("PUBLISH")
            .arg(super::channel(guard.name()))
            .arg("0")
            .query(&mut server.connection())
            .expect("MULTI");
        let released = Instant::now();
        assert!(guard.unlock().is_err(), "it was taken away");
        released
    });
    assert!(reconnects >= 19, "{reconnects} times connected again");
}

#[test]
fn a_cut_after_the_unlock_costs_next_to_nothing() {
    twenty_rounds("after", |server, guard| {
        guard.unlock().expect("held");
        let released = Instant::now();
        kill_subscribers(server);
        released
    });
}

/// Cuts the link and unlocks, and answers how often the waiting client connected again.
fn twenty_rounds(what: &str, mut cut: impl FnMut(&Server, LockGuard) -> Instant) -> u64 {
    let ground = Ground::alone();
    let server = ground.server();
    let (waiting, holding) = pair(&ground);
    let mut lateness = Vec::new();
    for _ in 0..20 {
        let (guard, waiter) = contended(&ground, &waiting, &holding);
        let released = cut(&server, guard);
        lateness.push(waiter.entered().saturating_duration_since(released));
    }
    println!("cut {what} the unlock, late by {lateness:?}");
    assert!(lateness.iter().all(|late| *late < LATE), "{lateness:?}");
    waiting.state().reconnects
}

#[test]
fn a_link_that_falls_silent_is_replaced() {
    let ground = Ground::alone();
    let server = ground.server();
    let proxy = Proxy::to(server.addr());
    let waiting = client(&ground, &proxy.url());
    let holding = client(&ground, &server.url());
    let (first, second) = (ground.name("L"), ground.name("M"));
    let guards = [&first, &second].map(|name| taken(&holding.reentrant_lock(name)));
    let waiter = Waiter::listening(&server, &waiting.reentrant_lock(&first), &first);
    // From the second channel's confirmation on, nothing arrives by this connection.
    proxy.swallow_replies_from(subscribing_to(&second), 1);
    let other = Waiter::start(&waiting.reentrant_lock(&second), PATIENCE);
    eventually(BOUND, "the link is silent", || proxy.swallowed() > 0);
    let silent = Instant::now();
    let [one, two] = guards;
    one.unlock().expect("held");
    let late = waiter.entered().saturating_duration_since(silent);
    two.unlock().expect("held");
    let other_late = other.entered().saturating_duration_since(silent);
    println!("silent link: in after {late:?} and {other_late:?}");
    assert!(late < CAP + LATE, "{late:?}");
    assert!(other_late < CAP + LATE, "{other_late:?}");
    eventually(BOUND, "the link is replaced", || {
        waiting.state().reconnects == 1
    });
}

#[test]
fn a_mended_link_wakes_at_once_again() {
    let ground = Ground::alone();
    let server = ground.server();
    let proxy = Proxy::to(server.addr());
    let told = Told::default();
    let waiting = client_with(&ground, &proxy.url(), |settings| {
        settings
            .response_timeout(Duration::from_millis(300))
            .on_event(told.handler())
    });
    let holding = client(&ground, &server.url());
    let name = &ground.name("L");
    let guard = taken(&holding.reentrant_lock(name));
    let waiter = Waiter::listening(&server, &waiting.reentrant_lock(name), name);
    proxy.black_hole(true);
    eventually(BOUND, "the notifier gives the silent link up", || {
        let mut told = told.all().into_iter();
        told.any(|event| matches!(event, Event::NotifierDisconnected { .. }))
    });
    proxy.black_hole(false);
    let mended = Instant::now();
    eventually(Duration::from_secs(4), "the link is replaced", || {
        waiting.state().reconnects >= 1 && listeners(&server, name) >= 1
    });
    println!("black hole: listens again after {:?}", mended.elapsed());
    guard.unlock().expect("held");
    let released = Instant::now();
    let late = waiter.entered().saturating_duration_since(released);
    assert!(late < LATE, "{late:?}");
}

#[test]
fn tells_when_the_link_is_lost_and_when_it_is_back() {
    let ground = Ground::new();
    let server = ground.server();
    let proxy = Proxy::to(server.addr());
    let told = Told::default();
    let waiting = client_with(&ground, &proxy.url(), |settings| {
        settings.on_event(told.handler())
    });
    let holding = client(&ground, &server.url());
    let name = &ground.name("L");
    let guard = taken(&holding.reentrant_lock(name));
    let waiter = Waiter::listening(&server, &waiting.reentrant_lock(name), name);
    assert!(told.all().is_empty());
    for round in 1..=2 {
        proxy.refuse(true);
        kill_subscribers(&server);
        eventually(BOUND, "the notifier tries several times", || {
            proxy.refused() >= 3 * round
        });
        proxy.refuse(false);
        eventually(BOUND, "the notifier is back", || {
            told.all().len() == 2 * round
        });
    }
    let words = told.all().into_iter().map(|event| match event {
        Event::NotifierDisconnected { error, .. } => format!("lost {:?}", error.kind()),
        Event::NotifierReconnected => "back".to_owned(),
        other => format!("{other:?}"),
    });
    let once = ["lost Connection", "back"];
    assert_eq!(words.collect::<Vec<_>>(), [once, once].concat());
    assert_eq!(waiting.state().reconnects, 2);
    eventually(BOUND, "it listens again", || subscribers(&server) == 1);
    guard.unlock().expect("held");
    waiter.entered();
}

fn subscribing_to(name: &str) -> impl Matcher + use<> {
    let subscribes = command("subscribe");
    let channel = super::channel(name);
    move |request: &[u8]| {
        subscribes(request)
            && request
                .windows(channel.len() + 2)
                .any(|window| window == format!("{channel}\r\n").as_bytes())
    }
}
