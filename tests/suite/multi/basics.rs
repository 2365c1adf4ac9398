//! All or nothing.

use std::{
    thread,
    time::{Duration, Instant},
};

use lockson::{CancelToken, Ended, ErrorKind, LostReason};
use redis::Commands;

use super::{SOON, of, plain};
use crate::support::{Ground, connect, connect_with, eventually};

#[test]
fn three_free_names_are_two_requests() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let names = ["A", "B", "C"].map(|name| ground.name(name));
    let lock = plain(&client, &names);
    lock.lock().expect("free").unlock().expect("held");
    let before = server.script_calls();
    lock.lock().expect("free").unlock().expect("held");
    assert_eq!(server.script_calls() - before, 2);
    let guard = lock.lock().expect("free");
    let holders: Vec<&str> = guard.holder().split(',').collect();
    let mut redis = server.connection();
    for (name, holder) in names.iter().zip(holders) {
        let count: u64 = redis.hget(name, holder).expect("held by it");
        assert_eq!(count, 1);
        let other = client.reentrant_lock(name);
        assert!(thread::scope(|scope| {
            let tried = scope.spawn(|| other.try_lock().expect("answered").is_none());
            tried.join().expect("ends well")
        }));
    }
    assert!(lock.is_held_by_current_thread().expect("answered"));
    assert_eq!(guard.name(), names.join(","));
    guard.unlock().expect("held");
    assert!(!lock.is_held_by_current_thread().expect("answered"));
}

#[test]
fn one_that_is_taken_refuses_all() {
    let ground = Ground::new();
    let server = ground.server();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let names = ["A", "B", "C"].map(|name| ground.name(name));
    let lock = plain(&ours, &names);
    let taken = theirs.reentrant_lock(&names[2]).lock().expect("free");
    assert!(lock.try_lock().expect("answered").is_none());
    let waited = lock.try_lock_for(Duration::from_millis(100));
    assert!(waited.expect("answered").is_none());
    let mut redis = server.connection();
    let there: u64 = redis.exists(&names).expect("EXISTS");
    assert_eq!(there, 1, "nothing is left of it");
    thread::scope(|scope| {
        let waiter = scope.spawn(|| lock.lock().map(|guard| guard.unlock()));
        eventually(SOON, "it waits", || ours.state().waiters == 1);
        taken.unlock().expect("held");
        let entered = waiter.join().expect("ends well").expect("let in");
        entered.expect("held");
    });
}

#[test]
fn the_same_twice_is_a_re_entry() {
    let ground = Ground::new();
    let client = connect(&ground);
    let name = ground.name("A");
    let lock = plain(&client, &[name.clone(), name.clone(), ground.name("B")]);
    let guard = lock.lock().expect("free");
    let one = client.reentrant_lock(&name);
    assert_eq!(one.hold_count().expect("answered"), 2);
    let again = lock.lock().expect("its own");
    assert_eq!(one.hold_count().expect("answered"), 4);
    again.unlock().expect("held");
    guard.unlock().expect("held");
    assert!(!one.is_locked().expect("answered"));
    let error = lock.lock_owned().expect_err("it would wait for itself");
    assert_eq!(error.kind(), ErrorKind::Config);
    let error = lockson::MultiLock::new([]).expect_err("of nothing");
    assert_eq!(error.kind(), ErrorKind::Config);
}

#[test]
fn members_of_any_kind_and_client() {
    let ground = Ground::new();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let names = ["A", "B", "C", "D", "E"].map(|name| ground.name(name));
    let rw = ours.read_write_lock(&names[2]);
    let lock = of([
        ours.reentrant_lock(&names[0]).into(),
        ours.fair_lock(&names[1]).into(),
        rw.read_lock().into(),
        theirs.reentrant_lock(&names[3]).into(),
        of([theirs.read_write_lock(&names[4]).write_lock().into()]).into(),
    ]);
    for _ in 0..2 {
        let guard = lock.lock_with_lease(Duration::from_secs(60)).expect("free");
        assert!(guard.remaining() > Duration::from_secs(50));
        guard.verify().expect("held");
        guard.extend(Duration::from_secs(90)).expect("held");
        assert!(guard.remaining() > Duration::from_secs(80));
        assert!(
            theirs
                .reentrant_lock(&names[0])
                .try_lock()
                .expect("answered")
                .is_none()
        );
        guard.unlock().expect("held");
    }
    let owned = lock.lock_owned().expect("free");
    thread::scope(|scope| scope.spawn(|| owned.unlock()).join().expect("ends well")).expect("held");
}

