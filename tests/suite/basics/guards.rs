//! Taking and giving back: re-entry, order, owned guards, several holders.

use std::{collections::HashSet, panic, thread};

use lockson::{AnyLock, MultiLock};

use super::{is_refused, leased, number, other_thread, owned, seconds_left, secs, taken};
use crate::support::{Ground, connect};

#[test]
fn try_lock_and_unlock() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    let guard = taken(&lock);
    assert!(guard.is_held());
    assert!(lock.is_locked().expect("answered"));
    guard.unlock().expect("held");
    assert!(!lock.is_locked().expect("answered"));
}

#[test]
fn a_shorter_lease_inside_does_not_shorten() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    let outer = leased(&lock, secs(20));
    let inner = leased(&lock, secs(10));
    assert_eq!(seconds_left(&lock), 20);
    for guard in [&outer, &inner] {
        assert!(guard.remaining() > secs(18), "{:?}", guard.remaining());
        assert!(guard.remaining() <= secs(20), "{:?}", guard.remaining());
    }
    inner.unlock().expect("held");
    assert_eq!(seconds_left(&lock), 20);
    assert!(outer.remaining() > secs(18));
}

#[test]
fn a_longer_lease_inside_lengthens() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    let outer = leased(&lock, secs(10));
    assert_eq!(seconds_left(&lock), 10);
    let inner = leased(&lock, secs(20));
    assert_eq!(seconds_left(&lock), 20);
    assert!(outer.remaining() > secs(18));
    inner.unlock().expect("held");
    assert_eq!(seconds_left(&lock), 20, "a release leaves the TTL");
    assert!(outer.remaining() > secs(18));
}

#[test]
fn the_watchdog_keeps_a_hold_while_one_guard_has_no_lease() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let kept = leased(&lock, secs(60));
    assert_eq!(client.state().renewals, 0);
    let renewed = taken(&lock);
    assert_eq!(seconds_left(&lock), 60, "30 s would be shorter");
    assert_eq!(client.state().renewals, 1);
    renewed.unlock().expect("held");
    assert_eq!(client.state().renewals, 0);
    assert_eq!(client.state().holds, 1);
    kept.unlock().expect("held");
    assert_eq!(client.state().holds, 0);
}

#[test]
fn guards_go_in_any_order() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        let mut guards: Vec<_> = (0..3).map(|_| Some(taken(&lock))).collect();
        let holder = guards[0].as_ref().expect("taken").holder().to_owned();
        for (gone, place) in order.into_iter().enumerate() {
            assert_eq!(lock.hold_count().expect("answered"), 3 - gone as u64);
            let guard = guards[place].take().expect("each goes once");
            assert_eq!(guard.holder(), holder, "one hold, one name");
            assert!(guard.is_held());
            match gone % 2 {
                0 => drop(guard),
                _ => guard.unlock().expect("held"),
            }
        }
        assert!(!lock.is_locked().expect("answered"), "{order:?}");
    }
}

#[test]
fn handles_of_one_name_are_one_lock() {
    let ground = Ground::new();
    let client = connect(&ground);
    let name = ground.name("L");
    let first = taken(&client.reentrant_lock(&name));
    let clone = client.clone();
    drop(client);
    let second = taken(&clone.reentrant_lock(&name));
    assert_eq!(first.holder(), second.holder());
    assert_eq!(
        clone.reentrant_lock(&name).hold_count().expect("answered"),
        2
    );
}

#[test]
fn threads_of_one_client_exclude_each_other() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    let guard = taken(&lock);
    other_thread(|| {
        assert!(is_refused(&lock));
        assert_eq!(lock.hold_count().expect("answered"), 0);
    });
    drop(guard);
    other_thread(|| drop(taken(&lock)));
}

#[test]
fn clients_of_one_process_are_several_holders() {
    let ground = Ground::new();
    let (one, other) = (connect(&ground), connect(&ground));
    assert_ne!(one.id(), other.id());
    let name = ground.name("L");
    let guard = taken(&one.reentrant_lock(&name));
    assert!(guard.holder().starts_with(one.id()));

    // The same thread, but another client.
    let theirs = other.reentrant_lock(&name);
    assert!(is_refused(&theirs));
    assert!(!theirs.is_held_by_current_thread().expect("answered"));
    assert_eq!(theirs.hold_count().expect("answered"), 0);
    assert!(theirs.is_locked().expect("answered"));
    drop(guard);
    assert!(taken(&theirs).holder().starts_with(other.id()));
}

