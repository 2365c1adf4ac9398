//! A reader lives by the leases of its guards, and whoever else reads or dies.

use std::{
    thread,
    time::{Duration, Instant},
};

use lockson::{Ended, ErrorKind, LostReason, ReadGuard};
use redis::Commands;

use super::{SOON, believed, fields, millis, secs, slot, ttl};
use crate::support::{Ground, connect, connect_with, eventually};

#[test]
fn what_is_left_lives_by_the_longest_lease_that_is_left() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.read_write_lock(ground.name("L"));
    // In any order: which of the guards goes, not which came last.
    for (leases, gone, left) in [
        ([2, 20], 1, 2),
        ([20, 2], 0, 2),
        ([20, 2], 1, 20),
        ([2, 20], 0, 20),
    ] {
        let mut guards: Vec<ReadGuard> = leases
            .map(|lease| lock.read_with_lease(secs(lease)).expect("its own"))
            .into();
        guards.remove(gone).unlock().expect("held");
        let kept = ttl(&server, &lock).min(slot(&server, &lock, guards[0].holder(), 1));
        let remaining = guards[0].remaining();
        assert!(
            remaining <= secs(left) && remaining > secs(left) / 2,
            "{remaining:?}"
        );
        assert!(kept >= believed(remaining), "{kept} of {remaining:?}");
        guards.remove(0).unlock().expect("held");
        assert!(fields(&server, &lock).is_empty());
    }
}

/// A slot that is over cannot be prolonged: the lock would go with the guard that had the other.
#[test]
fn who_stays_gets_the_slot_of_one_that_is_over() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.read_write_lock(ground.name("L"));
    let mut over = 0;
    for _ in 0..5 {
        let short = lock.read_with_lease(millis(30)).expect("free");
        let long = lock.read_with_lease(secs(20)).expect("its own");
        let left = eventually(SOON, "its time is over", || {
            let left = slot(&server, &lock, long.holder(), 1);
            // Once a second, the watchdog makes it again.
            (left == -2 || left > 1_000).then_some(left)
        });
        over += usize::from(left == -2);
        short.unlock().expect("the other keeps it");
        assert!(slot(&server, &lock, long.holder(), 1) > 10_000);
        assert!(ttl(&server, &lock) > 10_000);
        long.verify().expect("it reads");
        long.unlock().expect("held");
        assert!(fields(&server, &lock).is_empty());
    }
    assert!(over > 0, "it was made again each time");
}

#[test]
fn a_release_that_leaves_only_what_is_over_releases_all() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.read_write_lock(ground.name("L"));
    let short = lock.read_with_lease(millis(50)).expect("free");
    let long = lock.read_with_lease(secs(60)).expect("its own");
    let (short_end, long_end) = (short.lost(), long.lost());
    thread::sleep(millis(60));
    assert!(short.is_held(), "as long as the other is there");
    long.unlock().expect("held");
    assert!(fields(&server, &lock).is_empty());
    assert_eq!(long_end.wait(SOON), Ended::Released);
    assert_eq!(short_end.reason(), Some(LostReason::Expired));
    assert!(short.unlock().is_err());
}

/// The watchdog, which thought that nobody would, once released it first: then it was "not held".
#[test]
fn who_releases_all_has_held_it() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.read_write_lock(ground.name("L"));
    for round in 0..100 {
        let short = lock.read_with_lease(millis(1)).expect("free");
        let long = lock.read_with_lease(secs(60)).expect("its own");
        let longer = lock.read_with_lease(secs(90)).expect("its own");
        thread::sleep(millis(2));
        if round % 2 == 0 {
            // Redis may keep it longer from now on than we believe in it.
            longer.unlock().expect("held");
            long.unlock().expect("held");
        } else {
            long.unlock().expect("held");
            longer.unlock().expect("held");
        }
        assert!(fields(&server, &lock).is_empty());
        drop(short);
    }
}

/// Redis may keep a slot that was made for a guard that is gone.
#[test]
fn what_redis_keeps_longer_than_we_believe_is_released() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect_with(&ground, |plain| plain.lock_watchdog_timeout(secs(3)));
    let lock = client.read_write_lock(ground.name("L"));
    let long = lock.read_with_lease(secs(60)).expect("free");
    let short = lock.read_with_lease(millis(500)).expect("its own");
    long.unlock().expect("held");
    assert!(short.remaining() <= millis(500));
    eventually(SOON, "nobody is kept out for it", || {
        fields(&server, &lock).is_empty()
    });
    drop(short);
}

