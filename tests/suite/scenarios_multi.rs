//! The scenarios of Redisson's own tests of the MultiLock.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use lockson::{Client, MultiLock};
use redis::Commands;

use crate::support::{Ground, Server, connect, connect_to, eventually};

/// `RedissonMultiLockTest.testLockUnlock`
#[test]
fn test_lock_unlock() {
    let ground = Ground::new();
    let client = connect(&ground);
    let names = names(&ground);
    let lock = on_one(&client, &names);
    for _ in 0..2 {
        let guard = lock.lock().expect("free");
        assert!(lock.is_held_by_current_thread().expect("answered"));
        for name in &names {
            let member = client.reentrant_lock(name);
            assert!(member.is_held_by_current_thread().expect("answered"));
            assert_eq!(member.hold_count().expect("answered"), 1);
            other_thread(|| {
                assert!(!member.is_held_by_current_thread().expect("answered"));
                assert!(member.try_lock().expect("answered").is_none());
            });
        }
        guard.unlock().expect("held");
        assert!(!lock.is_held_by_current_thread().expect("answered"));
        assert_eq!(there(&ground.server(), &names), 0);
    }
}

/// `RedissonMultiLockTest.testWaitAndLeaseTimeouts`
#[test]
fn test_wait_and_lease_timeouts() {
    const THREADS: usize = 10;
    let ground = Ground::new();
    let client = connect(&ground);
    let names = names(&ground);
    let lock = on_one(&client, &names);
    let (winners, all_tried) = (AtomicUsize::new(0), Barrier::new(THREADS));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let taken = lock.try_lock_with_lease(secs(30)).expect("answered");
                winners.fetch_add(usize::from(taken.is_some()), Ordering::Relaxed);
                // The winner keeps it until nobody can take it after him.
                all_tried.wait();
                if let Some(guard) = taken {
                    assert_eq!(there(&ground.server(), &names), 3);
                    guard.unlock().expect("held");
                }
            });
        }
    });
    assert_eq!(winners.into_inner(), 1);
    assert_eq!(there(&ground.server(), &names), 0);
}

/// `RedissonMultiLockTest.testMultiThreads`
#[test]
fn test_multi_threads() {
    let ground = Ground::new();
    let client = connect(&ground);
    let names = names(&ground);
    let lock = on_one(&client, &names);
    let first = lock.lock().expect("free");
    thread::scope(|scope| {
        let second = scope.spawn(|| {
            let guard = lock.lock().expect("its turn comes");
            let holders = guard.holder().to_owned();
            for (name, holder) in names.iter().zip(holders.split(',')) {
                let mut redis = ground.server().connection();
                let fields: Vec<String> = redis.hkeys(name).expect("HKEYS");
                assert_eq!(fields, [holder], "it has all three, alone");
            }
            guard.unlock().expect("held");
        });
        eventually(SOON, "the second waits", || client.state().waiters == 1);
        assert!(!second.is_finished());
        first.unlock().expect("held");
        second.join().expect("it got all three");
    });
    assert_eq!(there(&ground.server(), &names), 0);
}

/// `RedissonMultiLockTest.test`
///
/// No one script can take all of them.
#[test]
fn test() {
    const WAIT: Duration = Duration::from_millis(300);
    let ground = Ground::new();
    let names = names(&ground);
    let servers: Vec<_> = (0..3).map(|_| ground.server_with(|plain| plain)).collect();
    let members = || {
        let each = servers.iter().zip(&names);
        let locks = each.map(|(server, name)| {
            let client = connect_to(&ground, &server.url(), |plain| plain);
            client.reentrant_lock(name).into()
        });
        MultiLock::new(locks).expect("three members")
    };
    let (lock, other) = (members(), members());
    let left = || {
        let each = servers.iter().map(|server| there(server, &names));
        each.collect::<Vec<_>>()
    };
    let first = lock.lock().expect("free");
    assert_eq!(left(), [1, 1, 1]);
    let tried = other_thread(|| lock.try_lock().expect("answered").is_none());
    assert!(tried, "the other thread, at once");
    for _ in 0..2 {
        let began = Instant::now();
        let refused = other_thread(|| other.try_lock_for(WAIT).expect("answered").is_none());
        assert!(refused, "the other client, after a wait");
        assert!(began.elapsed() >= WAIT);
    }
    first.unlock().expect("held");
    assert_eq!(left(), [0, 0, 0], "nothing is left half locked");

    // Also where the first two of three are to be had.
    let last = connect_to(&ground, &servers[2].url(), |plain| plain);
    let taken = last.reentrant_lock(&names[2]).lock().expect("free");
    for lock in [&lock, &other] {
        assert!(lock.try_lock().expect("answered").is_none());
        assert!(lock.try_lock_for(WAIT).expect("answered").is_none());
        assert_eq!(left(), [0, 0, 1]);
    }
    taken.unlock().expect("held");
    other.lock().expect("free").unlock().expect("held");
}

fn names(ground: &Ground) -> [String; 3] {
    ["lock1", "lock2", "lock3"].map(|name| ground.name(name))
}

fn on_one(client: &Client, names: &[String]) -> MultiLock {
    let members = names.iter().map(|name| client.reentrant_lock(name).into());
    MultiLock::new(members).expect("three members")
}

fn there(server: &Server, names: &[String]) -> u64 {
    server.connection().exists(names).expect("EXISTS")
}

fn other_thread<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(body).join().expect("the thread ends well"))
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// For facts that are due at once, on a machine that is busy with other things.
const SOON: Duration = secs(10);
