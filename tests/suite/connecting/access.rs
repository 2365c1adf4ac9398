//! The access list of docs/operations.md: enough, and no more.

use std::{collections::BTreeSet, fs, path::PathBuf, sync::Arc, thread, time::Duration};

use lockson::{AnyLock, Client, FairLock, MultiLock, RedLock};
use redis::Commands;

use super::{BOUND, calls};
use crate::support::{Ground, Server, eventually, watched};

const WATCHDOG: Duration = Duration::from_secs(3);

const LEASE: Duration = Duration::from_secs(60);

const PAGE: &str = include_str!("../../../docs/operations.md");

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
    several(&ground, &server, &one);
    passed_in_the_queue(&server, &one.fair_lock(ground.name("app:P")), &two);
    let renewed = ["app:K", "app:F", "app:W"].map(|name| ground.name(name));
    let kept = [
        AnyLock::from(one.reentrant_lock(&renewed[0])),
        one.fair_lock(&renewed[1]).into(),
        one.read_write_lock(&renewed[2]).read_lock().into(),
    ]
    .map(|lock| lock.try_lock().expect("answered").expect("free"));
    // Longer than it lives unless it is renewed.
    thread::sleep(WATCHDOG + WATCHDOG / 2);
    for guard in kept {
        guard.unlock().expect("renewed");
    }
    let (_, fair) = &locks[0];
    let guard = fair.lock().expect("free");
    thread::scope(|scope| {
        let gives_up = scope.spawn(|| {
            let wait = Duration::from_millis(50);
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

/// The scripts and the page name the same commands.
#[test]
fn the_documented_commands_are_those_that_the_scripts_call() {
    let mut called = BTreeSet::new();
    let mut folders = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/protocol/lua")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(path).expect("a script");
            let calls = text.split("call('").skip(1);
            called.extend(calls.filter_map(|rest| Some(rest.split_once('\'')?.0.to_owned())));
        }
    }
    assert!(called.len() > 20, "{called:?}");
    // What is sent without a script.
    let sent = [
        "client|info",
        "client|kill",
        "client|setname",
        "eval",
        "evalsha",
        "ping",
        "role",
        "select",
        "subscribe",
        "unsubscribe",
    ];
    called.extend(sent.map(str::to_owned));
    let allowed = rules().into_iter();
    let allowed = allowed.filter_map(|word| word.strip_prefix('+').map(str::to_owned));
    assert_eq!(allowed.collect::<BTreeSet<_>>(), called);
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

/// A MultiLock, and a RedLock with two more servers.
fn several(ground: &Ground, server: &Arc<Server>, client: &Client) {
    let names = ["app:M", "app:N"].map(|name| ground.name(name));
    let multi = |client: &Client| {
        let members = names
            .each_ref()
            .map(|name| client.reentrant_lock(name).into());
        MultiLock::new(members).expect("two locks")
    };
    let others = [(); 2].map(|()| ground.server_with(|plain| plain));
    let clients: Vec<Client> = others.iter().map(|other| user(ground, other)).collect();
    let name = ground.name("app:R");
    let red = || {
        let all = clients.iter().chain([client]);
        RedLock::new(all.map(|one| one.reentrant_lock(&name).into())).expect("three")
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..10 {
                    multi(client)
                        .lock()
                        .expect("its turn")
                        .unlock()
                        .expect("held");
                    red().lock().expect("its turn").unlock().expect("held");
                }
            });
        }
    });
    for server in others.iter().chain([server]) {
        let refused = server.cli(&["ACL", "LOG"]);
        assert_eq!(refused, redis::Value::Array(vec![]), "nothing was refused");
    }
}

/// Two waiters that were taken for dead come back, the later one first: it has to be put behind the
/// other, which needs commands of its own.
fn passed_in_the_queue(server: &Server, lock: &FairLock, other: &Client) {
    let queue = format!("redisson_lock_queue:{{{}}}", lock.name());
    let times = format!("redisson_lock_timeout:{{{}}}", lock.name());
    let theirs = other.fair_lock(lock.name());
    let guard = lock.try_lock().expect("answered").expect("free");
    let mut redis = server.connection();
    thread::scope(|scope| {
        for number in 1..=3 {
            scope.spawn(|| theirs.lock().expect("its turn").unlock().expect("held"));
            eventually(BOUND, "it has its place", || {
                redis.llen::<_, usize>(&queue).expect("LLEN") == number
            });
        }
        let there: Vec<String> = redis.lrange(&queue, 0, -1).expect("a list");
        eventually(BOUND, "they listen", || {
            there.iter().all(|one| {
                let channel = format!("redisson_lock__channel:{{{}}}:{one}", lock.name());
                let heard: u64 = redis.publish(channel, "0").expect("PUBLISH");
                heard > 0
            })
        });
        let before = calls(&mut redis, "linsert");
        eventually(BOUND, "one was put behind another", || {
            let mut out = redis::pipe();
            out.atomic().del(&queue).del(&times);
            out.query::<()>(&mut redis).expect("DEL");
            for one in [&there[0], &there[2], &there[1]] {
                let channel = format!("redisson_lock__channel:{{{}}}:{one}", lock.name());
                redis.publish::<_, _, u64>(channel, "0").expect("PUBLISH");
            }
            thread::sleep(Duration::from_millis(20));
            calls(&mut redis, "linsert") > before
        });
        guard.unlock().expect("held");
    });
}

/// A client of the user that the page describes.
fn user(ground: &Ground, server: &Server) -> Client {
    let mut words = vec!["ACL".to_owned(), "SETUSER".into(), "locker".into()];
    words.extend(rules());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    server.cli(&words);
    let settings = Client::builder().lock_watchdog_timeout(WATCHDOG);
    // HELLO and AUTH need no right: Redis does not ask for one.
    let url = format!("{}?protocol=resp3", url(server));
    watched(ground, settings.connect(&url))
}

/// The rules as they stand on the page, word by word.
pub(super) fn rules() -> Vec<String> {
    let (_, rules) = PAGE.split_once("ACL SETUSER locker").expect("the rules");
    let (rules, _) = rules.split_once("```").expect("their end");
    let rules = rules.replace('…', "secret");
    rules.split_whitespace().map(str::to_owned).collect()
}

pub(super) fn url(server: &Server) -> String {
    format!("redis://locker:secret@{}/", server.addr())
}