#[test]
fn a_lost_member_is_told_and_the_rest_is_released() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect_with(&ground, |plain| {
        plain.lock_watchdog_timeout(Duration::from_millis(900))
    });
    let names = ["A", "B", "C"].map(|name| ground.name(name));
    let lock = plain(&client, &names);
    let guard = lock.lock().expect("free");
    let lost = guard.lost();
    assert_eq!(lost.wait(Duration::from_millis(10)), Ended::TimedOut);
    server.cli(&["DEL", &names[1]]);
    assert_eq!(lost.wait(SOON), Ended::Lost(LostReason::Gone));
    assert!(!guard.is_held());
    assert_eq!(guard.lost_members(), [&*names[1]]);
    let error = guard.unlock().expect_err("one was lost");
    assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
    assert_eq!(error.name(), Some(&*names[1]));
    let there: u64 = server.connection().exists(&names).expect("EXISTS");
    assert_eq!(there, 0);
    let guard = lock.lock().expect("free");
    let released = guard.lost();
    drop(guard);
    assert_eq!(released.wait(SOON), Ended::Released);
}

#[test]
fn a_lease_begins_when_all_are_taken() {
    let ground = Ground::new();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let names = ["A", "B"].map(|name| ground.name(name));
    let lock = plain(&ours, &names);
    let taken = theirs.reentrant_lock(&names[1]).lock().expect("free");
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let guard = lock
                .lock_with_lease(Duration::from_secs(60))
                .expect("let in");
            let remaining = guard.remaining();
            guard.unlock().expect("held");
            remaining
        });
        eventually(SOON, "it waits", || ours.state().waiters == 1);
        taken.unlock().expect("held");
        let remaining = waiter.join().expect("ends well");
        assert!(remaining > Duration::from_secs(55), "{remaining:?}");
    });
}

#[test]
fn a_cancelled_wait_leaves_nothing() {
    let ground = Ground::new();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let names = ["A", "B"].map(|name| ground.name(name));
    let lock = plain(&ours, &names);
    let taken = theirs.reentrant_lock(&names[1]).lock().expect("free");
    let token = CancelToken::new();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| lock.options().cancel(&token).acquire().map(|_| ()));
        eventually(SOON, "it waits", || ours.state().waiters == 1);
        token.cancel();
        let error = waiter.join().expect("ends well").expect_err("cancelled");
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    });
    taken.unlock().expect("held");
}

#[test]
fn opposite_orders_make_progress() {
    let ground = Ground::alone();
    let clients = [connect(&ground), connect(&ground)];
    let names = ["A", "B", "C", "D"].map(|name| ground.name(name));
    let mut turned = names.clone();
    turned.reverse();
    let locks = [plain(&clients[0], &names), plain(&clients[1], &turned)];
    let longest = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let lock = &locks[number % 2];
                scope.spawn(move || {
                    let mut longest = Duration::ZERO;
                    for _ in 0..100 {
                        let asked = Instant::now();
                        let guard = lock.lock().expect("its turn comes");
                        longest = longest.max(asked.elapsed());
                        guard.unlock().expect("held");
                    }
                    longest
                })
            })
            .collect();
        let waits = threads
            .into_iter()
            .map(|one| one.join().expect("ends well"));
        waits.max().expect("some")
    });
    println!("400 entries in opposite orders, longest wait {longest:?}");
    assert!(longest < Duration::from_secs(10), "{longest:?}");
}
