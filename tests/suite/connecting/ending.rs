//! What a client leaves behind: no thread, no connection, no socket.

use std::{fs, net::TcpListener, thread, time::Duration};

use lockson::{Client, ErrorKind};

use super::{BOUND, connections_of, patience, use_lock};
use crate::support::{self, Ground, Proxy, eventually, launch::free_port, watched};

#[test]
fn a_client_takes_its_threads_and_connections_with_it() {
    let ground = Ground::alone();
    let server = ground.server();
    eventually(BOUND, "other tests' threads end", || threads().is_empty());
    let sockets_before = sockets();

    let clients: Vec<Client> = (0..10)
        .map(|number| {
            let builder = Client::builder().on_event(|_| {});
            let client = match number % 2 {
                0 => builder.connect(&server.url()),
                _ => builder.connect_lazy(&server.url()),
            };
            let client = watched(&ground, client);
            if number % 3 > 0 {
                use_lock(&client, &ground.name("L"));
            }
            client
        })
        .collect();
    assert!(threads().len() >= 20, "{:?}", threads());
    assert!(sockets() > sockets_before);
    assert!(
        clients
            .iter()
            .any(|client| !connections_of(&server, client).is_empty())
    );

    drop(clients);
    gone(sockets_before);
    eventually(BOUND, "the server sees them go", || {
        server.clients().is_empty()
    });
}

#[test]
fn handles_and_guards_keep_a_client_until_they_go() {
    let ground = Ground::alone();
    let server = ground.server();
    eventually(BOUND, "other tests' threads end", || threads().is_empty());
    let sockets_before = sockets();
    let client = watched(&ground, Client::connect(&server.url()));
    let lock = client.reentrant_lock(ground.name("L"));
    let guard = lock.try_lock().expect("an answer").expect("free");
    drop(client);
    drop(lock);
    assert!(!threads().is_empty());
    guard.verify().expect("held");
    guard.unlock().expect("released");
    gone(sockets_before);
}

#[test]
fn a_client_that_is_not_asked_anything_does_nothing() {
    let ground = Ground::new();
    let server = ground.server();
    let proxy = Proxy::to(server.addr());
    let builder = Client::builder().lock_watchdog_timeout(Duration::from_millis(90));
    let client = watched(&ground, builder.connect_lazy(&proxy.url()));
    let lock = client.reentrant_lock(ground.name("L"));
    let again = lock.clone();
    assert_eq!(again.name(), lock.name());
    assert_eq!(client.state().connections, 0);
    // Many times the interval at which holds would be renewed.
    thread::sleep(Duration::from_millis(500));
    assert_eq!(proxy.accepted(), 0);
    assert!(server.clients().is_empty());
    drop((lock, again, client));
    assert_eq!(proxy.accepted(), 0);
}

#[test]
fn a_client_that_could_not_connect_leaves_nothing() {
    let ground = Ground::alone();
    let guarded = ground.server_with(|options| options.password("secret"));
    let silent = TcpListener::bind("127.0.0.1:0").expect("the system has a free port");
    let silent_addr = silent.local_addr().expect("a bound socket has an address");
    eventually(BOUND, "other tests' threads end", || threads().is_empty());
    let sockets_before = sockets();
    let limit = Duration::from_millis(300);
    for (kind, url) in [
        (
            ErrorKind::Connection,
            format!("redis://127.0.0.1:{}/", free_port()),
        ),
        (ErrorKind::NoPermission, guarded.url()),
        (ErrorKind::Timeout, format!("redis://{silent_addr}/")),
        (ErrorKind::Config, "redis://here:port/".to_owned()),
    ] {
        let made = patience(limit, limit).on_event(|_| {}).connect(&url);
        let error = made.expect_err("it cannot connect");
        assert_eq!(error.kind(), kind, "{error}");
        gone(sockets_before);

        if let Ok(client) = patience(limit, limit).connect_lazy(&url) {
            let tried = client.reentrant_lock("never").try_lock();
            assert_eq!(tried.expect_err("it cannot connect").kind(), kind);
            drop(client);
            gone(sockets_before);
        }
    }
}

/// Waits until no thread of a client is left, and as many sockets are open as before.
#[track_caller]
fn gone(sockets_before: usize) {
    eventually(BOUND, "the threads end", || threads().is_empty());
    eventually(BOUND, "the sockets close", || sockets() <= sockets_before);
}

/// The names of all threads of clients in this process.
fn threads() -> Vec<String> {
    support::threads()
        .into_iter()
        .filter(|name| name.starts_with("lockson-") || name.starts_with("r2d2-"))
        .collect()
}

fn sockets() -> usize {
    fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|fd| fs::read_link(fd.path()).ok())
        .filter(|target| target.to_string_lossy().starts_with("socket:"))
        .count()
}
