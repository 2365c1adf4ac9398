//! A password and a key are told to the server and to nobody else: neither shown, logged nor thrown.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Mutex},
    time::Duration,
};

use lockson::{AnyLock, CancelToken, Client, ErrorKind};

use crate::support::{Ground, eventually, launch::free_port, log_everything, logged, watched};

/// Nothing else in the process contains it.
const CANARY: &str = "cAnArY7351";

const BOUND: Duration = Duration::from_secs(10);

#[test]
fn a_right_password_is_not_shown() {
    let ground = Ground::new();
    let shown = Shown::new();
    let server = ground.server_with(|plain| plain.password(CANARY));
    for url in [
        format!("redis://:{CANARY}@{}/", server.addr()),
        format!("redis://default:{CANARY}@{}/", server.addr()),
        format!("redis://:{CANARY}@{}/?protocol=resp3", server.addr()),
    ] {
        let client = watched(&ground, Client::connect(&url));
        shown.all_of(&client, &ground.name("L"));
    }
    let builder = Client::builder()
        .password_provider(|| Ok(CANARY.to_owned()))
        .on_event(|_| {});
    shown.see(format!("{builder:?} {builder:#?}"));
    let client = watched(&ground, builder.connect(&server.url()));
    shown.all_of(&client, &ground.name("L"));

    // Broken connections are opened and greeted anew.
    let lock = client.reentrant_lock(ground.name("L"));
    let _ = server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    drop(lock.try_lock());
    shown.nowhere();
}

#[test]
fn a_wrong_password_is_not_shown() {
    let ground = Ground::new();
    let shown = Shown::new();
    let server = ground.server_with(|plain| plain.password("another"));
    let open = ground.server();
    for url in [
        format!("redis://:{CANARY}@{}/", server.addr()),
        format!("redis://{CANARY}:{CANARY}@{}/", server.addr()),
        format!("redis://user:{CANARY}@{}/?protocol=resp3", server.addr()),
        // A server that wants none refuses one too.
        format!("redis://user:{CANARY}@{}/", open.addr()),
    ] {
        let error = Client::connect(&url).expect_err("the wrong password");
        assert_eq!(error.kind(), ErrorKind::NoPermission, "{error}");
        shown.thrown(&error);
        // The calls of a client that connects later fail in the same way.
        let client = watched(&ground, Client::builder().connect_lazy(&url));
        shown.see(format!("{client:?}"));
        shown.thrown(&client.reentrant_lock("L").try_lock().expect_err("refused"));
        shown.thrown(&client.reentrant_lock("L").is_locked().expect_err("refused"));
    }
    let provided = Client::builder().password_provider(|| Ok(CANARY.to_owned()));
    shown.thrown(&provided.connect(&server.url()).expect_err("wrong"));
    shown.nowhere();
}

/// What is told of by itself: events, and the log lines of the threads.
#[test]
fn a_password_that_was_changed_is_not_told_of() {
    let ground = Ground::new();
    let shown = Shown::new();
    let server = ground.server_with(|plain| plain.password(CANARY));
    let told = Arc::new(Mutex::new(Vec::new()));
    let url = format!("redis://:{CANARY}@{}/", server.addr());
    let heard = Arc::clone(&told);
    let builder = Client::builder()
        .lock_watchdog_timeout(Duration::from_millis(900))
        .on_event(move |event| {
            let text = format!("{event:?} {event:#?}");
            heard.lock().expect("not poisoned").push(text);
        });
    let client = watched(&ground, builder.connect(&url));
    let lock = client.reentrant_lock(ground.name("L"));
    let guard = lock.try_lock().expect("answered").expect("free");
    let mut admin = server.connection();
    let mut run = |words: &[&str]| {
        let mut command = redis::Cmd::new();
        command.arg(words);
        command.query::<redis::Value>(&mut admin).expect("answered")
    };
    let token = CancelToken::new();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| lock.options().cancel(&token).acquire_owned().map(drop));
        eventually(BOUND, "it listens", || {
            let channels = run(&["PUBSUB", "CHANNELS"]);
            channels != redis::Value::Array(vec![])
        });
        run(&["CONFIG", "SET", "requirepass", "another"]);
        for of in ["pubsub", "normal"] {
            run(&["CLIENT", "KILL", "TYPE", of, "SKIPME", "yes"]);
        }
        for what in ["RenewalFailed", "NotifierDisconnected", "Lost"] {
            eventually(BOUND, what, || {
                let told = told.lock().expect("not poisoned");
                told.iter().any(|text| text.contains(what))
            });
        }
        run(&["CONFIG", "SET", "requirepass", CANARY]);
        token.cancel();
        if let Err(error) = waiter.join().expect("no panic") {
            shown.thrown(&error);
        }
    });
    shown.thrown(&guard.unlock().expect_err("lost"));
    for text in told.lock().expect("not poisoned").iter() {
        shown.see(text.clone());
    }
    shown.nowhere();
}

#[test]
fn a_server_that_is_not_there_is_not_told_of_with_its_password() {
    let ground = Ground::new();
    let shown = Shown::new();
    let port = free_port();
    for url in [
        format!("redis://user:{CANARY}@127.0.0.1:{port}/"),
        format!("redis://user:{CANARY}@127.0.0.1:{port}/?protocol=resp3"),
        format!("redis://127.0.0.1:{port}/?password={CANARY}"),
        format!("unix:///nowhere.sock?user=user&pass={CANARY}"),
    ] {
        let error = Client::connect(&url).expect_err("nobody is there");
        assert_eq!(error.kind(), ErrorKind::Connection, "{error}");
        shown.thrown(&error);
        let client = watched(&ground, Client::builder().connect_lazy(&url));
        shown.thrown(&client.reentrant_lock("L").try_lock().expect_err("nobody"));
    }
    shown.nowhere();
}

