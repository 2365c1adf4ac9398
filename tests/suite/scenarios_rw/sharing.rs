//! Redisson's tests of who may be there with whom.

use std::{sync::Barrier, thread, time::Instant};

use super::{
    SOON, forget_slot, is_free, left, locked, of_another_client, other_thread, passed_since,
    refused, secs, taken,
};
use crate::support::{Ground, connect, connect_to, eventually, launch::free_port};

/// `RedissonReadWriteLockTest.testInCluster`
///
/// The node has the slot of this lock alone: all keys of a lock must be in it.
#[test]
fn test_in_cluster() {
    let ground = Ground::new();
    // Ten thousand above it is another port of the node.
    let port = std::iter::repeat_with(free_port).find(|port| *port < 50_000);
    let server = ground.server_with(|plain| {
        plain
            .prefer_port(port.expect("there are many"))
            .arg("cluster-enabled", "yes")
            .arg("cluster-require-full-coverage", "no")
    });
    let ask = |words: &[&str]| server.cli(words);
    for name in [ground.name("L"), format!("{{{}}}:a", ground.name("M"))] {
        let slot: u64 =
            redis::from_redis_value(ask(&["CLUSTER", "KEYSLOT", &name])).expect("a slot");
        ask(&["CLUSTER", "ADDSLOTS", &slot.to_string()]);
        eventually(SOON, "the node serves it", || {
            let info: String = redis::from_redis_value(ask(&["CLUSTER", "INFO"])).expect("text");
            info.contains("cluster_state:ok")
        });
        let client = connect_to(&ground, &server.url(), |plain| plain);
        let lock = client.read_write_lock(&name);
        let writing = lock.write().expect("free");
        let reading = lock.read().expect("its own");
        writing.unlock().expect("held");
        let again = lock.read().expect("its own");
        lock.inspect().expect("answered");
        again.extend(secs(60)).expect("held");
        for reader in [reading, again] {
            reader.verify().expect("it reads");
            reader.unlock().expect("held");
        }
        assert!(is_free(&lock));
    }
}

/// `RedissonReadWriteLockTest.testReadLockIsLocked`
#[test]
fn test_read_lock_is_locked() {
    let ground = Ground::new();
    let lock = connect(&ground).read_write_lock(ground.name("L"));
    let writing = lock.write().expect("free");
    assert_eq!(locked(&lock), (false, true));
    let reading = lock.try_read_for(secs(10)).expect("answered");
    assert_eq!(locked(&lock), (true, true));
    reading.expect("its own").unlock().expect("held");
    assert_eq!(locked(&lock), (false, true));
    writing.unlock().expect("held");
}

/// `RedissonReadWriteLockTest.testName`
#[test]
fn test_name() {
    let ground = Ground::new();
    let server = ground.server();
    let lock = connect(&ground).read_write_lock("{test}:abc:key");
    thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let guard = lock.read().expect("shared");
                    // A name with braces has no more of them around it.
                    let slot = format!("{{test}}:abc:key:{}:rwlock_timeout:1", guard.holder());
                    assert!(left(&server, &slot) > 0);
                    guard.unlock().expect("held");
                    assert_eq!(left(&server, &slot), -2);
                }
            });
        }
    });
}

/// `RedissonReadWriteLockTest.testWR`
#[test]
fn test_wr() {
    let ground = Ground::new();
    let lock = connect(&ground).read_write_lock(ground.name("L"));
    let writing = lock.write().expect("free");
    let reading = lock.read().expect("its own");
    assert_eq!(locked(&lock), (true, true));
    reading.unlock().expect("held");
    assert_eq!(locked(&lock), (false, true));
    writing.unlock().expect("held");
    assert_eq!(locked(&lock), (false, false));
}

/// `RedissonReadWriteLockTest.testWriteRead`
#[test]
fn test_write_read() {
    let ground = Ground::alone();
    let clients = [connect(&ground), connect(&ground)];
    let name = ground.name("L");
    let locks = clients
        .each_ref()
        .map(|client| client.read_write_lock(&name));
    let writing = locks[0].write().expect("free");
    thread::scope(|scope| {
        let readers: Vec<_> = (0..20)
            .map(|number| {
                let read = locks[number % 2].read_lock();
                scope.spawn(move || read.lock_owned().expect("let in"))
            })
            .collect();
        for client in &clients {
            eventually(SOON, "all wait", || client.state().waiters == 10);
        }
        let freed = Instant::now();
        writing.unlock().expect("held");
        // Nobody goes before all are in.
        let inside: Vec<_> = readers
            .into_iter()
            .map(|reader| reader.join().expect("it enters"))
            .collect();
        // Before anybody would look by itself.
        passed_since(freed, secs(0)..secs(2));
        for guard in inside {
            guard.unlock().expect("held");
        }
    });
}

