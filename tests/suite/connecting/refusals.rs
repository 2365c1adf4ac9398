//! Servers that cannot be used, and how soon and by which kind of error one learns it.

use std::{net::TcpListener, thread, time::Duration};

use lockson::{Client, Error, ErrorKind};

use super::{BOUND, LONG, QUIET, SLACK, calls, exists, patience, timed, use_lock};
use crate::support::{Ground, Proxy, eventually, launch::free_port, watched};

#[test]
fn a_wrong_password_is_refused_at_once_and_tried_once() {
    let ground = Ground::new();
    let server = ground.server_with(|options| options.password("right"));
    let addr = server.addr();
    let mut spy = server.connection();
    for (command, url) in [
        ("auth", format!("redis://:wrong@{addr}/")),
        ("auth", format!("redis://someone:wrong@{addr}/")),
        ("hello", format!("redis://:wrong@{addr}/?protocol=resp3")),
        (
            "hello",
            format!("redis://someone:wrong@{addr}/?protocol=resp3"),
        ),
    ] {
        let before = calls(&mut spy, command);
        let (error, took) = timed(|| refused_at_connect(&url, LONG));
        assert_eq!(error.kind(), ErrorKind::NoPermission, "{url}: {error}");
        assert!(took < LONG / 2, "{url}: {took:?}");
        assert!(
            !format!("{error} {error:?}").contains("wrong@"),
            "{error:?}"
        );
        assert_eq!(calls(&mut spy, command) - before, 1, "{url}");

        let client = watched(&ground, patience(LONG, LONG).connect_lazy(&url));
        let (error, took) = timed(|| refused_at_lock(&client));
        assert_eq!(error.kind(), ErrorKind::NoPermission, "{url}: {error}");
        assert!(took < LONG / 2, "{url}: {took:?}");
        thread::sleep(QUIET);
        assert_eq!(calls(&mut spy, command) - before, 2, "{url}");
    }
}

#[test]
fn a_missing_password_is_refused() {
    let ground = Ground::new();
    let server = ground.server_with(|options| options.password("right"));
    for url in [server.url(), format!("{}?protocol=resp3", server.url())] {
        let error = refused_at_connect(&url, LONG);
        assert_eq!(error.kind(), ErrorKind::NoPermission, "{url}: {error}");
    }
}

#[test]
fn a_password_that_nobody_asked_for_is_refused() {
    let ground = Ground::new();
    let server = ground.server();
    let url = format!("redis://:any@{}/", server.addr());
    let error = refused_at_connect(&url, LONG);
    assert_eq!(error.kind(), ErrorKind::NoPermission, "{error}");
}

#[test]
fn a_port_where_nobody_listens_is_refused_at_once() {
    let ground = Ground::new();
    let url = format!("redis://127.0.0.1:{}/", free_port());
    let (error, took) = timed(|| refused_at_connect(&url, LONG));
    assert_eq!(error.kind(), ErrorKind::Connection, "{error}");
    assert!(error.is_retryable());
    assert!(took < LONG / 2, "{took:?}");

    let client = watched(&ground, patience(LONG, LONG).connect_lazy(&url));
    let (error, took) = timed(|| refused_at_lock(&client));
    assert_eq!(error.kind(), ErrorKind::Connection, "{error}");
    assert!(took < LONG / 2, "{took:?}");
}

#[test]
fn a_server_that_hangs_up_is_a_failed_connection() {
    let ground = Ground::new();
    let server = ground.server();
    let proxy = Proxy::to(server.addr());
    proxy.refuse(true);
    let error = refused_at_connect(&proxy.url(), LONG);
    assert_eq!(error.kind(), ErrorKind::Connection, "{error}");

    let client = watched(&ground, patience(LONG, LONG).connect_lazy(&proxy.url()));
    let before = proxy.refused();
    let (error, took) = timed(|| refused_at_lock(&client));
    assert_eq!(error.kind(), ErrorKind::Connection, "{error}");
    assert!(took < LONG / 2, "{took:?}");
    thread::sleep(QUIET);
    assert_eq!(proxy.refused() - before, 2, "one attempt, one repetition");

    proxy.refuse(false);
    use_lock(&client, &ground.name("L"));
}

#[test]
fn a_server_that_never_answers_is_given_up_in_time() {
    let _ground = Ground::alone();
    // Connections wait in the backlog: made, and never heard.
    let silent = TcpListener::bind("127.0.0.1:0").expect("the system has a free port");
    let addr = silent.local_addr().expect("a bound socket has an address");
    let url = format!("redis://{addr}/");
    let limit = Duration::from_millis(400);

    let (error, took) = timed(|| refused_at_connect(&url, limit));
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(error.is_retryable());
    assert!(took >= limit && took < limit + SLACK, "{took:?}");

    let client = patience(limit, limit).connect_lazy(&url).expect("no I/O");
    let (error, took) = timed(|| refused_at_lock(&client));
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(took >= limit && took < limit * 2 + SLACK, "{took:?}");
}

#[test]
fn a_server_whose_every_word_is_late_is_given_up_in_time() {
    let ground = Ground::alone();
    let server = ground.server();
    let proxy = Proxy::to(server.addr());
    let limit = Duration::from_millis(1000);
    // Each reply of the greeting comes in time, all of them together do not.
    proxy.delay(limit * 3 / 4);
    let (error, took) = timed(|| refused_at_connect(&proxy.url(), limit));
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(took < limit + SLACK, "{took:?}");
    proxy.delay(Duration::ZERO);
    let client = watched(&ground, patience(limit, limit).connect(&proxy.url()));
    proxy.delay(limit * 3 / 4);
    // Connecting is late, and the script has to be sent twice.
    let (error, took) = timed(|| refused_at_lock(&client));
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(took < limit * 2 + SLACK, "{took:?}");
    proxy.delay(Duration::ZERO);
    eventually(BOUND, "it recovers", || {
        client.reentrant_lock("never").is_locked().is_ok()
    });
}

