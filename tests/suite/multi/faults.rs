//! Servers that refuse, keys that are no locks, replies that are lost.

use std::{sync::Arc, thread, time::Duration};

use lockson::{Client, ErrorKind, MultiGuard, MultiLock};
use redis::Commands;

use super::{SOON, plain};
use crate::support::{Ground, Proxy, Server, connect, connect_to, eventually, script};

#[test]
fn a_release_that_was_refused_is_done_later() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let names = ["A", "B"].map(|name| ground.name(name));
    let lock = plain(&client, &names);
    let guard = lock.lock_with_lease(Duration::from_secs(60)).expect("free");
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let error = guard.unlock().expect_err("it does not write");
    assert_eq!(error.kind(), ErrorKind::Connection, "{error}");
    assert_eq!(there(&server, &names), 2);
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    eventually(SOON, "released", || there(&server, &names) == 0);
}

#[test]
fn a_key_that_is_no_lock_is_named() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let names = ["A", "B", "C"].map(|name| ground.name(name));
    let lock = plain(&client, &names);
    server.cli(&["SET", &names[1], "something else"]);
    let waits = [
        lock.lock().map(drop),
        lock.try_lock().map(drop),
        lock.try_lock_for(SOON).map(drop),
    ];
    for said in waits {
        let error = said.expect_err("no lock");
        assert_eq!(error.kind(), ErrorKind::WrongType, "{error}");
        assert_eq!(error.name(), Some(&*names[1]));
        assert_eq!(there(&server, &names), 1, "nothing is left of it");
    }
    server.cli(&["DEL", &names[1]]);
}

#[test]
fn a_key_that_is_no_lock_any_more_ends_the_hold() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let names = ["A", "B", "C"].map(|name| ground.name(name));
    let lock = plain(&client, &names);
    let guard = lock.lock().expect("free");
    server.cli(&["SET", &names[1], "something else"]);
    assert!(guard.is_held(), "nobody could know yet");
    let error = lock.lock().expect_err("no lock");
    assert_eq!(error.kind(), ErrorKind::WrongType, "{error}");
    assert_eq!(error.name(), Some(&*names[1]));
    assert!(!guard.is_held());
    assert_eq!(guard.lost_members(), [&*names[1]]);
    assert_eq!(client.state().holds, 2);
    let error = guard.unlock().expect_err("one was lost");
    assert_eq!(error.name(), Some(&*names[1]));
    assert_eq!(client.state().holds, 0);
    server.cli(&["DEL", &names[1]]);
    assert_eq!(there(&server, &names), 0);
}

#[test]
fn a_lost_reply_is_repeated_after_a_member_was_taken_away() {
    let ground = Ground::new();
    let scene = Scene::new(&ground);
    let guard = scene.repeated(|| scene.pull());
    let guard = guard.expect("answered").expect("free");
    guard.verify().expect("all are held");
    guard.unlock().expect("held");
    scene.assert_nothing_left();
}

#[test]
fn a_lost_reply_is_repeated_after_another_took_a_member() {
    let ground = Ground::new();
    let scene = Scene::new(&ground);
    let other = connect(&ground).reentrant_lock(&scene.names[1]);
    let mut taken = None;
    let refused = scene.repeated(|| {
        scene.pull();
        taken = Some(other.lock_owned().expect("free"));
    });
    assert!(refused.expect("answered").is_none());
    eventually(SOON, "the first copy is undone", || {
        there(&scene.server, &scene.names) == 1
    });
    taken
        .expect("it was asked in between")
        .unlock()
        .expect("held");
    scene.assert_nothing_left();
}

#[test]
fn a_lost_reply_of_a_re_entry_is_repeated_after_a_member_was_taken_away() {
    let ground = Ground::new();
    let scene = Scene::new(&ground);
    let outer = scene.lock.lock().expect("free");
    let inner = scene.repeated(|| scene.pull());
    let inner = inner.expect("answered").expect("its own, or free");
    assert!(!outer.is_held());
    assert_eq!(outer.lost_members(), [&*scene.names[1]]);
    inner.verify().expect("all are held");
    let error = outer.unlock().expect_err("one was lost");
    assert_eq!(error.name(), Some(&*scene.names[1]));
    inner.verify().expect("that was the older one");
    inner.unlock().expect("held");
    scene.assert_nothing_left();
}

/// Two locks as one, behind a proxy.
struct Scene {
    server: Arc<Server>,
    client: Client,
    proxy: Proxy,
    names: [String; 2],
    lock: MultiLock,
}

impl Scene {
    fn new(ground: &Ground) -> Self {
        let server = ground.server();
        let proxy = Proxy::to(server.addr());
        let client = connect_to(ground, &proxy.url(), |plain| {
            plain.response_timeout(Duration::from_millis(1500))
        });
        let names = ["A", "B"].map(|name| ground.name(name));
        let lock = plain(&client, &names);
        // The server knows the scripts then: each request is sent once.
        lock.lock().expect("free").unlock().expect("held");
        Self {
            server,
            client,
            proxy,
            names,
            lock,
        }
    }

    /// Tries once; the reply is lost, and this happens before the repetition.
    fn repeated(&self, between: impl FnOnce() + Send) -> lockson::Result<Option<MultiGuard>> {
        let (swallowed, held) = (self.proxy.swallowed(), self.proxy.held());
        self.proxy.swallow_replies(script(&self.names[0]), 1);
        self.proxy.hold(script(&self.names[0]), 1);
        let said = thread::scope(|scope| {
            scope.spawn(|| {
                eventually(SOON, "it is repeated", || self.proxy.held() > held);
                between();
                self.proxy.release_held();
            });
            self.lock.try_lock()
        });
        assert_eq!(self.proxy.swallowed(), swallowed + 1);
        said
    }

    /// By force, without a word to the client.
    fn pull(&self) {
        self.server.cli(&["DEL", &self.names[1]]);
    }

    #[track_caller]
    fn assert_nothing_left(&self) {
        eventually(SOON, "nothing is left", || {
            there(&self.server, &self.names) == 0
        });
        assert_eq!(self.client.state().holds, 0);
        self.lock.lock().expect("free").unlock().expect("held");
    }
}

fn there(server: &Server, names: &[String]) -> u64 {
    server.connection().exists(names).expect("EXISTS")
}
