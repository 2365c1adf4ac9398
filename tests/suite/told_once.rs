//! Told once, told for good: what a guard has said of its end does not change.

use std::{fs, time::Duration};

use lockson::{Client, Ended, ErrorKind, LostReason};

use crate::support::{Ground, Proxy, connect, connect_to, connect_with};

const SOON: Duration = Duration::from_secs(10);

/// The answer comes after the end of the hold: `verify` must not say that all is well.
#[test]
fn a_late_answer_verifies_nothing() {
    let ground = Ground::new();
    let proxy = Proxy::to(ground.server().addr());
    let client = connect_to(&ground, &proxy.url(), |plain| plain);
    let lock = client.reentrant_lock(ground.name("L"));
    let taken = lock.try_lock_with_lease(Duration::from_millis(400));
    let guard = taken.expect("answered").expect("free");
    proxy.delay(Duration::from_millis(800));
    let answer = guard.verify();
    proxy.delay(Duration::ZERO);
    assert!(!guard.is_held());
    assert_eq!(answer.expect_err("too late").kind(), ErrorKind::Lost);
}

/// A hold that ran out by its clock has ended by that, whatever happens later.
#[test]
fn the_reason_of_a_loss_stays() {
    type Later = fn(&Client, &str, lockson::LockGuard);
    let later: [(&str, Later); 3] = [
        ("unlocked in time for Redis", |_, _, guard| {
            guard.unlock().expect("Redis still had it");
        }),
        ("unlocked by force", |client, name, guard| {
            client
                .reentrant_lock(name)
                .force_unlock()
                .expect("answered");
            drop(guard);
        }),
        ("shut down", |client, _, guard| {
            client.shutdown();
            drop(guard);
        }),
    ];
    let ground = Ground::new();
    ground.expect_keys_left();
    for (what, then) in later {
        let client = connect(&ground);
        let name = ground.name("L");
        let taken = client
            .reentrant_lock(&name)
            .try_lock_with_lease(Duration::from_millis(100));
        let guard = taken.expect("answered").expect("free");
        // Somebody meddles: Redis keeps it for longer than the guard believes.
        ground.server().cli(&["PEXPIRE", &name, "60000"]);
        let lost = guard.lost();
        assert_eq!(lost.wait(SOON), Ended::Lost(LostReason::Expired));
        then(&client, &name, guard);
        assert_eq!(lost.reason(), Some(LostReason::Expired), "{what}");
    }
}

/// The client does not believe in a hold whose time is over, and counts what it believes in.
#[test]
fn an_expired_hold_is_not_counted() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let taken = lock.try_lock_with_lease(Duration::from_millis(50));
    let guard = taken.expect("answered").expect("free");
    assert_eq!(guard.lost().wait(SOON), Ended::Lost(LostReason::Expired));
    assert_eq!(client.state().holds, 0);
}

/// Its time is not over: it was taken away, and that is what the second question hears as well.
#[test]
fn a_hold_that_is_gone_is_gone_at_every_question() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    let guard = lock.try_lock().expect("answered").expect("free");
    ground.server().cli(&["DEL", lock.name()]);
    for _ in 0..2 {
        let error = guard.verify().expect_err("gone");
        assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
    }
}

/// A server (or a proxy before it) that does not know the command repeats its arguments.
#[test]
fn a_server_that_repeats_the_password_is_not_quoted() {
    let ground = Ground::new();
    for (command, options) in [("AUTH", ""), ("HELLO", "?protocol=resp3")] {
        let config = std::env::temp_dir().join(ground.name("without"));
        fs::write(&config, format!("rename-command {command} \"\"\n")).expect("writable");
        let server = ground.server_with(|plain| plain.arg("include", config.display()));
        let url = format!("redis://user:cAnArY@{}/{options}", server.addr());
        let error = Client::connect(&url).expect_err("it does not know the command");
        let shown = format!("{error} {error:?}");
        let _ = fs::remove_file(config);
        assert!(!shown.contains("cAnArY"), "{shown}");
    }
}

/// Something else stands at the key: the hold is gone, as a release says already.
#[test]
fn a_key_that_became_something_else_closes_the_hold() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    for enter in [false, true] {
        let guard = lock.try_lock().expect("answered").expect("free");
        ground.server().cli(&["SET", lock.name(), "x"]);
        let error = match enter {
            true => lock.try_lock().map(drop),
            false => guard.verify(),
        }
        .expect_err("no lock");
        ground.server().cli(&["DEL", lock.name()]);
        assert_eq!(error.kind(), ErrorKind::WrongType);
        assert!(!guard.is_held(), "enter: {enter}");
        assert_eq!(guard.lost().reason(), Some(LostReason::Gone));
    }
}

/// Whether the hold is there does not depend on a count that others changed.
#[test]
fn a_strange_count_is_still_a_hold() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    for count in ["0", "-3", "x"] {
        let guard = lock.try_lock().expect("answered").expect("free");
        ground
            .server()
            .cli(&["HSET", lock.name(), guard.holder(), count]);
        let answers = (guard.verify(), lock.is_held_by_current_thread());
        guard.unlock().expect("held");
        answers.0.expect(count);
        assert!(answers.1.expect(count));
    }
}

/// Two names that are mapped to one key: each guard has the name it was asked for by.
#[test]
fn a_guard_has_the_name_of_its_handle() {
    let ground = Ground::new();
    let client = connect_with(&ground, |plain| plain.name_mapper(str::to_lowercase));
    let upper = client
        .reentrant_lock("NAME")
        .try_lock()
        .expect("answered")
        .expect("free");
    let lower = client
        .reentrant_lock("name")
        .try_lock()
        .expect("answered")
        .expect("ours");
    assert_eq!((upper.name(), lower.name()), ("NAME", "name"));
}
