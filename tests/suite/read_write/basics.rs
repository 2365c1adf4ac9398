//! Who may be there with whom.

use std::thread;

use lockson::{ErrorKind, Ttl};

use super::{SOON, fields, millis, other_thread, secs, slot};
use crate::support::{Ground, connect, connect_with, eventually};

#[test]
fn readers_share_and_a_writer_is_alone() {
    let ground = Ground::new();
    let server = ground.server();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let (lock, other) = (ours.read_write_lock(&name), theirs.read_write_lock(&name));
    let first = lock.read().expect("free");
    let second = other.read().expect("shared");
    other_thread(|| {
        let third = lock.try_read().expect("answered").expect("shared");
        assert_ne!(third.holder(), first.holder());
    });
    for writer in [&lock, &other] {
        assert!(other_thread(|| writer
            .try_write()
            .expect("answered")
            .is_none()));
    }
    let found = fields(&server, &lock);
    assert_eq!(found["mode"], "read");
    assert_eq!(found[first.holder()], "1");
    assert_eq!(found[second.holder()], "1");
    assert_eq!(found.len(), 3);
    first.unlock().expect("held");
    assert!(other.read_lock().is_locked().expect("answered"));
    second.unlock().expect("held");

    let writing = lock.write().expect("free");
    assert!(lock.write_lock().is_locked().expect("answered"));
    assert!(!lock.read_lock().is_locked().expect("answered"));
    assert!(other.try_read().expect("answered").is_none());
    assert!(other.try_write().expect("answered").is_none());
    assert!(other_thread(|| lock
        .try_read()
        .expect("answered")
        .is_none()));
    let found = fields(&server, &lock);
    assert_eq!(found["mode"], "write");
    assert_eq!(found[&format!("{}:write", writing.holder())], "1");
    writing.unlock().expect("held");
    assert_eq!(
        lock.read_lock().remaining_ttl().expect("answered"),
        Ttl::Free
    );
}

#[test]
fn a_writer_may_read_and_go_on_reading() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.read_write_lock(ground.name("L"));
    let writing = lock.write().expect("free");
    let reading = lock.try_read().expect("answered").expect("its own");
    assert_eq!(reading.holder(), writing.holder());
    assert!(lock.read_lock().is_locked().expect("answered"));
    // A second one that reads under the same right to write is another hold.
    let holder = reading.holder().to_owned();
    reading.unlock().expect("held");
    let reading = lock.read().expect("its own");
    assert_ne!(reading.holder(), holder);
    assert_eq!(fields(&server, &lock).len(), 3);
    writing.unlock().expect("held");
    assert_eq!(fields(&server, &lock)["mode"], "read");
    let beside = other_thread(|| {
        lock.try_read()
            .expect("answered")
            .map(|beside| beside.unlock())
    });
    beside.expect("it is shared now").expect("held");
    reading.verify().expect("held");
    reading.unlock().expect("held");
    assert!(fields(&server, &lock).is_empty());
}

#[test]
fn a_downgrade_keeps_reading_and_lets_readers_in() {
    let ground = Ground::new();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let (lock, other) = (ours.read_write_lock(&name), theirs.read_write_lock(&name));
    let writing = lock.write().expect("free");
    thread::scope(|scope| {
        let readers: Vec<_> = [&lock, &lock, &other, &other]
            .map(|lock| scope.spawn(|| lock.read().expect("let in").unlock()))
            .into();
        eventually(SOON, "all wait", || {
            ours.state().waiters == 2 && theirs.state().waiters == 2
        });
        let reading = writing.downgrade().expect("held");
        for reader in readers {
            reader.join().expect("ends well").expect("held");
        }
        reading.verify().expect("it still reads");
        assert!(other.try_write().expect("answered").is_none());
        reading.unlock().expect("held");
    });
    let owned = other.write_lock().lock_owned().expect("free");
    let reading = owned.downgrade().expect("held");
    lock.read().expect("shared").unlock().expect("held");
    other_thread(move || reading.unlock()).expect("held");
}

#[test]
fn a_downgrade_is_kept_as_the_writer_was() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect_with(&ground, |plain| plain.lock_watchdog_timeout(secs(20)));
    let lock = client.read_write_lock(ground.name("L"));
    let leased = lock.write_with_lease(secs(50)).expect("free");
    let reading = leased.downgrade().expect("held");
    let left = slot(&server, &lock, reading.holder(), 1);
    assert!((40_000..=50_000).contains(&left), "{left}");
    assert_eq!(client.state().renewals, 0);
    reading.unlock().expect("held");
    let reading = lock.write().expect("free").downgrade().expect("held");
    let left = slot(&server, &lock, reading.holder(), 1);
    assert!((10_000..=20_000).contains(&left), "{left}");
    assert_eq!(client.state().renewals, 1);
    reading.unlock().expect("held");
}

