//! A lock goes from writer to writer of one client, and past nobody who would have to be told.

use std::{sync::mpsc, thread, time::Duration};

use lockson::{Client, ReadWriteLock};

use super::{SOON, secs};
use crate::support::{Ground, Server, connect, eventually};

/// What takes too long is not handed over, and a busy machine may take long.
const ROUNDS: u32 = 20;

#[test]
fn writers_hand_over_by_one_request_each() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.read_write_lock(ground.name("L"));
    lock.write().expect("free").unlock().expect("held");
    let counts = (0..ROUNDS).map(|_| {
        let first = lock.write().expect("free");
        let before = thread::scope(|scope| {
            for _ in 0..5 {
                scope.spawn(|| lock.write().expect("its turn").unlock().expect("held"));
            }
            eventually(SOON, "all wait", || client.state().waiters == 5);
            let before = server.script_calls();
            first.unlock().expect("held");
            before
        });
        server.script_calls() - before
    });
    // Each release also lets the next one in. The first in line may have looked by itself, once.
    let mut counts = counts.inspect(|count| assert!((6..=11).contains(count), "{count}"));
    assert!(counts.any(|count| count <= 7));
}

/// So the reader does not wait for a line of writers.
#[test]
fn no_writer_hands_over_past_a_reader() {
    let ground = Ground::new();
    let scene = Scene::new(&ground);
    let mut handed = 0;
    for _ in 0..ROUNDS {
        handed += u32::from(!scene.is_told(LEASE, false));
        assert!(scene.is_told(LEASE, true));
    }
    assert!(handed > 0, "not to the next writer either");
}

/// Waiters elsewhere sleep for the time that they have read.
#[test]
fn a_writer_with_a_shorter_lease_is_announced() {
    let ground = Ground::new();
    let scene = Scene::new(&ground);
    let mut handed = 0;
    for _ in 0..ROUNDS {
        handed += u32::from(!scene.is_told(LEASE, false));
        assert!(scene.is_told(LEASE / 2, false));
    }
    assert!(handed > 0, "not to one with a longer lease either");
}

#[test]
fn readers_and_writers_of_one_client_all_get_in() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.read_write_lock(ground.name("L"));
    thread::scope(|scope| {
        let writing = lock.write().expect("free");
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let lock = &lock;
                scope.spawn(move || {
                    for _ in 0..50 {
                        match number {
                            0 => lock.read().expect("let in").unlock(),
                            _ => lock.write().expect("its turn").unlock(),
                        }
                        .expect("held");
                    }
                })
            })
            .collect();
        eventually(SOON, "all wait", || client.state().waiters == 4);
        writing.unlock().expect("held");
        for thread in threads {
            thread.join().expect("ends well");
        }
    });
}

struct Scene {
    server: std::sync::Arc<Server>,
    client: Client,
    lock: ReadWriteLock,
}

impl Scene {
    fn new(ground: &Ground) -> Self {
        let client = connect(ground);
        Self {
            server: ground.server(),
            lock: client.read_write_lock(ground.name("L")),
            client,
        }
    }

    /// Whether the release of a writer is told, while another of its client waits for such a lease,
    /// and perhaps a reader. A hand-over is not.
    fn is_told(&self, lease: Duration, beside_a_reader: bool) -> bool {
        let lock = &self.lock;
        let name = format!("redisson_rwlock:{{{}}}", lock.name());
        let mut connection = self.server.connection();
        let mut channel = connection.as_pubsub();
        channel.subscribe(&name).expect("SUBSCRIBE");
        channel.set_read_timeout(Some(SOON)).expect("a socket");
        let first = lock.write_with_lease(LEASE).expect("free");
        thread::scope(|scope| {
            // Whoever is next stays until that is known.
            let (go_on, goes_on) = mpsc::channel::<()>();
            let next = scope.spawn(move || {
                let guard = lock.write_with_lease(lease).expect("its turn");
                let _ = goes_on.recv();
                guard.unlock().expect("held");
            });
            let reader = beside_a_reader.then(|| scope.spawn(|| lock.read().map(drop)));
            let waiters = 1 + usize::from(beside_a_reader);
            eventually(SOON, "all wait", || self.client.state().waiters == waiters);
            first.unlock().expect("held");
            self.server.cli(&["PUBLISH", &name, "marker"]);
            let message = channel.get_message().expect("the marker comes");
            let told = message.get_payload::<String>().expect("text") != "marker";
            drop(go_on);
            next.join().expect("ends well");
            if let Some(reader) = reader {
                reader.join().expect("ends well").expect("let in");
            }
            told
        })
    }
}

const LEASE: Duration = secs(40);