#[test]
fn a_dead_reader_keeps_nobody_out_after_its_own_time() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.read_write_lock(ground.name("L"));
    let living = lock.read().expect("free");
    let mut redis = server.connection();
    let slot = format!("{{{}}}:dead:1:rwlock_timeout:1", lock.name());
    let () = redis.pset_ex(&slot, 1, 100).expect("PSETEX");
    let _: i64 = redis.hset(lock.name(), "dead:1", 1).expect("HSET");
    eventually(SOON, "its time is over", || {
        !redis.exists::<_, bool>(&slot).expect("EXISTS")
    });
    let seen = lock.inspect().expect("answered");
    let dead = seen.holders.iter().find(|one| one.holder == "dead:1");
    assert_eq!(dead.expect("its name").left, Some(Duration::ZERO));
    let mut listening = server.connection();
    let mut channel = listening.as_pubsub();
    let name = format!("redisson_rwlock:{{{}}}", lock.name());
    channel.subscribe(name).expect("SUBSCRIBE");
    channel.set_read_timeout(Some(SOON)).expect("a socket");
    living.unlock().expect("held");
    assert!(fields(&server, &lock).is_empty());
    // Who waits is told, though a name was there beside the last that reads.
    let told = channel.get_message().expect("it is told");
    assert_eq!(told.get_payload::<String>().expect("text"), "0");
}

/// Redisson's watchdog does this to all readers of a lock.
#[test]
fn a_ttl_that_others_lower_is_raised_again() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.read_write_lock(ground.name("L"));
    let guards = [
        lock.read_with_lease(secs(40)).expect("free"),
        lock.read().expect("its own"),
    ];
    for guard in guards {
        server.cli(&["PEXPIRE", lock.name(), "3000"]);
        let lowered = Instant::now();
        eventually(SOON, "it is raised", || ttl(&server, &lock) > 10_000);
        assert!(lowered.elapsed() < secs(3), "{:?}", lowered.elapsed());
        guard.unlock().expect("held");
    }
}

/// The watchdog raises what others lower for all guards together. What it raised for a long lease was
/// once what the others had when that was gone, and a process that died kept writers out for so long.
#[test]
fn who_stays_does_not_have_the_lease_of_who_went() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect_with(&ground, |plain| plain.lock_watchdog_timeout(secs(20)));
    let lock = client.read_write_lock(ground.name("L"));
    for leased in [false, true] {
        let stays = match leased {
            false => lock.read().expect("free"),
            true => lock.read_with_lease(secs(20)).expect("free"),
        };
        let goes = lock.read_with_lease(secs(3600)).expect("its own");
        server.cli(&["PEXPIRE", lock.name(), "5000"]);
        eventually(SOON, "it is raised", || ttl(&server, &lock) > 3_000_000);
        goes.unlock().expect("held");
        assert!(stays.remaining() <= secs(20), "{:?}", stays.remaining());
        assert!(slot(&server, &lock, stays.holder(), 1) <= 20_000);
        assert!(ttl(&server, &lock) <= 20_000);
        stays.unlock().expect("held");
        assert!(fields(&server, &lock).is_empty());
    }
}

#[test]
fn a_field_without_a_slot_is_not_held() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.read_write_lock(ground.name("L"));
    let _beside = lock.read_lock().lock_owned().expect("free");
    let guard = lock.read_with_lease(secs(60)).expect("shared");
    let take_away = || {
        let key = format!("{{{}}}:{}:rwlock_timeout:1", lock.name(), guard.holder());
        server.cli(&["DEL", &key]);
    };
    take_away();
    let held = lock.read_lock().is_held_by_current_thread();
    // The watchdog may have been quicker.
    let is_back = || slot(&server, &lock, guard.holder(), 1) > 0;
    assert!(!held.expect("answered") || is_back());
    eventually(SOON, "the slot is asserted", is_back);
    // Who takes it again in between begins anew, and the guard that it had is told.
    take_away();
    let again = lock.read_with_lease(secs(60)).expect("shared");
    if again.holder() == guard.holder() {
        assert!(is_back());
    } else {
        assert!(!guard.is_held());
        assert_eq!(guard.lost().reason(), Some(LostReason::Gone));
        assert_eq!(lock.read_lock().hold_count().expect("answered"), 1);
    }
    again.unlock().expect("held");
    let _ = guard.unlock();
}

