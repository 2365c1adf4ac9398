//! Names of every sort: the keys and channels are those that Redisson derives, and everything works.

use std::{collections::BTreeSet, thread};

use lockson::AnyLock;

use super::{SOON, face};
use crate::support::{Ground, Server, connect, eventually};

/// Each with what stands for it in the names of channels and companion keys: wrapped in braces, unless
/// it has an opening one anywhere.
const NAMES: [(&str, &str); 16] = [
    (" ", "{ }"),
    ("a b\tc", "{a b\tc}"),
    ("größe 😀", "{größe 😀}"),
    ("a\0b", "{a\0b}"),
    ("a\r\nb", "{a\r\nb}"),
    ("$3\r\nDEL\r\n", "{$3\r\nDEL\r\n}"),
    ("{}", "{}"),
    ("{}x", "{}x"),
    ("}{", "}{"),
    ("a{b}c", "a{b}c"),
    ("{a}b", "{a}b"),
    ("{a", "{a"),
    ("a}", "{a}}"),
    ("a}b", "{a}b}"),
    ("%s%d*?[x]\\", "{%s%d*?[x]\\}"),
    (
        "x'); redis.call('flushall') --",
        "{x'); redis.call('flushall') --}",
    ),
];

#[test]
fn every_name_has_redissons_keys_and_channels() {
    let ground = Ground::new();
    let server = ground.server();
    let clients = [connect(&ground), connect(&ground)];
    for (name, wrapped) in NAMES {
        check(&server, &clients, name, wrapped);
    }
    let name = "x".repeat(LONGEST);
    check(&server, &clients, &name, &format!("{{{name}}}"));
    // With a brace of its own.
    let name = format!("{{{}", "y".repeat(LONGEST - 1));
    check(&server, &clients, &name, &name);
}

/// One holds, the other waits, is told, and gets in.
fn check(server: &Server, clients: &[lockson::Client; 2], name: &str, wrapped: &str) {
    let kinds = [
        ("reentrant", "reentrant"),
        ("fair", "fair"),
        ("read", "write"),
        ("write", "read"),
        ("multi", "multi"),
    ];
    for (held, waited) in kinds {
        let [holding, waiting]: [AnyLock; 2] = [(held, &clients[0]), (waited, &clients[1])]
            .map(|(kind, client)| face(client, kind, name).any);
        let guard = holding.try_lock().expect("answered").expect("free");
        let of_fair = [
            format!("redisson_lock_queue:{wrapped}"),
            format!("redisson_lock_timeout:{wrapped}"),
        ];
        let mut keys = BTreeSet::from([name.to_owned()]);
        match held {
            "fair" => keys.extend(of_fair),
            "read" => _ = keys.insert(format!("{wrapped}:{}:rwlock_timeout:1", guard.holder())),
            "multi" => _ = keys.insert(format!("{name}-beside")),
            _ => {}
        }
        let channel = match held {
            "read" | "write" => format!("redisson_rwlock:{wrapped}"),
            // The first that refuses is waited for.
            "multi" => format!("redisson_lock__channel:{}", beside(name)),
            "fair" => format!("redisson_lock__channel:{wrapped}:{}:", clients[1].id()),
            _ => format!("redisson_lock__channel:{wrapped}"),
        };
        let waiter = thread::spawn(move || waiting.lock()?.unlock());
        eventually(SOON, "it listens where it is told", || {
            let channels = texts(server, &["PUBSUB", "CHANNELS"]).into_iter();
            let mut channels = channels.filter(|one| !one.ends_with(":wake"));
            channels.any(|one| match held {
                "fair" => one.starts_with(&channel),
                _ => one == channel,
            })
        });
        let there: BTreeSet<String> = texts(server, &["KEYS", "*"]).into_iter().collect();
        assert!(there == keys, "{held} of {} bytes", name.len());
        guard.unlock().expect("held");
        waiter.join().expect("no panic").expect("its turn comes");
    }
}

fn beside(name: &str) -> String {
    match name.contains('{') {
        true => format!("{name}-beside"),
        false => format!("{{{name}-beside}}"),
    }
}

fn texts(server: &Server, words: &[&str]) -> Vec<String> {
    redis::from_redis_value(server.cli(words)).expect("texts")
}

/// The other lock of the MultiLock has seven bytes more, and must not have more than a mebibyte.
const LONGEST: usize = (1 << 20) - 7;