#[test]
fn a_lost_writer_cannot_be_downgraded() {
    let ground = Ground::new();
    let server = ground.server();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let (lock, other) = (ours.read_write_lock(&name), theirs.read_write_lock(&name));
    for next in ["nobody", "a reader", "a writer"] {
        let writing = lock.write().expect("free");
        assert!(other.write_lock().force_unlock().expect("answered"));
        let reader = (next == "a reader").then(|| other.read().expect("free"));
        let writer = (next == "a writer").then(|| other.write().expect("free"));
        let before = fields(&server, &lock);
        let (error, writing) = writing.downgrade().expect_err(next);
        assert_eq!(error.kind(), ErrorKind::NotHeld, "{next}: {error}");
        assert!(!writing.is_held());
        drop(writing);
        assert_eq!(fields(&server, &lock), before, "{next}: it left something");
        assert_eq!(ours.state().holds, 0);
        reader.map_or(Ok(()), |one| one.unlock()).expect("held");
        writer.map_or(Ok(()), |one| one.unlock()).expect("held");
    }
}

/// Its old guards would believe again in what they do not have.
#[test]
fn who_lost_it_begins_anew() {
    let ground = Ground::new();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let (lock, other) = (ours.read_write_lock(&name), theirs.read_write_lock(&name));
    let writing = lock.write_with_lease(secs(60)).expect("free");
    assert!(other.write_lock().force_unlock().expect("answered"));
    let next = lock.try_write().expect("answered").expect("free");
    assert_ne!(next.holder(), writing.holder());
    assert!(!writing.is_held());
    assert_eq!(lock.write_lock().hold_count().expect("answered"), 1);
    drop(writing);
    next.verify().expect("it writes");
    next.unlock().expect("held");

    let reading = lock.read_with_lease(secs(60)).expect("free");
    assert!(other.read_lock().force_unlock().expect("answered"));
    let next = lock.try_read().expect("answered").expect("free");
    assert_ne!(next.holder(), reading.holder());
    assert!(!reading.is_held());
    assert_eq!(lock.read_lock().hold_count().expect("answered"), 1);
    drop(reading);
    next.verify().expect("it reads");
    next.unlock().expect("held");
}

#[test]
fn who_reads_cannot_wait_to_write() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.read_write_lock(ground.name("L"));
    let reading = lock.read().expect("free");
    for error in [
        lock.write().expect_err("it would wait for itself"),
        lock.write_with_lease(secs(1)).expect_err("so would it"),
        lock.write_lock().lock_owned().expect_err("and so"),
    ] {
        assert_eq!(error.kind(), ErrorKind::WouldDeadlock, "{error}");
    }
    assert!(lock.try_write().expect("answered").is_none());
    let waited = lock.try_write_for(millis(100)).expect("answered");
    assert!(waited.is_none());
    reading.unlock().expect("held");
    // A lease ends by itself, and so does the wait.
    let leased = lock.read_with_lease(millis(300)).expect("free");
    let writing = lock.write().expect("after the lease");
    assert!(!leased.is_held());
    writing.unlock().expect("held");
}

#[test]
fn each_half_is_re_entered_by_its_thread() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.read_write_lock(ground.name("L"));
    let outer = lock.write().expect("free");
    let inner = lock.write().expect("its own");
    assert_eq!(lock.write_lock().hold_count().expect("answered"), 2);
    assert_eq!(inner.holder(), outer.holder());
    outer.unlock().expect("held");
    assert!(
        lock.write_lock()
            .is_held_by_current_thread()
            .expect("answered")
    );
    inner.unlock().expect("held");
    let first = lock.read().expect("free");
    let second = lock.read().expect("its own");
    assert_eq!(lock.read_lock().hold_count().expect("answered"), 2);
    first.unlock().expect("held");
    assert_eq!(lock.read_lock().hold_count().expect("answered"), 1);
    assert!(!other_thread(|| lock.read_lock().is_held_by_current_thread()).expect("answered"));
    second.unlock().expect("held");
    assert_eq!(lock.read_lock().hold_count().expect("answered"), 0);
}