/// `RedissonReadWriteLockTest.testWriteReadReentrancy`
#[test]
fn test_write_read_reentrancy() {
    let ground = Ground::new();
    let lock = connect(&ground).read_write_lock(ground.name("L"));
    let (read, write) = (lock.read_lock(), lock.write_lock());
    let writing = write.lock().expect("free");
    let reading = taken(&read);
    assert!(other_thread(|| refused(&read)));
    writing.unlock().expect("held");
    assert!(refused(&write), "who reads cannot write");
    assert!(!other_thread(|| refused(&read)), "others may read now");
    reading.unlock().expect("held");
    taken(&write).unlock().expect("held");
}

/// `RedissonReadWriteLockTest.testWriteLock`
#[test]
fn test_write_lock() {
    let ground = Ground::new();
    let lock = connect(&ground).read_write_lock(ground.name("L"));
    let (read, write) = (lock.read_lock(), lock.write_lock());
    let held = || write.is_held_by_current_thread().expect("answered");
    let outer = write.lock().expect("free");
    let inner = taken(&write);
    let elsewhere = of_another_client(&ground, &lock).read_lock();
    other_thread(|| {
        assert!(!held());
        assert_eq!(locked(&lock), (false, true));
        assert!(refused(&read) && refused(&elsewhere));
    });
    inner.unlock().expect("held");
    assert!(other_thread(|| refused(&read)), "held once");
    let reading = taken(&read);
    assert!(held());
    outer.unlock().expect("held");
    other_thread(|| {
        let beside = taken(&read);
        taken(&elsewhere).unlock().expect("held");
        beside.unlock().expect("held");
    });
    assert!(refused(&write) && !held());
    assert_eq!(locked(&lock), (true, false));
    assert!(!write.force_unlock().expect("answered"), "nobody writes");
    reading.unlock().expect("held");
}

/// `RedissonReadWriteLockTest.testMultiRead`
#[test]
fn test_multi_read() {
    let ground = Ground::new();
    let lock = connect(&ground).read_write_lock(ground.name("L"));
    let (read, write) = (lock.read_lock(), lock.write_lock());
    let reads = || read.is_held_by_current_thread().expect("answered");
    let writes = || write.is_held_by_current_thread().expect("answered");
    assert!(!read.force_unlock().expect("answered"), "it is free");
    let first = read.lock().expect("free");
    assert!(refused(&write));
    let (entered, leave) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        let second = scope.spawn(|| {
            assert!(!reads());
            assert_eq!(locked(&lock), (true, false));
            let guard = read.lock().expect("shared");
            entered.wait();
            leave.wait();
            guard.unlock().expect("held");
        });
        entered.wait();
        first.unlock().expect("held");
        assert!(refused(&write), "the other still reads");
        assert!(!reads());
        leave.wait();
        second.join().expect("it ends well");
    });
    assert_eq!(locked(&lock), (false, false));
    let writing = taken(&write);
    assert_eq!(locked(&lock), (false, true));
    assert!(writes());
    writing.unlock().expect("held");
    assert_eq!(locked(&lock), (false, false));
    assert!(!writes());
    let writing = taken(&write);
    assert!(write.force_unlock().expect("answered"));
    assert!(!writing.is_held());
}

/// `RedissonReadWriteLockTest.testForceUnlock`
#[test]
fn test_force_unlock() {
    let ground = Ground::new();
    let lock = connect(&ground).read_write_lock(ground.name("L"));
    let (read, write) = (lock.read_lock(), lock.write_lock());

    let reading = read.lock().expect("free");
    assert!(!write.force_unlock().expect("answered"));
    assert_eq!(locked(&lock), (true, false));
    reading.verify().expect("untouched");
    assert!(read.force_unlock().expect("answered"));
    assert_eq!(locked(&lock), (false, false));
    assert!(!reading.is_held());
    forget_slot(&ground.server(), &lock, reading.holder());

    let writing = write.lock().expect("free");
    assert!(!read.force_unlock().expect("answered"));
    assert_eq!(locked(&lock), (false, true));
    writing.verify().expect("untouched");
    assert!(write.force_unlock().expect("answered"));
    assert_eq!(locked(&lock), (false, false));
    assert!(!writing.is_held());
    assert!(is_free(&of_another_client(&ground, &lock)));
}
