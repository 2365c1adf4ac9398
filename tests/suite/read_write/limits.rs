//! What a user may not say, what there is no memory for, and how long a reader may stay.

use std::time::Instant;

use lockson::{Client, Ended, ErrorKind, Event, LostReason};
use redis::Commands;

use super::{SOON, fields, millis, other_thread, secs, slot, ttl};
use crate::support::{Ground, Server, Told, connect, connect_to, connect_with, eventually};

#[test]
fn without_the_right_to_publish_a_release_releases_and_says_so() {
    let ground = Ground::new();
    let server = ground.server();
    let client = mute(&ground, &server, &Told::default());
    let lock = client.read_write_lock(ground.name("L"));
    let first = lock.read_lock().lock_owned().expect("free");
    let last = lock.read().expect("shared");
    first.unlock().expect("there is nothing to tell");
    let says_so = |error: lockson::Error| {
        assert_eq!(error.kind(), ErrorKind::NoPermission, "{error}");
        assert!(error.released());
        assert_eq!(keys(&server), Vec::<String>::new());
    };
    says_so(last.unlock().expect_err("no right to publish"));
    let guard = lock.write().expect("free");
    says_so(guard.unlock().expect_err("no right to publish"));
    assert_eq!(client.state().holds, 0);
}

#[test]
fn without_the_right_to_publish_a_downgrade_reads_on() {
    let ground = Ground::new();
    let server = ground.server();
    let told = Told::default();
    let client = mute(&ground, &server, &told);
    let other = connect(&ground);
    let lock = client.read_write_lock(ground.name("L"));
    let reading = lock.write().expect("free").downgrade().expect("it reads");
    reading.verify().expect("it reads");
    let found = fields(&server, &lock);
    assert_eq!((found.len(), &*found["mode"]), (2, "read"));
    let beside = other.read_write_lock(lock.name());
    let beside = beside.try_read().expect("answered").expect("shared");
    eventually(SOON, "it is told", || !told.all().is_empty());
    assert!(
        matches!(&told.all()[..], [Event::ReleaseFailed { name, error, .. }]
            if **name == *lock.name()
                && error.kind() == ErrorKind::NoPermission
                && error.released()),
        "{:?}",
        told.all()
    );
    reading.unlock().expect("there is nothing to tell");
    beside.unlock().expect("held");
}

#[test]
fn readers_are_kept_and_extended_while_memory_is_full() {
    let ground = Ground::new();
    let server = ground.server();
    let timeout = millis(900);
    let client = connect_with(&ground, |plain| plain.lock_watchdog_timeout(timeout));
    let lock = client.read_write_lock(ground.name("L"));
    let reading = lock.read().expect("free");
    let again = lock.read().expect("its own");
    let leased = client.read_write_lock(ground.name("M"));
    let lease = leased.read_with_lease(secs(20)).expect("free");
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = other_thread(|| lock.try_read().map(drop));
    let error = refused.expect_err("no memory");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    // Longer than it lives by itself.
    assert_eq!(reading.lost().wait(3 * timeout), Ended::TimedOut);
    for number in [1, 2] {
        assert!(slot(&server, &lock, reading.holder(), number) > 0);
    }
    lease.extend(secs(60)).expect("nothing new is written");
    assert!(slot(&server, &leased, lease.holder(), 1) > 50_000);
    assert!(ttl(&server, &leased) > 50_000);
    for guard in [reading, again, lease] {
        guard.verify().expect("it reads");
        guard.unlock().expect("held");
    }
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(keys(&server), Vec::<String>::new());
}

#[test]
fn max_hold_ends_a_reader_beside_others() {
    let ground = Ground::alone();
    let server = ground.server();
    let told = Told::default();
    let client = connect_with(&ground, |plain| {
        plain
            .lock_watchdog_timeout(millis(600))
            .on_event(told.handler())
    });
    let lock = client.read_write_lock(ground.name("L"));
    let beside = lock.read_lock().lock_owned().expect("free");
    let asked = Instant::now();
    let bounded = lock.read_lock().options().max_hold(millis(1500)).acquire();
    let bounded = bounded.expect("answered").expect("shared");
    assert_eq!(bounded.lost().wait(SOON), Ended::Lost(LostReason::Expired));
    let held = asked.elapsed();
    assert!(held >= millis(1400) && held < millis(1900), "{held:?}");
    eventually(SOON, "its slot is gone", || {
        slot(&server, &lock, bounded.holder(), 1) < 0
    });
    eventually(SOON, "it is told", || !told.lost().is_empty());
    let holder = bounded.holder().to_owned();
    assert_eq!(
        told.lost(),
        [(lock.name().to_owned(), holder, LostReason::Expired)]
    );
    assert!(!bounded.is_held());
    // Its name is there as long as others read.
    bounded.unlock().expect("it is taken away");
    beside.verify().expect("it reads on");
    beside.unlock().expect("held");
    assert_eq!(keys(&server), Vec::<String>::new());
}

/// A client that may do all but speak.
fn mute(ground: &Ground, server: &Server, told: &Told) -> Client {
    let rules = "ACL SETUSER mute on >pass ~* +@all resetchannels";
    server.cli(&rules.split(' ').collect::<Vec<_>>());
    let url = format!("redis://mute:pass@{}/", server.addr());
    connect_to(ground, &url, |plain| plain.on_event(told.handler()))
}

fn keys(server: &Server) -> Vec<String> {
    server.connection().keys("*").expect("KEYS")
}