#[test]
fn readers_enter_by_one_request_each() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.read_write_lock(ground.name("L"));
    lock.read().expect("free").unlock().expect("held");
    let first = lock.read().expect("free");
    let before = server.script_calls();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let guard = lock.read().expect("shared");
                guard.unlock().expect("held");
            });
        }
    });
    assert_eq!(server.script_calls() - before, 16);
    first.unlock().expect("held");
}

#[test]
fn inspection_names_readers_and_writer() {
    let ground = Ground::new();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let (lock, other) = (ours.read_write_lock(&name), theirs.read_write_lock(&name));
    let first = lock.read_with_lease(secs(60)).expect("free");
    let second = other.read_with_lease(secs(20)).expect("shared");
    let again = other.read_with_lease(secs(10)).expect("its own");
    let seen = lock.inspect().expect("answered");
    assert_eq!(seen.mode.as_deref(), Some("read"));
    assert!(matches!(seen.ttl, Ttl::Left(left) if left > secs(50)));
    let of = |holder: &str| {
        let mut holders = seen.holders.iter();
        let found = holders.find(|one| one.holder == holder).expect("there");
        (found.count, found.writes, found.left.expect("a reader"))
    };
    let (count, writes, left) = of(first.holder());
    assert!(count == 1 && !writes && left > secs(50), "{seen:?}");
    let (count, writes, left) = of(second.holder());
    assert!(count == 2 && !writes && left > secs(10) && left <= secs(20));
    for guard in [first, second, again] {
        guard.unlock().expect("held");
    }
    let writing = lock.write().expect("free");
    let seen = other.inspect().expect("answered");
    assert_eq!(seen.mode.as_deref(), Some("write"));
    let [writer] = &seen.holders[..] else {
        panic!("one writes: {seen:?}");
    };
    assert_eq!((&*writer.holder, writer.count), (writing.holder(), 1));
    assert!(writer.writes && writer.left.is_none());
}

#[test]
fn all_waiting_readers_enter_when_the_writer_goes() {
    let ground = Ground::new();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let (lock, other) = (ours.read_write_lock(&name), theirs.read_write_lock(&name));
    for writer in [&lock, &other] {
        let writing = writer.write().expect("free");
        thread::scope(|scope| {
            let readers: Vec<_> = (0..20)
                .map(|_| scope.spawn(|| lock.read_lock().try_lock_owned_for(SOON)))
                .collect();
            eventually(SOON, "all wait", || ours.state().waiters == 20);
            writing.unlock().expect("held");
            // Nobody goes before all are in.
            let inside: Vec<_> = readers
                .into_iter()
                .map(|reader| reader.join().expect("ends well").expect("answered"))
                .collect();
            for guard in inside {
                guard.expect("let in").unlock().expect("held");
            }
        });
    }
}

#[test]
fn a_writer_waits_for_the_last_reader() {
    let ground = Ground::new();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let (lock, other) = (ours.read_write_lock(&name), theirs.read_write_lock(&name));
    for (readers, waiter) in [
        ([&lock, &other], &lock),
        ([&lock, &lock], &lock),
        ([&other, &other], &lock),
    ] {
        thread::scope(|scope| {
            let (first, second) = (
                readers[0].read_lock().lock_owned().expect("free"),
                readers[1].read_lock().lock_owned().expect("shared"),
            );
            let writer = scope.spawn(|| waiter.write().map(|guard| guard.unlock()));
            eventually(SOON, "it waits", || ours.state().waiters == 1);
            first.unlock().expect("held");
            assert!(second.is_held());
            assert!(!writer.is_finished());
            second.unlock().expect("held");
            let entered = writer.join().expect("ends well").expect("let in");
            entered.expect("held");
        });
    }
}

#[test]
fn a_plain_lock_of_that_name_keeps_both_out() {
    let ground = Ground::new();
    let client = connect(&ground);
    let name = ground.name("L");
    let lock = client.read_write_lock(&name);
    let plain = client.reentrant_lock(&name);
    let guard = plain.lock().expect("free");
    assert!(lock.try_read().expect("answered").is_none());
    assert!(lock.try_write().expect("answered").is_none());
    thread::scope(|scope| {
        let reader = scope.spawn(|| lock.read().expect("let in").unlock());
        eventually(SOON, "it waits", || client.state().waiters == 1);
        guard.unlock().expect("held");
        reader.join().expect("ends well").expect("held");
    });
    let reading = lock.read().expect("free");
    assert!(plain.try_lock().expect("answered").is_none());
    assert_eq!(plain.hold_count().expect("answered"), 0);
    reading.unlock().expect("held");
}
