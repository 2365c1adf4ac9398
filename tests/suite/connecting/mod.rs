//! Ways to a server, and what is said when there is none.

mod access;
mod ending;
mod pool;
mod refusals;
mod repeating;
mod rights;
mod stale;
#[cfg(feature = "tls")]
mod tls;
mod ways;

use std::time::{Duration, Instant};

use lockson::{Client, ClientBuilder};
use redis::Commands;

use crate::support::{ClientEntry, Server};

fn patience(connect: Duration, response: Duration) -> ClientBuilder {
    Client::builder()
        .connect_timeout(connect)
        .response_timeout(response)
}

/// Takes a lock that is free and gives it back.
#[track_caller]
fn use_lock(client: &Client, name: &str) {
    let guard = client.reentrant_lock(name).try_lock().expect("an answer");
    guard.expect("it is free").unlock().expect("it is released");
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    (work(), start.elapsed())
}

/// The connections that this client has at the server.
#[track_caller]
fn connections_of(server: &Server, client: &Client) -> Vec<ClientEntry> {
    let name = format!("lockson-{}", client.id());
    let mut clients = server.clients();
    clients.retain(|one| one.name() == name);
    clients
}

/// How often the server was told a command, scripts included.
#[track_caller]
fn calls(redis: &mut redis::Connection, command: &str) -> u64 {
    let stats: String = redis::cmd("INFO")
        .arg("commandstats")
        .query(redis)
        .expect("INFO commandstats is answered");
    let head = format!("cmdstat_{command}:calls=");
    stats
        .lines()
        .find_map(|line| line.strip_prefix(&head)?.split(',').next()?.parse().ok())
        .unwrap_or(0)
}

/// The fields of a lock in Redis, with their counts.
#[track_caller]
fn holders(server: &Server, key: &str) -> Vec<(String, u64)> {
    server.connection().hgetall(key).expect("HGETALL")
}

#[track_caller]
fn exists(server: &Server, key: &str) -> bool {
    server.connection().exists(key).expect("EXISTS")
}

/// For what takes no time but that of a busy machine.
const SLACK: Duration = Duration::from_millis(700);
/// Far longer than any call here may take.
const LONG: Duration = Duration::from_secs(10);
/// Long enough for a retry that nobody asked for to show itself.
const QUIET: Duration = Duration::from_millis(1200);
const BOUND: Duration = Duration::from_secs(10);
