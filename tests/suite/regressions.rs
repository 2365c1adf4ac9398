//! Bugs that were found once, each pinned by a test with its name.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use lockson::{Client, ClientBuilder, ErrorKind};

use crate::support::{Ground, Proxy, connect, connect_to, eventually, script};

const BOUND: Duration = Duration::from_secs(10);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The field was written, then the TTL was refused: nobody would ever have removed it.
#[test]
fn a_lock_that_cannot_end_is_not_taken() {
    let ground = Ground::new();
    let server = ground.server();
    server.cli(&[
        "ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all", "-pexpire",
    ]);
    let url = format!("redis://u:p@{}/", server.addr());
    let client = connect_to(&ground, &url, |plain| plain);
    let tried = client.reentrant_lock(ground.name("L")).try_lock();
    assert_eq!(tried.expect_err("refused").kind(), ErrorKind::NoPermission);
    // The ground finds the key if one was left.
}

/// The access list that the documents give, and nothing more.
#[test]
fn the_documented_access_list_is_enough() {
    let text = include_str!("../../docs/operations.md");
    let block = text.split("```text\n").nth(1).expect("an access list");
    let block = block.split("```").next().expect("its end");
    let words: Vec<&str> = block
        .split_whitespace()
        .map(|word| if word == ">…" { ">p" } else { word })
        .collect();
    let ground = Ground::new();
    let server = ground.server();
    server.cli(&words);
    let url = format!("redis://locker:p@{}/", server.addr());
    let client = connect_to(&ground, &url, |plain| {
        plain.lock_watchdog_timeout(millis(150))
    });
    let lock = client.reentrant_lock("app:orders:42");
    let guard = lock.try_lock().expect("allowed").expect("free");
    let again = lock.try_lock().expect("allowed").expect("ours");
    assert_eq!(lock.hold_count().expect("allowed"), 2);
    assert!(lock.is_held_by_current_thread().expect("allowed"));
    assert!(lock.is_locked().expect("allowed"));
    lock.remaining_ttl().expect("allowed");
    lock.inspect().expect("allowed");
    guard.verify().expect("allowed");
    guard.extend(millis(500)).expect("allowed");
    let renewals = server.script_calls();
    eventually(BOUND, "it was renewed", || server.script_calls() > renewals);
    again.unlock().expect("allowed");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| lock.lock().expect("allowed").unlock().expect("allowed"));
        eventually(BOUND, "it waits", || client.state().waiters == 1);
        guard.unlock().expect("allowed");
        waiting.join().expect("it got in");
    });
    assert!(!lock.force_unlock().expect("allowed"));
    let refused = server.cli(&["ACL", "LOG"]);
    assert_eq!(format!("{refused:?}"), "array([])", "refused all the same");
    let other = client.reentrant_lock("other:orders:42").try_lock();
    assert_eq!(
        other.expect_err("not in the list").kind(),
        ErrorKind::NoPermission
    );
}

/// A force unlock names no holder: its second copy freed the next one.
#[test]
fn a_force_unlock_whose_reply_was_lost_is_not_repeated() {
    let ground = Ground::new();
    let server = ground.server();
    let proxy = Proxy::to(server.addr());
    let name = ground.name("L");
    let client = connect_to(&ground, &proxy.url(), |plain| {
        plain.response_timeout(millis(600))
    });
    let (first, second) = (connect(&ground), connect(&ground));
    // So that the server knows the script.
    client
        .reentrant_lock(&name)
        .force_unlock()
        .expect("answered");
    let lost = first
        .reentrant_lock(&name)
        .try_lock()
        .expect("answered")
        .expect("free");
    proxy.swallow_replies(script(&name), 1);
    let forced = thread::scope(|scope| {
        let forced = scope.spawn(|| client.reentrant_lock(&name).force_unlock());
        let lock = second.reentrant_lock(&name);
        let next = eventually(BOUND, "the first copy ran", || {
            lock.try_lock().expect("answered")
        });
        let forced = forced.join().expect("no panic");
        next.verify().expect("the next holder was not meant");
        next.unlock().expect("held");
        forced
    });
    assert_eq!(proxy.swallowed(), 1);
    assert_eq!(forced.expect_err("nobody knows").kind(), ErrorKind::Timeout);
    assert_eq!(lost.verify().expect_err("freed").kind(), ErrorKind::NotHeld);
    drop(lost);
}