#[test]
fn who_was_sent_away_takes_its_slots_with_it() {
    let ground = Ground::new();
    let server = ground.server();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let (lock, other) = (ours.read_write_lock(&name), theirs.read_write_lock(&name));
    for force in [&lock, &other] {
        let guards = [20, 40].map(|lease| lock.read_with_lease(secs(lease)).expect("free"));
        let holder = guards[0].holder().to_owned();
        assert!(force.read_lock().force_unlock().expect("answered"));
        let next = other.write().expect("free");
        for (guard, number) in guards.into_iter().zip([2, 1]) {
            assert!(slot(&server, &lock, &holder, number) > 0, "{number}");
            let error = guard.unlock().expect_err("sent away");
            assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
            assert_eq!(slot(&server, &lock, &holder, number), -2, "{number}");
        }
        assert_eq!(fields(&server, &lock).len(), 2, "the writer alone");
        next.unlock().expect("held");
    }
}

#[test]
fn a_writers_leases_add_up() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.read_write_lock(ground.name("L"));
    let outer = lock.write_with_lease(secs(10)).expect("free");
    let inner = lock.write_with_lease(secs(10)).expect("its own");
    let kept = ttl(&server, &lock);
    let remaining = inner.remaining();
    assert!(
        remaining > secs(15) && remaining <= secs(20),
        "{remaining:?}"
    );
    assert!(kept >= believed(remaining), "{kept} of {remaining:?}");
    inner.unlock().expect("held");
    assert!(outer.remaining() > secs(15), "a release leaves the time");
    // Who reads beside does not shorten it either, whether it stays or goes.
    let readers = [1, 1].map(|lease| lock.read_with_lease(secs(lease)).expect("its own"));
    for reading in readers {
        reading.unlock().expect("held");
        assert!(ttl(&server, &lock) > 15_000);
    }
    outer.verify().expect("it writes");
    outer.unlock().expect("held");
}

/// Else one that died would keep writers out for the time of the writer that it was.
#[test]
fn who_reads_on_lives_as_a_reader() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.read_write_lock(ground.name("L"));
    for (writes, reads) in [(60, 20_i64), (20, 60)] {
        let writing = lock.write_with_lease(secs(writes)).expect("free");
        let lease = secs(reads.unsigned_abs());
        let reading = lock.read_with_lease(lease).expect("its own");
        assert!(ttl(&server, &lock) > 50_000);
        writing.unlock().expect("held");
        let left = ttl(&server, &lock);
        assert!(left >= believed(reading.remaining()) && left <= 1_000 * reads);
        reading.unlock().expect("held");
    }
}

#[test]
fn a_writer_leaves_no_reader_whose_time_is_over() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.read_write_lock(ground.name("L"));
    let writing = lock.write_with_lease(secs(60)).expect("free");
    let reading = lock.read_with_lease(millis(30)).expect("its own");
    eventually(SOON, "it reads no more", || {
        slot(&server, &lock, reading.holder(), 1) == -2
    });
    assert_eq!(fields(&server, &lock).len(), 3, "its name is there");
    writing.unlock().expect("held");
    assert!(fields(&server, &lock).is_empty());
    assert!(reading.unlock().is_err());
}

#[test]
fn both_halves_are_renewed_each_for_itself() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect_with(&ground, |plain| plain.lock_watchdog_timeout(millis(600)));
    let lock = client.read_write_lock(ground.name("L"));
    let writing = lock.write().expect("free");
    let reading = lock.read().expect("its own");
    reading.unlock().expect("held");
    assert_eq!(client.state().renewals, 1, "writing goes on");
    let began = Instant::now();
    eventually(SOON, "three times its timeout", || {
        began.elapsed() > millis(1800)
    });
    writing.verify().expect("kept");
    let reading = lock.read().expect("its own");
    writing.unlock().expect("held");
    let began = Instant::now();
    eventually(SOON, "three times its timeout", || {
        began.elapsed() > millis(1800)
    });
    reading.verify().expect("kept");
    assert!(slot(&server, &lock, reading.holder(), 1) > 0);
    reading.unlock().expect("held");
}

/// The reader beneath it keeps the key for long, and with it the writer's field.
#[test]
fn a_writer_whose_time_is_over_keeps_no_readers_out() {
    let ground = Ground::new();
    let server = ground.server();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let (lock, other) = (ours.read_write_lock(&name), theirs.read_write_lock(&name));
    for renewed in [false, true] {
        let writing = lock.write_with_lease(millis(300)).expect("free");
        let reading = match renewed {
            true => lock.read().expect("its own"),
            false => lock.read_with_lease(secs(60)).expect("its own"),
        };
        assert!(other.try_read().expect("answered").is_none());
        let beside = eventually(SOON, "it writes no more", || {
            other.try_read().expect("answered")
        });
        assert!(!writing.is_held());
        assert_eq!(fields(&server, &lock)["mode"], "read");
        beside.unlock().expect("held");
        reading.verify().expect("it reads on");
        assert!(writing.unlock().is_err());
        reading.unlock().expect("held");
    }
}
