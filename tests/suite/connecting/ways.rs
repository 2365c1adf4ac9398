//! Each way to reach a server and to say who one is.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use lockson::{Client, ErrorKind};

use super::{BOUND, LONG, calls, connections_of, exists, patience, use_lock};
use crate::support::{Ground, Server, eventually, watched};

#[test]
fn the_database_of_the_url_is_where_the_lock_is() {
    let ground = Ground::new();
    let server = ground.server();
    let client = watched(&ground, Client::connect(&format!("{}3", server.url())));
    let name = ground.name("L");
    let lock = client.reentrant_lock(&name);
    let guard = lock.try_lock().expect("an answer").expect("free");
    assert!(!exists(&server, &name), "not in database 0");
    let mut third = server.connection();
    let _: () = redis::cmd("SELECT")
        .arg(3)
        .query(&mut third)
        .expect("SELECT");
    let there: bool = redis::cmd("EXISTS")
        .arg(&name)
        .query(&mut third)
        .expect("EXISTS");
    assert!(there, "in database 3");
    guard.unlock().expect("released");
}

#[test]
fn by_a_unix_socket() {
    let ground = Ground::new();
    let server = ground.server_with(|options| options.unix_socket().password("secret"));
    let path = server.socket_path();
    let url = format!("unix://{}?pass=secret", path.display());
    let client = watched(&ground, Client::connect(&url));
    hold_and_look(&ground, &server, &client);
    let wrong = format!("unix://{}?pass=wrong", path.display());
    let error = Client::connect(&wrong).expect_err("a wrong password");
    assert_eq!(error.kind(), ErrorKind::NoPermission, "{error}");
    let nowhere = format!("unix://{}.not", path.display());
    let error = Client::connect(&nowhere).expect_err("no socket");
    assert_eq!(error.kind(), ErrorKind::Connection, "{error}");
}

#[test]
fn with_a_user_and_a_password() {
    let ground = Ground::new();
    let server = ground.server();
    server.cli(&[
        "ACL",
        "SETUSER",
        "worker",
        "on",
        ">p@ss/w:rd",
        "~*",
        "&*",
        "+@all",
    ]);
    for end in ["", "?protocol=resp3"] {
        let url = format!("redis://worker:p%40ss%2Fw%3Ard@{}/{end}", server.addr());
        let client = watched(&ground, Client::connect(&url));
        hold_and_look(&ground, &server, &client);
        let connections = connections_of(&server, &client);
        assert_eq!(connections.len(), 1);
        assert_eq!(connections[0].field("user"), "worker");
    }
}

#[test]
fn with_a_password_alone() {
    let ground = Ground::new();
    let server = ground.server_with(|options| options.password("secret"));
    for end in ["", "?protocol=resp3"] {
        let url = format!("redis://:secret@{}/{end}", server.addr());
        let client = watched(&ground, Client::connect(&url));
        hold_and_look(&ground, &server, &client);
    }
}

#[test]
fn in_both_protocols() {
    let ground = Ground::new();
    let server = ground.server();
    for (end, version, greetings) in [("", "2", 0), ("?protocol=resp3", "3", 2)] {
        let url = format!("{}{end}", server.url());
        let mut spy = server.connection();
        let before = calls(&mut spy, "hello");
        let client = watched(&ground, Client::connect(&url));
        use_lock(&client, &ground.name("L"));
        assert_eq!(calls(&mut spy, "hello") - before, greetings, "{url}");
        for connection in connections_of(&server, &client) {
            // Redis 6.2 does not tell.
            let told = connection.field("resp");
            assert!(told.is_empty() || told == version, "{}", connection.line());
        }
        hold_and_look(&ground, &server, &client);
    }
}