#[test]
fn a_url_that_is_none_is_not_repeated() {
    let _ground = Ground::new();
    let shown = Shown::new();
    for url in [
        CANARY.to_owned(),
        format!("{CANARY}://host/"),
        format!("http://user:{CANARY}@host/"),
        format!("redis://user:{CANARY}@host:99999/"),
        format!("redis://user:{CANARY}@host/nodb"),
        format!("redis://host/{CANARY}"),
        format!("redis://user:{CANARY}@[::nohost/"),
        format!("redis://user:{CANARY}@/?protocol=resp9"),
        format!("redis://user:{CANARY}%FF@host/"),
        format!("redis://host/?protocol={CANARY}"),
        format!("unix:///path?pass={CANARY}&db=nodb"),
        format!("rediss://user:{CANARY}@host/#insecure"),
    ] {
        let error = Client::connect(&url).expect_err(&url);
        assert_eq!(error.kind(), ErrorKind::Config, "{url}: {error}");
        shown.thrown(&error);
        shown.thrown(&Client::builder().connect_lazy(&url).expect_err(&url));
    }
    shown.nowhere();
}

#[cfg(feature = "tls")]
#[test]
fn a_key_is_not_shown() {
    use crate::support::Certs;

    let ground = Ground::new();
    let shown = Shown::new();
    let certs = Certs::new();
    let server = ground.server_with(|plain| plain.tls(&certs).tls_client_auth());
    let url = format!("rediss://127.0.0.1:{}/", server.tls_port());
    let pem = String::from_utf8(certs.client().key_pem().to_vec()).expect("PEM is text");
    let key = pem.lines().nth(1).expect("a key has a body").to_owned();
    let also = Shown::of(vec![key, format!("{:?}", certs.client().key_pem())]);

    let builder = Client::builder()
        .tls_root_certificates(certs.ca().pem())
        .tls_client_certificate(certs.client().cert_pem(), certs.client().key_pem());
    also.see(format!("{builder:?} {builder:#?}"));
    let client = watched(&ground, builder.clone().connect(&url));
    also.all_of(&client, &ground.name("L"));
    also.thrown(
        &builder
            .connect(&server.url())
            .expect_err("no TLS in the URL"),
    );
    let stranger = Client::builder()
        .tls_root_certificates(certs.stranger().pem())
        .tls_client_certificate(certs.client().cert_pem(), certs.client().key_pem());
    also.thrown(&stranger.connect(&url).expect_err("not its authority"));

    let bad = format!("-----BEGIN PRIVATE KEY-----\n{CANARY}!\n-----END PRIVATE KEY-----\n");
    for (certificate, key) in [
        (certs.client().cert_pem().to_vec(), bad.clone()),
        (certs.client().cert_pem().to_vec(), CANARY.to_owned()),
        (bad.into_bytes(), pem),
    ] {
        let builder = Client::builder().tls_client_certificate(certificate, key);
        shown.see(format!("{builder:?}"));
        let error = builder.connect(&url).expect_err("no key");
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        shown.thrown(&error);
        also.thrown(&error);
    }
    shown.nowhere();
    also.nowhere();
}

/// What was shown anywhere, and what must not be in it.
struct Shown {
    secrets: Vec<String>,
    texts: Mutex<Vec<String>>,
}

impl Shown {
    fn new() -> Self {
        Self::of(vec![CANARY.to_owned(), format!("{:?}", CANARY.as_bytes())])
    }

    fn of(secrets: Vec<String>) -> Self {
        log_everything();
        Self {
            secrets,
            texts: Mutex::default(),
        }
    }

    fn see(&self, text: String) {
        self.texts.lock().expect("not poisoned").push(text);
    }

    /// Everything of a client that can be printed, and what it logs when it fails.
    fn all_of(&self, client: &Client, name: &str) {
        let lock = client.reentrant_lock(name);
        let any = AnyLock::from(&lock);
        let guard = lock.try_lock().expect("answered").expect("free");
        self.see(format!("{client:?} {client:#?} {:?}", client.state()));
        self.see(format!("{lock:?} {any:?} {:?}", lock.options()));
        self.see(format!("{guard:?} {:?} {:?}", guard.lost(), lock.inspect()));
        lock.force_unlock().expect("answered");
        self.thrown(&guard.verify().expect_err("gone"));
        // It fails and is logged: by this the log is known to be read.
        drop(guard);
        eventually(Duration::from_secs(10), "the failure is logged", || {
            logged(|lines| lines.iter().any(|line| line.contains(name)))
        });
        let owned = any.try_lock_owned().expect("answered").expect("free");
        self.see(format!("{owned:?}"));
    }

    /// An error in all its forms, that of a panic included.
    fn thrown(&self, error: &lockson::Error) {
        self.see(format!("{error} {error:?} {error:#?}"));
        let mut cause = std::error::Error::source(error);
        while let Some(below) = cause {
            self.see(format!("{below} {below:?}"));
            cause = below.source();
        }
        let fail = || -> lockson::Result<()> { Err(error.clone()) };
        let panic = panic::catch_unwind(AssertUnwindSafe(|| fail().unwrap()));
        let panic = panic.expect_err("an error was unwrapped");
        let text = panic.downcast::<String>().expect("a panic has a text");
        assert!(text.contains("Error {"), "{text}");
        self.see(*text);
    }

    fn nowhere(&self) {
        let mut texts = self.texts.lock().expect("not poisoned").clone();
        assert!(!texts.is_empty());
        logged(|lines| texts.extend(lines.iter().cloned()));
        for text in texts {
            for secret in &self.secrets {
                assert!(!text.contains(secret), "{text}");
            }
        }
    }
}
