//! How often the server is asked, and what happens when it forgot the scripts.

use std::time::Duration;

use super::{secs, taken};
use crate::support::{Ground, Monitor, connect, connect_with, watched};

#[test]
fn lock_and_unlock_are_two_commands() {
    let ground = Ground::new();
    let server = ground.server();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    // Connections are opened and scripts loaded by the first use.
    taken(&lock).unlock().expect("held");

    let monitor = server.monitor();
    let before = server.script_calls();
    monitor.take();
    for _ in 0..10 {
        taken(&lock).unlock().expect("held");
    }
    assert_only_scripts(&monitor, 20);
    assert_eq!(server.script_calls() - before, 20);

    // Re-entry and dropping cost no more.
    let before = server.script_calls();
    monitor.take();
    drop((taken(&lock), taken(&lock)));
    assert_only_scripts(&monitor, 4);
    assert_eq!(server.script_calls() - before, 4);
    assert!(!lock.is_locked().expect("answered"));
}

#[test]
fn what_needs_no_redis_asks_none() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let guard = taken(&lock);
    let monitor = server.monitor();
    let lost = guard.lost();
    assert!(guard.is_held() && !lost.is_lost());
    assert!(guard.remaining() > Duration::ZERO);
    assert!(!guard.holder().is_empty() && guard.name() == lock.name());
    let _ = (client.state(), client.id(), lock.options(), lock.clone());
    // Another thread has no hold, so there is nothing to ask for.
    super::other_thread(|| assert_eq!(lock.hold_count().expect("no question"), 0));
    assert_eq!(monitor.take_commands(), [""; 0]);
    guard.unlock().expect("held");
}

#[test]
fn a_client_that_is_only_made_asks_nothing() {
    let ground = Ground::new();
    let server = ground.server();
    let monitor = server.monitor();
    let made = lockson::Client::builder().connect_lazy(&server.url());
    let client = watched(&ground, made);
    let lock = client.reentrant_lock(ground.name("L"));
    assert_eq!(monitor.take(), [""; 0]);
    assert_eq!(client.state().connections, 0);
    taken(&lock).unlock().expect("held");
    assert!(!monitor.take().is_empty());
}

#[test]
fn the_first_use_on_a_fresh_server() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    let (outer, inner) = (taken(&lock), taken(&lock));
    outer.extend(secs(60)).expect("there");
    assert_eq!(lock.inspect().expect("answered").holders[0].count, 2);
    inner.unlock().expect("held");
    outer.unlock().expect("held");
    assert!(!lock.force_unlock().expect("answered"));
}

#[test]
fn a_server_that_forgets_its_scripts() {
    let ground = Ground::new();
    let server = ground.server();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    let forget = || server.cli(&["SCRIPT", "FLUSH"]);
    for _ in 0..2 {
        forget();
        let guard = taken(&lock);
        forget();
        let again = taken(&lock);
        assert_eq!(lock.hold_count().expect("answered"), 2);
        forget();
        guard.extend(secs(60)).expect("there");
        forget();
        again.unlock().expect("held");
        assert_eq!(lock.hold_count().expect("answered"), 1);
        forget();
        guard.unlock().expect("held");
        forget();
        assert!(!lock.force_unlock().expect("answered"));
    }
}

#[test]
fn a_watchdog_whose_script_was_forgotten() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect_with(&ground, |plain| plain.lock_watchdog_timeout(secs(3)));
    let lock = client.reentrant_lock(ground.name("L"));
    let guard = taken(&lock);
    // Past two renewals, the second of which has to load the script anew.
    for _ in 0..2 {
        let remaining = guard.remaining();
        super::eventually_longer(&guard, remaining);
        server.cli(&["SCRIPT", "FLUSH"]);
    }
    guard.unlock().expect("held");
}

#[track_caller]
fn assert_only_scripts(monitor: &Monitor, count: usize) {
    let commands = monitor.take_commands();
    let others: Vec<_> = commands
        .iter()
        .filter(|line| !line.to_lowercase().contains("\"evalsha\""))
        // The test's own question for the counters.
        .filter(|line| !line.contains("\"INFO\""))
        .collect();
    assert!(others.is_empty(), "{others:#?}");
    let scripts = commands.iter().filter(|line| !line.contains("\"INFO\""));
    assert_eq!(scripts.count(), count, "{commands:#?}");
}
