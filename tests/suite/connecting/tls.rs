//! TLS: whom the client trusts, and what it shows of itself.

use std::{net::TcpListener, thread, time::Duration};

use lockson::{Client, ClientBuilder, ErrorKind};

use super::{LONG, QUIET, SLACK, patience, timed, ways::hold_and_look};
use crate::support::{Certs, Ground, Proxy, certs::Authority, watched};

#[test]
fn a_lock_over_tls_with_an_authority_of_ones_own() {
    let ground = Ground::new();
    let certs = Certs::new();
    let server = ground.server_with(|options| options.tls(&certs).password("secret"));
    for host in ["localhost", "127.0.0.1"] {
        for end in ["", "?protocol=resp3"] {
            let url = format!("rediss://:secret@{host}:{}/{end}", server.tls_port());
            let client = watched(&ground, trusting(certs.ca()).connect(&url));
            hold_and_look(&ground, &server, &client);
        }
    }
    let url = format!("rediss://:wrong@localhost:{}/", server.tls_port());
    let error = trusting(certs.ca()).connect(&url).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::NoPermission, "{error}");
}

#[test]
fn a_client_certificate_opens_a_server_that_demands_one() {
    let ground = Ground::new();
    let certs = Certs::new();
    let server = ground.server_with(|options| options.tls(&certs).tls_client_auth());
    let url = format!("rediss://localhost:{}/", server.tls_port());
    let shown = certs.client();
    let builder = trusting(certs.ca()).tls_client_certificate(shown.cert_pem(), shown.key_pem());
    let client = watched(&ground, builder.connect(&url));
    hold_and_look(&ground, &server, &client);

    let proxy = Proxy::to(format!("127.0.0.1:{}", server.tls_port()));
    refused_by_either_side(&ground, &proxy, "no certificate", || trusting(certs.ca()));
    let strange = certs.stranger_client();
    refused_by_either_side(&ground, &proxy, "a strange certificate", || {
        trusting(certs.ca()).tls_client_certificate(strange.cert_pem(), strange.key_pem())
    });
}

#[test]
fn a_server_that_cannot_be_trusted_is_refused() {
    let ground = Ground::new();
    let certs = Certs::new();
    let good = ground.server_with(|options| options.tls(&certs));
    let expired = ground.server_with(|options| options.tls_as(&certs, certs.expired()));
    let elsewhere = ground.server_with(|options| options.tls_as(&certs, certs.wrong_host()));
    for (what, server, roots) in [
        ("the wrong authority", &good, certs.stranger()),
        ("an expired certificate", &expired, certs.ca()),
        ("another host's certificate", &elsewhere, certs.ca()),
    ] {
        let proxy = Proxy::to(format!("127.0.0.1:{}", server.tls_port()));
        refused_by_either_side(&ground, &proxy, what, || trusting(roots));
    }
}

#[test]
fn a_port_without_tls_is_given_up_in_time() {
    let ground = Ground::alone();
    let server = ground.server();
    let silent = TcpListener::bind("127.0.0.1:0").expect("the system has a free port");
    let silent = silent.local_addr().expect("a bound socket has an address");
    let certs = Certs::new();
    let (limit, response) = (Duration::from_millis(300), Duration::from_millis(500));
    for addr in [server.addr(), silent.to_string()] {
        let url = format!("rediss://{addr}/");
        let builder = || patience(limit, response).tls_root_certificates(certs.ca().pem());
        let (made, took) = timed(|| builder().connect(&url));
        let error = made.expect_err("no TLS there");
        assert_eq!(error.kind(), ErrorKind::Connection, "{error}");
        assert!(took < limit + SLACK, "{took:?}");

        let client = watched(&ground, builder().connect_lazy(&url));
        let (tried, took) = timed(|| client.reentrant_lock("never").try_lock());
        let error = tried.expect_err("no TLS there");
        assert_eq!(error.kind(), ErrorKind::Connection, "{error}");
        assert!(took < response * 2 + SLACK, "{took:?}");
    }
}

#[test]
fn certificates_that_are_none_are_a_bad_setting() {
    let ground = Ground::new();
    let certs = Certs::new();
    let (ca, shown) = (certs.ca().pem(), certs.client());
    let url = "rediss://localhost:1/";
    for (what, builder) in [
        (
            "roots",
            Client::builder().tls_root_certificates("not a certificate"),
        ),
        (
            "certificate",
            trusting(certs.ca()).tls_client_certificate("nonsense", shown.key_pem()),
        ),
        (
            "key",
            trusting(certs.ca()).tls_client_certificate(shown.cert_pem(), "nonsense"),
        ),
        (
            "another's key",
            trusting(certs.ca())
                .tls_client_certificate(shown.cert_pem(), certs.stranger_client().key_pem()),
        ),
    ] {
        let error = builder.connect_lazy(url).expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Config, "{what}: {error}");
    }
    let plain = Client::builder().tls_root_certificates(ca);
    let error = plain.connect_lazy("redis://localhost/").expect_err("plain");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    drop(ground);
}

/// The connection is refused at once, typed, and not tried more than a call may.
#[track_caller]
fn refused_by_either_side(
    ground: &Ground,
    proxy: &Proxy,
    what: &str,
    builder: impl Fn() -> ClientBuilder,
) {
    let url = format!("rediss://{}/", proxy.addr());
    let before = proxy.accepted();
    let (made, took) = timed(|| builder().connect(&url));
    let error = made.expect_err(what);
    assert_eq!(error.kind(), ErrorKind::Connection, "{what}: {error}");
    assert!(took < LONG / 2, "{what}: {took:?}");
    assert_eq!(proxy.accepted() - before, 1, "{what}");

    let client = watched(ground, builder().connect_lazy(&url));
    let (tried, took) = timed(|| client.reentrant_lock("never").try_lock());
    let error = tried.expect_err(what);
    println!("{what}: {error}");
    assert_eq!(error.kind(), ErrorKind::Connection, "{what}: {error}");
    assert!(took < LONG / 2, "{what}: {took:?}");
    thread::sleep(QUIET);
    assert_eq!(proxy.accepted() - before, 3, "{what}: and one repetition");
}

fn trusting(roots: &Authority) -> ClientBuilder {
    patience(LONG, LONG).tls_root_certificates(roots.pem())
}
