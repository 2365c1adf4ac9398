//! What can be asked of a lock, whoever holds it.

use std::time::Duration;

use lockson::{ErrorKind, Inspection, ReentrantLock, Ttl};

use super::{SOON, is_refused, owned, secs, taken};
use crate::support::{Ground, connect, connect_with, eventually};

/// As a Java service would be called.
const JAVA: &str = "f202c191-3c9d-442f-8bd8-39cea24f7f7a:25";

#[test]
fn a_free_lock() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    let seen = lock.inspect().expect("answered");
    assert_eq!(
        (seen.ttl, seen.mode, seen.holders.len()),
        (Ttl::Free, None, 0)
    );
    assert!(!lock.is_locked().expect("answered"));
    assert!(!lock.is_held_by_current_thread().expect("answered"));
    assert_eq!(lock.hold_count().expect("answered"), 0);
    assert_eq!(lock.remaining_ttl().expect("answered"), Ttl::Free);
    assert!(!lock.force_unlock().expect("answered"));
}

#[test]
fn a_lock_that_java_holds() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    let server = ground.server();
    server.cli(&["HSET", lock.name(), JAVA, "2"]);
    server.cli(&["PEXPIRE", lock.name(), "25000"]);

    assert!(is_refused(&lock));
    assert!(lock.try_lock_owned().expect("answered").is_none());
    let seen = lock.inspect().expect("answered");
    assert_eq!(holders(&seen), [(JAVA, 2)]);
    assert_eq!(seen.mode, None);
    let Ttl::Left(left) = seen.ttl else {
        panic!("{seen:?}");
    };
    assert!(left > secs(23) && left <= secs(25), "{left:?}");
    assert!(lock.is_locked().expect("answered"));
    assert!(!lock.is_held_by_current_thread().expect("answered"));
    assert_eq!(lock.hold_count().expect("answered"), 0);

    // No TTL: nothing that Java or we would leave, but people do.
    server.cli(&["PERSIST", lock.name()]);
    assert_eq!(lock.remaining_ttl().expect("answered"), Ttl::NoExpiry);
    assert_eq!(lock.inspect().expect("answered").ttl, Ttl::NoExpiry);
    assert!(is_refused(&lock));
    assert!(lock.force_unlock().expect("answered"));
    drop(taken(&lock));
}

#[test]
fn a_read_lock_of_java() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    ground
        .server()
        .cli(&["HSET", lock.name(), "mode", "read", JAVA, "1"]);
    let seen = lock.inspect().expect("answered");
    assert_eq!(seen.mode.as_deref(), Some("read"));
    assert_eq!(holders(&seen), [(JAVA, 1)]);
    assert!(is_refused(&lock));
    ground.server().cli(&["DEL", lock.name()]);
}

#[test]
fn a_key_that_is_no_lock() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    let server = ground.server();
    server.cli(&["SET", lock.name(), "x"]);
    assert!(lock.is_locked().expect("answered"), "as in Java");
    assert_eq!(lock.remaining_ttl().expect("answered"), Ttl::NoExpiry);
    assert_eq!(lock.hold_count().expect("nothing to ask"), 0);
    for error in [
        lock.inspect().expect_err("no lock"),
        lock.try_lock().expect_err("no lock"),
        lock.try_lock_owned().expect_err("no lock"),
    ] {
        assert_eq!(error.kind(), ErrorKind::WrongType, "{error}");
        assert_eq!(error.name(), Some(lock.name()));
        assert!(!error.is_retryable());
    }
    assert_eq!(
        server.cli(&["GET", lock.name()]),
        redis::Value::BulkString(b"x".to_vec())
    );
    server.cli(&["DEL", lock.name()]);
}

#[test]
fn a_hold_whose_key_became_something_else() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let server = ground.server();
    for owned_one in [false, true] {
        let error = if owned_one {
            let guard = owned(&lock);
            server.cli(&["SET", lock.name(), "x"]);
            guard.unlock()
        } else {
            let guard = taken(&lock);
            server.cli(&["SET", lock.name(), "x"]);
            guard.unlock()
        }
        .expect_err("it is gone");
        assert_eq!(error.kind(), ErrorKind::WrongType);
        assert_eq!((client.state().holds, client.state().renewals), (0, 0));
        server.cli(&["DEL", lock.name()]);
    }
}

#[test]
fn force_unlock_tells_the_waiters() {
    let ground = Ground::new();
    let server = ground.server();
    let mut connection = server.connection();
    let mut heard = connection.as_pubsub();
    heard.psubscribe("*").expect("subscribed");
    let client = connect(&ground);
    for (name, channel) in [
        ("L", "redisson_lock__channel:{L}"),
        ("{a}b", "redisson_lock__channel:{a}b"),
    ] {
        let lock = client.reentrant_lock(name);
        server.cli(&["HSET", name, JAVA, "1"]);
        assert!(lock.force_unlock().expect("answered"));
        assert!(!lock.force_unlock().expect("answered"), "it was free");
        server.cli(&["PUBLISH", "marker", ""]);
        let message = heard.get_message().expect("a message");
        assert_eq!(message.get_channel_name(), channel);
        assert_eq!(message.get_payload_bytes(), b"0");
        let marker = heard.get_message().expect("a message");
        assert_eq!(marker.get_channel_name(), "marker", "one message only");
    }
}