/// An abandoned release was forgotten at the first refusal.
#[test]
fn an_abandoned_release_outlives_a_refusal() {
    let ground = Ground::new();
    let server = ground.server_with(|plain| plain.password("pw"));
    let proxy = Proxy::to(server.addr());
    let name = ground.name("L");
    let away = Arc::new(AtomicBool::new(true));
    let refused = Arc::new(AtomicBool::new(false));
    let provider = {
        let (away, refused) = (Arc::clone(&away), Arc::clone(&refused));
        move || {
            if away.load(Ordering::SeqCst) && on_thread("lockson-w") {
                refused.store(true, Ordering::SeqCst);
                return Err("the vault is away".into());
            }
            Ok("pw".into())
        }
    };
    let client = connect_to(&ground, &proxy.url(), |plain: ClientBuilder| {
        plain
            .response_timeout(millis(300))
            .password_provider(provider)
    });
    let lock = client.reentrant_lock(&name);
    let guard = lock.try_lock().expect("answered").expect("free");
    proxy.drop_requests(script(&name), 2);
    guard.unlock().expect_err("never forwarded");
    eventually(BOUND, "the watchdog was refused", || {
        refused.load(Ordering::SeqCst)
    });
    away.store(false, Ordering::SeqCst);
    let mut spy = server.connection();
    eventually(BOUND, "it is released", || {
        let there: bool = redis::cmd("EXISTS")
            .arg(&name)
            .query(&mut spy)
            .expect("EXISTS");
        !there
    });
}

/// Each hold of the batch tried a connection of its own after the password had changed.
#[test]
fn a_changed_password_is_not_tried_for_each_hold() {
    let ground = Ground::new();
    ground.expect_keys_left();
    let server = ground.server();
    server.cli(&["ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all"]);
    let url = format!("redis://u:p@{}/", server.addr());
    let failures = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let told = Arc::clone(&failures);
    let client = connect_to(&ground, &url, |plain: ClientBuilder| {
        plain
            .lock_watchdog_timeout(millis(1500))
            .on_event(move |event| {
                if let lockson::Event::RenewalFailed { names, .. } = event {
                    assert_eq!(names.len(), 300, "all of them, once");
                    told.fetch_add(1, Ordering::SeqCst);
                }
            })
    });
    let guards: Vec<_> = (0..300)
        .map(|_| {
            client
                .reentrant_lock(ground.name("L"))
                .try_lock()
                .expect("answered")
                .expect("free")
        })
        .collect();
    server.cli(&["ACL", "SETUSER", "u", "resetpass", ">q"]);
    let before = connections_received(&server);
    server.cli(&["CLIENT", "KILL", "USER", "u"]);
    eventually(BOUND, "renewals failed", || {
        failures.load(Ordering::SeqCst) >= 3
    });
    // Every connection of the spy counts too.
    let opened = connections_received(&server) - before;
    assert!(opened < 40, "{opened} connections");
    client.shutdown();
    drop(guards);
}

fn connections_received(server: &crate::support::Server) -> u64 {
    let info = format!("{:?}", server.cli(&["INFO", "stats"]));
    let value = info
        .split("total_connections_received:")
        .nth(1)
        .expect("a statistic");
    let digits: String = value.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

fn on_thread(prefix: &str) -> bool {
    thread::current()
        .name()
        .is_some_and(|name| name.starts_with(prefix))
}

/// A client that was made and dropped left its handle's signal with the pool's threads.
#[test]
fn a_signal_keeps_no_thread_of_the_pool() {
    let ground = Ground::alone();
    let client = Client::connect(&ground.server().url()).expect("connected");
    let lock = client.reentrant_lock(ground.name("L"));
    let guard = lock.try_lock().expect("answered").expect("free");
    let signal = guard.lost();
    drop((guard, lock, client));
    eventually(BOUND, "the pool's threads have ended", || {
        let tasks = std::fs::read_dir("/proc/self/task").expect("tasks");
        !tasks.flatten().any(|task| {
            let name = std::fs::read_to_string(task.path().join("comm"));
            name.is_ok_and(|name| name.starts_with("r2d2"))
        })
    });
    assert_eq!(signal.reason(), None);
}
