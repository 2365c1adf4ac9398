//! The access list of docs/compatibility.md: enough, and no more.

use std::thread;

use lockson::Client;

use crate::support::{Ground, Server, watched};

const LEASE: std::time::Duration = std::time::Duration::from_secs(60);

const PAGE: &str = include_str!("../../../docs/compatibility.md");

#[test]
fn the_documented_rights_are_enough() {
    let ground = Ground::new();
    let server = ground.server();
    let one = user(&ground, &server);
    let two = watched(&ground, Client::connect(&url(&server)));
    let (name, queue) = (ground.name("app:L"), ground.name("app:Q"));
    let locks = [&one, &two].map(|client| (client.reentrant_lock(&name), client.fair_lock(&queue)));
    thread::scope(|scope| {
        for (plain, fair) in &locks {
            for _ in 0..3 {
                // With waiters in both clients: messages, hand-overs, places in the queue.
                scope.spawn(|| {
                    for _ in 0..20 {
                        let outer = plain.lock().expect("its turn comes");
                        plain.lock().expect("its own").unlock().expect("held");
                        outer.verify().expect("held");
                        outer.unlock().expect("held");
                        let guard = fair.lock().expect("its turn comes");
                        let seen = fair.inspect().expect("answered");
                        assert_eq!(seen.holders[0].holder, guard.holder());
                        guard.unlock().expect("held");
                    }
                });
            }
        }
    });
    let shared = ground.name("app:RW");
    thread::scope(|scope| {
        for client in [&one, &two] {
            for _ in 0..2 {
                scope.spawn(|| {
                    let lock = client.read_write_lock(&shared);
                    for _ in 0..20 {
                        lock.read().expect("let in").unlock().expect("held");
                        let writing = lock.write().expect("its turn comes");
                        let reading = writing.downgrade().expect("held");
                        assert_eq!(
                            lock.inspect().expect("answered").mode.as_deref(),
                            Some("read")
                        );
                        reading.extend(LEASE).expect("held");
                        reading.unlock().expect("held");
                    }
                });
            }
        }
    });
    let (_, fair) = &locks[0];
    let guard = fair.lock().expect("free");
    thread::scope(|scope| {
        let gives_up = scope.spawn(|| {
            let wait = std::time::Duration::from_millis(50);
            fair.try_lock_for(wait).map(|got| got.is_some())
        });
        assert!(!gives_up.join().expect("no panic").expect("answered"));
    });
    assert_eq!(fair.hold_count().expect("answered"), 1);
    assert!(fair.force_unlock().expect("answered"));
    assert!(guard.unlock().is_err());
    let refused = server.cli(&["ACL", "LOG"]);
    assert_eq!(refused, redis::Value::Array(vec![]), "nothing was refused");
}

#[test]
fn other_names_and_commands_are_refused() {
    let ground = Ground::new();
    let server = ground.server();
    let client = user(&ground, &server);
    let error = client.reentrant_lock("other").try_lock().err();
    let kind = error.map(|error| error.kind());
    assert_eq!(kind, Some(lockson::ErrorKind::NoPermission));
    let mut redis = redis::Client::open(url(&server))
        .and_then(|client| client.get_connection())
        .expect("it may log in");
    let flushed = redis::cmd("FLUSHALL").query::<()>(&mut redis);
    assert_eq!(flushed.expect_err("refused").code(), Some("NOPERM"));
}

/// A client of the user that the page describes.
fn user(ground: &Ground, server: &Server) -> Client {
    let (_, rules) = PAGE.split_once("ACL SETUSER locker").expect("the rules");
    let (rules, _) = rules.split_once("```").expect("their end");
    let rules = rules.replace('…', "secret");
    let mut words = vec!["ACL", "SETUSER", "locker"];
    words.extend(rules.split_whitespace());
    server.cli(&words);
    watched(ground, Client::connect(&url(server)))
}

fn url(server: &Server) -> String {
    format!("redis://locker:secret@{}/", server.addr())
}