#[test]
fn a_count_changed_by_hand_does_not_confuse_ours() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    let server = ground.server();
    for foreign in ["7", "1", "not a number"] {
        let (first, second) = (taken(&lock), taken(&lock));
        server.cli(&["HSET", lock.name(), first.holder(), foreign]);
        let third = taken(&lock);
        assert_eq!(lock.hold_count().expect("answered"), 3);
        server.cli(&["HSET", lock.name(), first.holder(), foreign]);
        third.unlock().expect("held");
        assert_eq!(lock.hold_count().expect("answered"), 2);
        server.cli(&["HSET", lock.name(), first.holder(), foreign]);
        first.unlock().expect("held");
        assert!(lock.is_locked().expect("answered"), "one guard is left");
        assert!(second.is_held());
        server.cli(&["HSET", lock.name(), second.holder(), foreign]);
        second.unlock().expect("held");
        assert!(!lock.is_locked().expect("answered"), "{foreign}");
    }
}

#[test]
fn fields_of_others_in_our_hash_are_not_ours() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    let guard = taken(&lock);
    ground.server().cli(&["HSET", lock.name(), JAVA, "3"]);
    let seen = lock.inspect().expect("answered");
    let mut seen = holders(&seen);
    seen.sort_unstable();
    let mut wanted = [(JAVA, 3), (guard.holder(), 1)];
    wanted.sort_unstable();
    assert_eq!(seen, wanted);
    assert_eq!(lock.hold_count().expect("answered"), 1);
    // As in Java: the full release deletes the key.
    guard.unlock().expect("held");
    assert!(!lock.is_locked().expect("answered"));
}

#[test]
fn a_name_mapper_stands_between_program_and_redis() {
    let ground = Ground::new();
    let client = connect_with(&ground, |plain| {
        plain.name_mapper(|name| format!("app:{name}"))
    });
    let server = ground.server();
    let lock = client.reentrant_lock("L");
    let guard = taken(&lock);
    assert_eq!((lock.name(), guard.name()), ("L", "L"));
    assert_eq!(keys(&ground), ["app:L"]);
    let plain = connect(&ground).reentrant_lock("app:L");
    assert!(is_refused(&plain), "the same key");

    server.cli(&["DEL", "app:L"]);
    let error = guard.verify().expect_err("deleted");
    assert_eq!(error.name(), Some("app:L"));
    assert!(error.to_string().contains("app:L"), "{error}");
    assert_eq!(guard.name(), "L");
    drop(guard);

    let mut connection = server.connection();
    let mut heard = connection.as_pubsub();
    heard.psubscribe("*").expect("subscribed");
    taken(&lock).unlock().expect("held");
    let message = heard.get_message().expect("a message");
    assert_eq!(message.get_channel_name(), "redisson_lock__channel:{app:L}");
}

#[test]
fn the_state_counts_what_is_there() {
    let ground = Ground::new();
    let client = connect(&ground);
    let name = ground.name("L");
    let lock = client.reentrant_lock(&name);
    let state = client.state();
    assert_eq!(
        (state.holds, state.renewals, state.dropped_events),
        (0, 0, 0)
    );

    let guards = (taken(&lock), taken(&lock));
    let beside = lease(&client.reentrant_lock(ground.name("M")));
    let state = client.state();
    assert_eq!((state.holds, state.renewals), (2, 1));
    assert!(state.connections >= 1);
    let known = ground.server().clients();
    let ours = known.iter().filter(|one| one.name().ends_with(client.id()));
    assert!(ours.count() >= state.connections);

    drop((guards, beside));
    assert_eq!(client.state().holds, 0);
    let clone = client.clone();
    client.shutdown();
    eventually(SOON, "the connections close", || {
        ground.server().clients().is_empty()
    });
    assert_eq!((clone.state().connections, clone.state().holds), (0, 0));
    assert_eq!(
        clone
            .reentrant_lock(&name)
            .try_lock()
            .expect_err("closed")
            .kind(),
        ErrorKind::Closed
    );
}

fn lease(lock: &ReentrantLock) -> lockson::LockGuard {
    super::leased(lock, Duration::from_secs(20))
}

fn holders(seen: &Inspection) -> Vec<(&str, u64)> {
    let holders = seen.holders.iter();
    holders.map(|one| (&*one.holder, one.count)).collect()
}

fn keys(ground: &Ground) -> Vec<String> {
    redis::from_redis_value(ground.server().cli(&["KEYS", "*"]))
        .unwrap_or_else(|_| panic!("KEYS is a list"))
}