#[test]
fn an_owned_guard_is_released_by_another_thread() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    let guard = owned(&lock);
    thread::spawn(move || {
        assert!(guard.is_held());
        guard.verify().expect("there");
        drop(guard);
    })
    .join()
    .expect("the thread ends well");
    assert!(!lock.is_locked().expect("answered"));
}

#[test]
fn an_owned_guard_is_never_re_entered() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let guard = owned(&lock);
    assert!(is_refused(&lock), "its own thread");
    assert!(lock.try_lock_owned().expect("answered").is_none());
    assert!(!lock.is_held_by_current_thread().expect("answered"));
    assert_eq!(lock.hold_count().expect("answered"), 0);
    assert_eq!((client.state().holds, client.state().renewals), (1, 1));
    guard.unlock().expect("held");

    // The other way round: what a thread holds, no owned guard gets.
    let guard = taken(&lock);
    assert!(lock.try_lock_owned().expect("answered").is_none());
    let lease = secs(5);
    assert!(
        lock.try_lock_owned_with_lease(lease)
            .expect("answered")
            .is_none()
    );
    guard.unlock().expect("held");
    let guard = lock.try_lock_owned_with_lease(lease).expect("answered");
    assert_eq!(seconds_left(&lock), 5);
    guard.expect("free").unlock().expect("held");
}

#[test]
fn numbers_of_holds_never_repeat() {
    let ground = Ground::new();
    let client = connect(&ground);
    let (lock, other) = (
        client.reentrant_lock(ground.name("L")),
        client.reentrant_lock(ground.name("M")),
    );
    let mut seen = HashSet::new();
    let mut see = |holder: &str| {
        assert!(holder.starts_with(client.id()), "{holder}");
        assert!(seen.insert(number(holder)), "{holder} was there before");
    };
    for _ in 0..5 {
        let outer = taken(&lock);
        let inner = taken(&lock);
        assert_eq!(outer.holder(), inner.holder());
        let beside = taken(&other);
        see(outer.holder());
        see(beside.holder());
        drop((outer, inner, beside));
        see(owned(&lock).holder());
        see(&other_thread(|| taken(&lock).holder().to_owned()));
        lock.force_unlock().expect("answered");
    }
    assert_eq!(seen.len(), 20);
}

/// Threads of the system whose numbers are used again and again.
#[test]
fn ten_thousand_short_threads_are_as_many_holders() {
    let ground = Ground::new();
    let client = connect(&ground);
    let several = [
        client.reentrant_lock(ground.name("L")).into(),
        client.reentrant_lock(ground.name("M")).into(),
    ];
    let halves = client.read_write_lock(ground.name("L"));
    let locks: [AnyLock; 5] = [
        client.reentrant_lock(ground.name("L")).into(),
        client.fair_lock(ground.name("L")).into(),
        halves.read_lock().into(),
        client.read_write_lock(ground.name("L")).write_lock().into(),
        MultiLock::new(several).expect("two members").into(),
    ];
    let mut seen = HashSet::new();
    for lock in &locks {
        for _ in 0..2_000 {
            let holders = other_thread(|| {
                let guard = lock.try_lock().expect("answered").expect("free");
                guard.holder().to_owned()
            });
            for holder in holders.split(',') {
                assert!(seen.insert(number(holder)), "{holder} was there before");
            }
        }
    }
    assert_eq!(seen.len(), 4 * 2_000 + 2 * 2_000);
}

#[test]
fn a_panic_releases_on_its_way() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    let unwound = panic::catch_unwind(panic::AssertUnwindSafe(|| {
        let _outer = taken(&lock);
        let _inner = taken(&lock);
        panic::resume_unwind(Box::new("on purpose"));
    }));
    assert_eq!(unwound.unwrap_err().downcast_ref(), Some(&"on purpose"));
    assert!(!lock.is_locked().expect("answered"));
    assert_eq!(lock.hold_count().expect("answered"), 0);
    drop(taken(&lock));
}

#[test]
fn names_may_contain_anything() {
    let ground = Ground::new();
    let client = connect(&ground);
    for name in [
        " ",
        "a b",
        "é{ü}",
        "line\r\nend",
        "nul\0",
        "%s \"quoted\" 'too'",
        "{}",
        "}{",
    ] {
        let lock = client.reentrant_lock(name);
        let guard = taken(&lock);
        assert_eq!((lock.name(), guard.name()), (name, name));
        assert_eq!(
            redis::from_redis_value::<u64>(ground.server().cli(&["EXISTS", name])).ok(),
            Some(1)
        );
        guard.unlock().expect("held");
    }
}
