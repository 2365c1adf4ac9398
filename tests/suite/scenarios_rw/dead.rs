//! Redisson's tests of what a holder or a server leaves that is gone.

use std::{
    thread,
    time::{Duration, Instant},
};

use lockson::{Ended, Guard, Lock, LostReason, ReadWriteLock};

use super::{SOON, is_free, left, millis, passed_since, refused, secs, slot, taken};
use crate::{
    interop::processes::rust_peer,
    support::{Ground, Peer, Server, Told, connect, connect_with, eventually},
};

/// `RedissonReadWriteLockTest.testAutoExpire`
#[test]
fn test_auto_expire() {
    let ground = Ground::alone();
    let lock = connect(&ground).read_write_lock(ground.name("L"));
    let peer = short_lived(&ground.server());
    let taken = peer.call(&format!("A t1 tryLock write {}", lock.name()));
    assert_eq!(taken.as_deref(), Ok("true"));
    peer.kill();
    let killed = Instant::now();
    assert!(refused(&lock.write_lock()), "nobody knows yet");
    eventually(SOON, "the dead writer's time is over", || {
        !lock.write_lock().is_locked().expect("answered")
    });
    passed_since(killed, secs(0)..TIMEOUT + millis(2_500));
}

/// `RedissonReadWriteLockTest.testMultiInstanceReadLockZombieCleanup`
#[test]
fn test_multi_instance_read_lock_zombie_cleanup() {
    let ground = Ground::alone();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.read_write_lock(ground.name("L"));
    let living = lock.read().expect("free");
    let slots = dead_readers(&server, &lock, 1);
    assert_eq!(lock.inspect().expect("answered").holders.len(), 2);
    thread::scope(|scope| {
        let writing = scope.spawn(|| lock.write().expect("let in").unlock());
        eventually(SOON, "it waits", || client.state().waiters == 1);
        eventually(SOON, "the dead one's time is over", || {
            left(&server, &slots[0]) == -2
        });
        living.verify().expect("kept");
        assert!(!writing.is_finished(), "one still reads");
        let freed = Instant::now();
        living.unlock().expect("held");
        writing.join().expect("it ends well").expect("held");
        // It is told, and need not look by itself.
        passed_since(freed, secs(0)..secs(2));
    });
}

/// As above, but the living reader goes first: then the dead one has its own time, and no more.
#[test]
fn test_multi_instance_read_lock_zombie_cleanup_after() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.read_write_lock(ground.name("L"));
    let living = lock.read().expect("free");
    let slots = dead_readers(&server, &lock, 1);
    living.unlock().expect("held");
    let ttl = left(&server, lock.name());
    assert!(ttl <= left_at_most(TIMEOUT), "{ttl} ms");
    let writing = lock.try_write_for(SOON).expect("answered");
    assert_eq!(left(&server, &slots[0]), -2, "it had its time");
    writing.expect("let in").unlock().expect("held");
}

/// `RedissonReadWriteLockTest.testMultiInstanceZombieReadLockPerformance`
#[test]
fn test_multi_instance_zombie_read_lock_performance() {
    let ground = Ground::alone();
    let server = ground.server();
    let lock = connect(&ground).read_write_lock(ground.name("L"));
    let living = lock.read().expect("free");
    let slots = dead_readers(&server, &lock, 60);
    eventually(SOON, "their time is over", || {
        slots.iter().all(|slot| left(&server, slot) == -2)
    });
    assert_eq!(lock.inspect().expect("answered").holders.len(), 61);
    let start = Instant::now();
    living.unlock().expect("held");
    lock.write().expect("let in").unlock().expect("held");
    passed_since(start, secs(0)..secs(2));
}

/// `RedissonLockExpirationRenewalTest.testWriteLockAfterTimeout`
#[test]
fn test_write_lock_after_timeout() {
    is_renewed_after_restarts(|lock| lock.write_lock(), |_, _| ());
}

/// `RedissonLockExpirationRenewalTest.testReadLockAfterTimeout`
#[test]
fn test_read_lock_after_timeout() {
    is_renewed_after_restarts(
        |lock| lock.read_lock(),
        |server, slot| assert!(left(server, slot) > 0, "the slot too"),
    );
}

/// Loses the lock with the server's memory, twice, and keeps a new one alive each time.
fn is_renewed_after_restarts<L: Lock>(
    half: impl FnOnce(&ReadWriteLock) -> L,
    look: impl Fn(&Server, &str),
) {
    let ground = Ground::new();
    let server = ground.server();
    let told = Told::default();
    let client = connect_with(&ground, |plain| {
        let plain = plain.lock_watchdog_timeout(millis(900));
        plain.on_event(told.handler())
    });
    let lock = client.read_write_lock(ground.name("L"));
    let half = half(&lock);
    for round in 1..=2 {
        let guard = taken(&half);
        server.restart();
        assert_eq!(guard.lost().wait(SOON), Ended::Lost(LostReason::Gone));
        guard.unlock().expect_err("gone");
        let guard = taken(&half);
        let slot = slot(&lock, guard.holder(), 1);
        let start = Instant::now();
        while start.elapsed() < millis(1_800) {
            assert!(left(&server, lock.name()) > 0, "round {round}");
            look(&server, &slot);
            assert!(guard.is_held(), "round {round}");
            thread::sleep(millis(5));
        }
        guard.unlock().expect("held");
        assert!(is_free(&lock));
        assert_eq!(told.lost().len(), round);
    }
}

/// Readers of a process that is killed then; the keys of their slots.
fn dead_readers(server: &Server, lock: &ReadWriteLock, count: usize) -> Vec<String> {
    let peer = short_lived(server);
    let slots = (0..count).map(|thread| {
        let call = |op: &str| peer.call(&format!("A t{thread} {op} read {}", lock.name()));
        call("lock").expect("shared");
        slot(lock, &call("holder").expect("it reads"), 1)
    });
    let slots = slots.collect();
    peer.kill();
    slots
}

/// A process whose client A keeps its holds alive for a short time only.
fn short_lived(server: &Server) -> Peer {
    let peer = rust_peer();
    let settings = format!("client A single {} {}", server.url(), TIMEOUT.as_millis());
    peer.call(&settings).expect("a client");
    peer
}

fn left_at_most(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).expect("a time is short")
}

const TIMEOUT: Duration = secs(2);