#[test]
fn with_a_password_that_changes() {
    let ground = Ground::new();
    let server = ground.server_with(|options| options.password("first"));
    let mut spy = server.connection();
    let mut tell = |words: &[&str]| {
        let _: redis::Value = redis::cmd(words[0])
            .arg(&words[1..])
            .query(&mut spy)
            .expect("the server obeys");
    };
    let vault = Arc::new(Vault::default());
    vault.put(Some("first"));
    let url = format!("redis://:of-the-url@{}/", server.addr());
    let client = watched(&ground, vault.builder().connect(&url));
    assert_eq!(vault.asked(), 1, "by the check");
    let name = ground.name("L");
    use_lock(&client, &name);
    assert_eq!(vault.asked(), 2, "by the first connection kept");

    tell(&["CONFIG", "SET", "requirepass", "second"]);
    use_lock(&client, &name);
    assert_eq!(vault.asked(), 2, "open connections stay good");

    vault.put(Some("second"));
    tell(&["CLIENT", "KILL", "TYPE", "normal"]);
    use_lock(&client, &name);
    assert_eq!(vault.asked(), 3, "asked for a new connection");

    vault.put(None);
    tell(&["CLIENT", "KILL", "TYPE", "normal"]);
    // Idle for so long, the dead connection is found out before anything is sent by it; else the
    // watchdog would have a doubtful copy to see to, and ask for a password as well.
    thread::sleep(Duration::from_millis(1200));
    let lock = client.reentrant_lock(&name);
    let error = lock.try_lock().expect_err("no password");
    assert_eq!(error.kind(), ErrorKind::NoPermission, "{error}");
    assert!(error.to_string().contains("the vault is shut"), "{error}");
    assert_eq!(vault.asked(), 4, "a refusal is not repeated");
    let error = vault.builder().connect(&url).expect_err("no password");
    assert_eq!(error.kind(), ErrorKind::NoPermission, "{error}");

    vault.put(Some("second"));
    use_lock(&client, &name);
    tell(&["CONFIG", "SET", "requirepass", "first"]);
}

#[test]
fn with_a_password_provider_that_panics_for_a_while() {
    let ground = Ground::new();
    let server = ground.server_with(|options| options.password("secret"));
    let asked = Arc::new(AtomicUsize::new(0));
    let upset = Arc::new(AtomicBool::new(true));
    let builder = {
        let (asked, upset) = (Arc::clone(&asked), Arc::clone(&upset));
        patience(LONG, LONG)
            .pool_size(1)
            .lock_watchdog_timeout(Duration::from_millis(1500))
            .password_provider(move || {
                asked.fetch_add(1, Ordering::SeqCst);
                assert!(!upset.load(Ordering::SeqCst), "on purpose");
                Ok("secret".to_owned())
            })
    };
    let client = watched(&ground, builder.connect_lazy(&server.url()));
    let lock = client.reentrant_lock(ground.name("L"));
    // More often than there are connections: each panic could cost the pool one for ever.
    for _ in 0..5 {
        let error = lock.try_lock().expect_err("no password");
        assert_eq!(error.kind(), ErrorKind::NoPermission, "{error}");
    }
    upset.store(false, Ordering::SeqCst);
    let guard = lock.try_lock().expect("an answer").expect("free");

    // The watchdog opens a connection of its own at the first renewal, and goes on after it failed.
    let before = asked.load(Ordering::SeqCst);
    upset.store(true, Ordering::SeqCst);
    eventually(BOUND, "the watchdog asks", || {
        asked.load(Ordering::SeqCst) > before
    });
    upset.store(false, Ordering::SeqCst);
    thread::sleep(Duration::from_millis(2000));
    guard.verify().expect("renewed");
    guard.unlock().expect("released");
}

/// Holds a lock and sees it in Redis, by another way than the client's.
#[track_caller]
pub(super) fn hold_and_look(ground: &Ground, server: &Server, client: &Client) {
    let name = ground.name("L");
    let lock = client.reentrant_lock(&name);
    let guard = lock.try_lock().expect("an answer").expect("it is free");
    assert_eq!(
        super::holders(server, &name),
        [(guard.holder().to_owned(), 1)]
    );
    assert_eq!(lock.hold_count().expect("an answer"), 1);
    assert!(!lock.inspect().expect("an answer").holders.is_empty());
    guard.verify().expect("held");
    guard.unlock().expect("released");
    assert!(!exists(server, &name));
}

/// Where the password comes from.
#[derive(Default)]
struct Vault {
    password: Mutex<Option<String>>,
    asked: AtomicUsize,
}

impl Vault {
    fn put(&self, password: Option<&str>) {
        let mut kept = self.password.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = password.map(str::to_owned);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn builder(self: &Arc<Self>) -> lockson::ClientBuilder {
        let vault = Arc::clone(self);
        Client::builder().password_provider(move || {
            vault.asked.fetch_add(1, Ordering::SeqCst);
            let kept = vault
                .password
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            kept.clone().ok_or_else(|| "the vault is shut".into())
        })
    }
}
