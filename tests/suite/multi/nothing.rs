//! What breaks while several are taken or released: all of them, or none.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use lockson::{Client, Ended, ErrorKind, LostReason, MultiLock};
use redis::Commands;

use super::{of, plain};
use crate::support::{
    Ground, Proxy, Server, connect_to, eventually,
    proxy::{ALWAYS, Matcher},
    script,
};

#[test]
fn a_lost_reply_is_asked_for_again() {
    let scene = Scene::new();
    let lock = scene.lock();
    scene.proxy.swallow_replies(scene.scripts(), 1);
    let guard = lock.try_lock().expect("answered").expect("free");
    assert_eq!(scene.proxy.swallowed(), 1, "the first answer");
    for (name, holder) in scene.names.iter().zip(guard.holder().split(',')) {
        let fields: Vec<(String, u64)> = scene.redis().hgetall(name).expect("HGETALL");
        assert_eq!(fields, [(holder.to_owned(), 1)]);
    }
    scene.proxy.swallow_replies(scene.scripts(), 1);
    guard.unlock().expect("the first copy did it");
    assert_eq!(scene.proxy.swallowed(), 2);
    assert_eq!(scene.there(), 0);
}

#[test]
fn what_is_given_up_is_undone() {
    let scene = Scene::new();
    let lock = scene.lock();
    // Both copies run, and neither is heard of.
    scene.proxy.swallow_replies(scene.scripts(), 2);
    let error = lock.try_lock().expect_err("nobody answers");
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert_eq!(scene.proxy.swallowed(), 2);
    eventually(SOON, "nothing is left", || scene.there() == 0);
    assert_eq!(scene.client.state().holds, 0);

    let guard = lock.try_lock().expect("answered").expect("free");
    scene.proxy.drop_requests(scene.scripts(), ALWAYS);
    let error = guard.unlock().expect_err("nobody hears it");
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(scene.proxy.dropped() >= 2);
    // The watchdog may have released the others by now, each by itself.
    let first: bool = scene.redis().exists(&scene.names[0]).expect("EXISTS");
    assert!(first, "its requests were dropped");
    scene.proxy.clear();
    eventually(SOON, "the watchdog releases them", || scene.there() == 0);
}

#[test]
fn one_server_of_two_that_is_dead_leaves_nothing_on_the_other() {
    const WAIT: Duration = Duration::from_millis(500);
    let ground = Ground::new();
    let servers = [(); 2].map(|()| ground.server_with(|plain| plain));
    let name = ground.name("L");
    let member = |server: &Arc<Server>| {
        let client = connect_to(&ground, &server.url(), |plain| {
            plain.response_timeout(TIMEOUT)
        });
        client.reentrant_lock(&name).into()
    };
    let lock = of(servers.each_ref().map(member));
    servers[1].kill();
    let error = lock.try_lock().expect_err("one is dead");
    assert_eq!(error.kind(), ErrorKind::Connection, "{error}");
    let there = || -> bool { servers[0].connection().exists(&name).expect("EXISTS") };
    assert!(!there());
    let began = Instant::now();
    lock.try_lock_for(WAIT).expect_err("it stays dead");
    assert!((WAIT..SOON).contains(&began.elapsed()));
    assert!(!there());
    servers[1].restart();
    lock.lock().expect("both live").unlock().expect("held");
}

#[test]
fn a_client_that_is_shut_down_leaves_nothing_on_the_other() {
    let ground = Ground::new();
    let servers = [(); 2].map(|()| ground.server_with(|plain| plain));
    let name = ground.name("L");
    let clients = servers
        .each_ref()
        .map(|server| connect_to(&ground, &server.url(), |plain| plain));
    let lock = of(clients.iter().map(|one| one.reentrant_lock(&name).into()));
    let there = || -> bool { servers[0].connection().exists(&name).expect("EXISTS") };
    let [guard, dropped] = [lock.lock(), lock.lock()].map(|one| one.expect("free"));
    let lost = guard.lost();
    clients[1].shutdown();
    assert_eq!(lost.wait(SOON), Ended::Lost(LostReason::Closed));
    assert_eq!(guard.lost_members().len(), 1);
    drop(dropped);
    let error = guard.unlock().expect_err("one is shut down");
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    assert!(!there());
    for tried in [lock.try_lock(), lock.try_lock_for(SOON)] {
        let error = tried.expect_err("one is shut down");
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
        assert!(!there());
    }
    // A shutdown releases nothing: what is left ends by itself.
    servers[1].cli(&["DEL", &name]);
}

#[test]
fn a_panic_releases_all() {
    let scene = Scene::new();
    let lock = scene.lock();
    let failed = catch_unwind(AssertUnwindSafe(|| {
        let _guard = lock.lock().expect("free");
        assert_eq!(scene.there(), 3);
        panic!("on purpose");
    }));
    assert!(failed.is_err());
    assert_eq!(scene.there(), 0);
}

#[test]
fn one_of_a_wrong_type_refuses_all() {
    let scene = Scene::new();
    let lock = scene.lock();
    let _: () = scene.redis().set(&scene.names[2], "no lock").expect("SET");
    for tried in [lock.try_lock(), lock.try_lock_for(SOON)] {
        let error = tried.expect_err("not a lock");
        assert_eq!(error.kind(), ErrorKind::WrongType, "{error}");
        assert_eq!(scene.there(), 1, "nothing was written before it was seen");
    }
    let _: u64 = scene.redis().del(&scene.names[2]).expect("DEL");
    // One that turns while they are held: the others are released all the same.
    let guard = lock.lock().expect("free");
    let _: () = scene.redis().set(&scene.names[1], "no lock").expect("SET");
    let error = guard.unlock().expect_err("one was lost");
    assert_eq!(error.kind(), ErrorKind::WrongType, "{error}");
    assert_eq!(error.name(), Some(&*scene.names[1]));
    assert_eq!(scene.there(), 1);
    let _: u64 = scene.redis().del(&scene.names[1]).expect("DEL");
}

/// A client behind a proxy, and three names.
struct Scene {
    client: Client,
    proxy: Proxy,
    names: [String; 3],
    // Dropped last.
    ground: Ground,
}

impl Scene {
    fn new() -> Self {
        let ground = Ground::new();
        let proxy = Proxy::to(ground.server().addr());
        let client = connect_to(&ground, &proxy.url(), |plain| {
            plain.response_timeout(TIMEOUT)
        });
        // The server knows the scripts from now on.
        let warm_up = plain(&client, &[ground.name("warm-up")]);
        warm_up.lock().expect("free").unlock().expect("held");
        Self {
            client,
            proxy,
            names: ["A", "B", "C"].map(|name| ground.name(name)),
            ground,
        }
    }

    fn lock(&self) -> MultiLock {
        plain(&self.client, &self.names)
    }

    fn scripts(&self) -> impl Matcher {
        script(&self.names[0])
    }

    fn redis(&self) -> redis::Connection {
        self.ground.server().connection()
    }

    /// How many of the names are there.
    fn there(&self) -> u64 {
        self.redis().exists(&self.names).expect("EXISTS")
    }
}

const TIMEOUT: Duration = Duration::from_millis(300);

/// For facts that are due at once, on a machine that is busy with other things.
const SOON: Duration = Duration::from_secs(10);
