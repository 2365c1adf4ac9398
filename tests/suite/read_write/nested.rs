//! Who has one half of a lock and wants another.

use lockson::{ClientBuilder, ErrorKind, MultiLock, RedLock};
use redis::Commands;

use super::{SOON, fields, millis, slot};
use crate::support::{Ground, connect, connect_to};

#[test]
fn a_writer_that_also_reads_may_write_again() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.read_write_lock(ground.name("L"));
    let outer = lock.write().expect("free");
    let reading = lock.read().expect("its own");
    let tried = lock.try_write().expect("answered").expect("its own");
    let inner = lock.write().expect("its own");
    assert_eq!(inner.holder(), outer.holder());
    assert_eq!(lock.write_lock().hold_count().expect("answered"), 3);
    for writing in [inner, tried, outer] {
        writing.unlock().expect("held");
    }
    // Now it would wait for itself.
    let error = lock.write().expect_err("it reads");
    assert_eq!(error.kind(), ErrorKind::WouldDeadlock, "{error}");
    reading.unlock().expect("held");
    assert!(fields(&server, &lock).is_empty());
}

#[test]
fn who_reads_cannot_wait_to_write_it_among_several() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.read_write_lock(ground.name("L"));
    let plain = client.reentrant_lock(ground.name("P"));
    let both = MultiLock::new([(&lock.write_lock()).into(), (&plain).into()]).expect("two");
    let reading = lock.read().expect("free");
    let error = both.lock().expect_err("it would wait for itself");
    assert_eq!(error.kind(), ErrorKind::WouldDeadlock, "{error}");
    assert!(both.try_lock().expect("answered").is_none());
    let waited = both.try_lock_for(millis(100)).expect("answered");
    assert!(waited.is_none());
    assert!(!plain.is_locked().expect("answered"), "nothing is left");
    reading.verify().expect("it reads");
    reading.unlock().expect("held");
    both.lock().expect("free").unlock().expect("held");
}

#[test]
fn who_reads_most_of_several_cannot_wait_to_write_a_majority() {
    let ground = Ground::new();
    let servers = [(); 3].map(|()| ground.server_with(|plain| plain));
    let name = ground.name("L");
    let locks = servers.each_ref().map(|server| {
        let patient = |plain: ClientBuilder| plain.red_lock_member_timeout(SOON);
        connect_to(&ground, &server.url(), patient).read_write_lock(&name)
    });
    let writes = locks.each_ref().map(|lock| (&lock.write_lock()).into());
    let lock = RedLock::new(writes).expect("three");
    // One of three is in nobody's way.
    let first = locks[0].read().expect("free");
    lock.lock().expect("two are free").unlock().expect("held");
    let second = locks[1].read().expect("free");
    let error = lock.lock().expect_err("it would wait for itself");
    assert_eq!(error.kind(), ErrorKind::WouldDeadlock, "{error}");
    assert!(lock.try_lock().expect("answered").is_none());
    first.unlock().expect("held");
    lock.lock().expect("two are free").unlock().expect("held");
    second.unlock().expect("held");
}

#[test]
fn a_name_with_a_nul_has_the_slots_of_its_whole_name() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.read_write_lock(format!("{}\0b", ground.name("L")));
    let first = lock.read().expect("free");
    let second = lock.read().expect("its own");
    for number in [1, 2] {
        assert!(slot(&server, &lock, first.holder(), number) > 0);
    }
    let mut redis = server.connection();
    let keys: Vec<String> = redis.keys("*").expect("KEYS");
    assert_eq!(keys.len(), 3, "{keys:?}");
    first.unlock().expect("held");
    second.unlock().expect("held");
    let keys: Vec<String> = redis.keys("*").expect("KEYS");
    assert_eq!(keys, Vec::<String>::new());
}
