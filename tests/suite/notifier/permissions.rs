//! Access lists that do not let a client listen, or speak.

use std::time::{Duration, Instant};

use lockson::{Client, ErrorKind};

use super::{BOUND, CAP, LATE, PATIENCE, Waiter, channels, client, subscribers, taken};
use crate::support::{Ground, Server, eventually};

#[test]
fn who_may_not_listen_is_told_at_once() {
    let ground = Ground::new();
    let server = ground.server();
    let holding = client(&ground, &server.url());
    for rules in [&["resetchannels"][..], &["-subscribe"]] {
        let waiting = user(&ground, &server, rules);
        let name = &ground.name("L");
        let guard = taken(&holding.reentrant_lock(name));
        for _ in 0..3 {
            let began = Instant::now();
            let (got, _) = Waiter::start(&waiting.reentrant_lock(name), PATIENCE).end();
            let error = got.expect_err("it may not listen");
            assert_eq!(error.kind(), ErrorKind::NoPermission, "{rules:?}: {error}");
            assert!(began.elapsed() < Duration::from_secs(2), "{rules:?}");
        }
        guard.unlock().expect("held");
        // What needs no waiting works.
        assert!(waiting.reentrant_lock(name).try_lock().is_ok());
        assert_eq!(channels(&server), Vec::<String>::new());
        // Nobody waits, so nobody tries to listen again.
        eventually(BOUND, "the notifier rests", || {
            let before = connections(&server);
            // Longer than it pauses between two attempts.
            std::thread::sleep(Duration::from_millis(1200));
            before == connections(&server)
        });
    }
}

/// The channel alone is not enough: nobody could tell the notifier to listen to another.
#[test]
fn a_rule_that_is_too_narrow_is_told_by_what_it_lacks() {
    let ground = Ground::new();
    let server = ground.server();
    let holding = client(&ground, &server.url());
    let name = &ground.name("L");
    let guard = taken(&holding.reentrant_lock(name));
    let rule = format!("&{}", super::channel(name));
    let waiting = user(&ground, &server, &["resetchannels", &rule]);
    let (got, _) = Waiter::start(&waiting.reentrant_lock(name), PATIENCE).end();
    let error = got.expect_err("it may not be woken");
    assert_eq!(error.kind(), ErrorKind::NoPermission, "{error}");
    let lacks = format!("{}:{}:wake", super::channel(name), waiting.id());
    assert!(error.to_string().contains(&lacks), "{error}");
    // It listened to what it may, until it was refused the other.
    eventually(BOUND, "its link is closed", || {
        super::listeners(&server, name) == 0
    });
    // As it says.
    let rule = format!("&{}*", super::channel(name));
    let waiting = user(&ground, &server, &["resetchannels", &rule]);
    let waiter = Waiter::listening(&server, &waiting.reentrant_lock(name), name);
    guard.unlock().expect("held");
    waiter.entered();
}

#[test]
fn one_channel_refused_does_not_disturb_the_others() {
    let ground = Ground::new();
    let server = ground.server();
    let holding = client(&ground, &server.url());
    let (open, shut) = (ground.name("open"), ground.name("shut"));
    let rule = format!("&{}*", super::channel(&open));
    let waiting = user(&ground, &server, &["resetchannels", &rule]);
    let guards = [&open, &shut].map(|name| taken(&holding.reentrant_lock(name)));
    let waiter = Waiter::listening(&server, &waiting.reentrant_lock(&open), &open);
    let (got, _) = Waiter::start(&waiting.reentrant_lock(&shut), PATIENCE).end();
    let error = got.expect_err("it may not listen");
    assert_eq!(error.kind(), ErrorKind::NoPermission, "{error}");
    let [guard, _other] = guards;
    guard.unlock().expect("held");
    let released = Instant::now();
    let late = waiter.entered().saturating_duration_since(released);
    assert!(late < Duration::from_secs(2), "{late:?}");
}

/// Both come at once, so that the first word to the server may be about the one that is refused.
#[test]
fn a_refusal_is_for_the_name_that_was_refused() {
    let ground = Ground::new();
    let server = ground.server();
    let holding = client(&ground, &server.url());
    let (open, shut) = (ground.name("open"), ground.name("shut"));
    let rule = format!("&{}*", super::channel(&open));
    let _guard = taken(&holding.reentrant_lock(&shut));
    for _ in 0..20 {
        let guard = taken(&holding.reentrant_lock(&open));
        let waiting = user(&ground, &server, &["resetchannels", &rule]);
        let refused = Waiter::start(&waiting.reentrant_lock(&shut), PATIENCE);
        let allowed = Waiter::start(&waiting.reentrant_lock(&open), PATIENCE);
        let error = refused.end().0.expect_err("it may not listen");
        assert_eq!(error.kind(), ErrorKind::NoPermission, "{error}");
        eventually(BOUND, "the other listens", || {
            super::listeners(&server, &open) > 0 || allowed.0.is_finished()
        });
        guard.unlock().expect("held");
        allowed.entered();
    }
}

#[test]
fn who_may_not_publish_gets_in_nevertheless() {
    let ground = Ground::alone();
    let server = ground.server();
    let holding = client(&ground, &server.url());
    let waiting = user(&ground, &server, &["-publish"]);
    let name = &ground.name("L");
    let guard = taken(&holding.reentrant_lock(name));
    let lock = waiting.reentrant_lock(name);
    let waiter = std::thread::spawn(move || {
        let guard = lock.try_lock_for(PATIENCE).expect("an answer");
        let at = Instant::now();
        let error = guard.expect("in time").unlock().expect_err("unheard");
        assert_eq!(error.kind(), ErrorKind::NoPermission);
        at
    });
    eventually(BOUND, "it listens", || subscribers(&server) == 1);
    // Nobody can show that the link lives.
    eventually(BOUND, "the notifier gave a silent link up", || {
        waiting.state().reconnects >= 1 && subscribers(&server) == 1
    });
    guard.unlock().expect("held");
    let released = Instant::now();
    let late = waiter.join().expect("no panic");
    let late = late.saturating_duration_since(released);
    println!("without PUBLISH: late by {late:?}");
    assert!(late < CAP + LATE, "{late:?}");
    eventually(BOUND, "nobody waits, nobody listens", || {
        channels(&server).is_empty()
    });
}

/// A client of a user with these rules beyond all that there is.
fn user(ground: &Ground, server: &Server, rules: &[&str]) -> Client {
    let name = ground.name("user");
    let mut words = vec![
        "ACL", "SETUSER", &name, "on", ">secret", "~*", "&*", "+@all",
    ];
    words.extend(rules);
    server.cli(&words);
    let url = format!("redis://{name}:secret@{}/", server.addr());
    client(ground, &url)
}

fn connections(server: &Server) -> u64 {
    let info: String = redis::cmd("INFO")
        .arg("commandstats")
        .query(&mut server.connection())
        .expect("INFO");
    let calls = info.lines().find_map(|line| {
        let rest = line.strip_prefix("cmdstat_subscribe:")?;
        let rejected = rest.split("rejected_calls=").nth(1)?;
        rejected.split(',').next()?.parse().ok()
    });
    calls.unwrap_or(0)
}
