//! The unlock notifier when things break.

mod connections;
mod links;
mod messages;
mod permissions;
mod restarts;

use std::{
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use lockson::{Client, LockGuard, ReentrantLock, Result};

use crate::support::{Ground, Server, connect, connect_to as client_with, eventually};

fn client(ground: &Ground, url: &str) -> Client {
    client_with(ground, url, |settings| settings)
}

/// One client to wait and one to hold, on the test's plain server.
fn pair(ground: &Ground) -> (Client, Client) {
    (connect(ground), connect(ground))
}

/// A name that one holds and the other waits for, listening.
#[track_caller]
fn contended(ground: &Ground, waiting: &Client, holding: &Client) -> (LockGuard, Waiter) {
    let name = &ground.name("L");
    let server = ground.server();
    let guard = taken(&holding.reentrant_lock(name));
    let before = server.script_calls();
    let waiter = Waiter::listening(&server, &waiting.reentrant_lock(name), name);
    eventually(BOUND, "it looked when it came and when it listened", || {
        server.script_calls() >= before + 2
    });
    (guard, waiter)
}

#[track_caller]
fn taken(lock: &ReentrantLock) -> LockGuard {
    lock.try_lock().expect("an answer").expect("free")
}

/// A thread that waits for a lock, notes when it got in, and releases.
struct Waiter(JoinHandle<(Result<bool>, Instant)>);

impl Waiter {
    fn start(lock: &ReentrantLock, wait: Duration) -> Self {
        let lock = lock.clone();
        Self(thread::spawn(move || {
            let guard = lock.try_lock_for(wait);
            let at = Instant::now();
            (guard.map(|guard| guard.is_some()), at)
        }))
    }

    /// One that waits, and listens.
    #[track_caller]
    fn listening(server: &Server, lock: &ReentrantLock, name: &str) -> Self {
        let before = listeners(server, name);
        let waiter = Self::start(lock, PATIENCE);
        eventually(BOUND, "the waiter listens", || {
            listeners(server, name) > before
        });
        waiter
    }

    fn end(self) -> (Result<bool>, Instant) {
        self.0.join().expect("no panic")
    }

    /// When it got in.
    #[track_caller]
    fn entered(self) -> Instant {
        let (got, at) = self.end();
        assert!(
            got.expect("an answer"),
            "it got in before its time was over"
        );
        at
    }
}

fn channel(name: &str) -> String {
    format!("redisson_lock__channel:{{{name}}}")
}

fn listeners(server: &Server, name: &str) -> u64 {
    let (_, count): (String, u64) = redis::cmd("PUBSUB")
        .arg("NUMSUB")
        .arg(channel(name))
        .query(&mut server.connection())
        .expect("PUBSUB NUMSUB");
    count
}

fn channels(server: &Server) -> Vec<String> {
    redis::cmd("PUBSUB")
        .arg("CHANNELS")
        .query(&mut server.connection())
        .expect("PUBSUB CHANNELS")
}

/// The connections that listen to something.
fn subscribers(server: &Server) -> usize {
    let clients = server.clients();
    clients.iter().filter(|one| one.channels() > 0).count()
}

fn kill_subscribers(server: &Server) -> u64 {
    redis::cmd("CLIENT")
        .arg(&["KILL", "TYPE", "pubsub"])
        .query(&mut server.connection())
        .expect("CLIENT KILL")
}

/// How long waiters wait here.
const PATIENCE: Duration = Duration::from_secs(20);
/// For what takes no time but that of a busy machine.
const BOUND: Duration = Duration::from_secs(10);
/// No waiter sleeps for longer without asking.
const CAP: Duration = Duration::from_secs(3);
/// How late a waiter may be whose connection was cut.
const LATE: Duration = Duration::from_millis(500);