#[test]
fn a_connect_timeout_longer_than_the_budget_does_not_lengthen_it() {
    let _ground = Ground::alone();
    let silent = TcpListener::bind("127.0.0.1:0").expect("the system has a free port");
    let addr = silent.local_addr().expect("a bound socket has an address");
    let response = Duration::from_millis(200);
    let client = patience(Duration::from_secs(3), response)
        .connect_lazy(&format!("redis://{addr}/"))
        .expect("no I/O");
    let (error, took) = timed(|| refused_at_lock(&client));
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(took < response * 2 + SLACK, "{took:?}");
    let ((), took) = timed(|| drop(client));
    assert!(took < response * 2 + SLACK, "dropped in {took:?}");
}

#[test]
fn a_replica_is_refused() {
    let ground = Ground::new();
    // By default, some servers let a replica wait for others for five seconds.
    let primary = ground.server_with(|options| options.arg("repl-diskless-sync-delay", 0));
    let replica = ground.server();
    // As an option it has two words, which Redis 6.2 takes for one.
    replica.cli(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    eventually(BOUND, "the replica follows", || {
        let info: String = redis::cmd("INFO")
            .arg("replication")
            .query(&mut replica.connection())
            .expect("INFO replication is answered");
        info.contains("master_link_status:up")
    });
    for end in ["", "?protocol=resp3"] {
        let url = format!("{}{end}", replica.url());
        let error = refused_at_connect(&url, LONG);
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(!error.is_retryable());
    }

    // Who is connected already may see it promoted.
    let client = watched(&ground, patience(LONG, LONG).connect_lazy(&replica.url()));
    let error = refused_at_lock(&client);
    assert_eq!(error.kind(), ErrorKind::Connection, "{error}");
    assert!(error.is_retryable());
    replica.cli(&["REPLICAOF", "NO", "ONE"]);
    use_lock(&client, &ground.name("L"));
}

#[test]
fn a_database_that_does_not_exist_is_a_bad_setting() {
    let ground = Ground::new();
    let server = ground.server();
    let url = format!("{}99", server.url());
    let error = refused_at_connect(&url, LONG);
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    let client = watched(&ground, patience(LONG, LONG).connect_lazy(&url));
    let error = refused_at_lock(&client);
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}

#[test]
fn too_many_clients_may_be_fewer_later() {
    let ground = Ground::new();
    let server = ground.server();
    let client = watched(&ground, patience(LONG, LONG).connect_lazy(&server.url()));
    let mut spy = server.connection();
    let mut allow = |most: u32| {
        let _: () = redis::cmd("CONFIG")
            .arg(&["SET", "maxclients"])
            .arg(most)
            .query(&mut spy)
            .expect("CONFIG SET");
    };
    allow(1);
    let mut told = 0;
    for _ in 0..10 {
        for error in [
            refused_at_connect(&server.url(), LONG),
            refused_at_lock(&client),
        ] {
            assert_eq!(error.kind(), ErrorKind::Connection, "{error}");
            assert!(error.is_retryable());
            told += usize::from(error.to_string().contains("max number of clients"));
        }
    }
    // The server hangs up behind its words, which may cost some of them.
    assert!(told > 0, "nobody was told the reason");
    allow(100);
    use_lock(&client, &ground.name("L"));
}

#[test]
fn a_refused_acquisition_leaves_nothing() {
    let ground = Ground::new();
    let server = ground.server();
    let proxy = Proxy::to(server.addr());
    let client = watched(&ground, patience(LONG, LONG).connect_lazy(&proxy.url()));
    proxy.refuse(true);
    let name = ground.name("L");
    let error = client
        .reentrant_lock(&name)
        .try_lock()
        .expect_err("refused");
    assert_eq!(error.name(), Some(&*name));
    assert_eq!((client.state().holds, client.state().connections), (0, 0));
    proxy.refuse(false);
    assert!(!exists(&server, &name));
    use_lock(&client, &name);
}

#[cfg(not(feature = "tls"))]
#[test]
fn tls_without_the_feature_is_a_bad_setting() {
    let _ground = Ground::new();
    for url in ["rediss://127.0.0.1/", "rediss://user:canary@host:7000/1"] {
        for made in [
            Client::connect(url),
            Client::builder().connect_lazy(url),
            Client::builder()
                .tls_root_certificates("")
                .connect_lazy(url),
        ] {
            let error = made.expect_err("no feature");
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            assert!(error.to_string().contains("feature `tls`"), "{error}");
            assert!(!format!("{error:?}").contains("canary"), "{error:?}");
        }
    }
    let plain = Client::builder()
        .tls_root_certificates("")
        .connect_lazy("redis://127.0.0.1/");
    let error = plain.expect_err("certificates without TLS");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}

#[track_caller]
fn refused_at_connect(url: &str, limit: Duration) -> Error {
    let made = patience(limit, limit).connect(url);
    made.expect_err("the server cannot be used")
}

#[track_caller]
fn refused_at_lock(client: &Client) -> Error {
    let tried = client.reentrant_lock("never").try_lock();
    tried.expect_err("the server cannot be used")
}
