//! What breaks while somebody stands in the queue: no ghost stays, no place is lost.

use std::{thread, time::Duration};

use lockson::{CancelToken, Client, ErrorKind, FairLock};
use redis::Commands;

use super::{
    SOON, millis, nobody_waits, queue, queue_key, secs, timed, times_key, wait_for_ears,
    wait_for_queue, waiter,
};
use crate::support::{Ground, Proxy, Server, connect, connect_to, eventually, script};

/// A lock that another client holds, and a client behind a proxy that is going to wait for it.
pub(super) struct Scene {
    pub(super) server: std::sync::Arc<Server>,
    pub(super) proxy: Proxy,
    pub(super) near: Client,
    pub(super) far: Client,
    pub(super) name: String,
}

impl Scene {
    fn new(ground: &Ground) -> Self {
        Self::patient(ground, millis(400))
    }

    pub(super) fn patient(ground: &Ground, response_timeout: Duration) -> Self {
        let server = ground.server();
        let proxy = Proxy::to(server.addr());
        let far = connect_to(ground, &proxy.url(), |plain| {
            plain.response_timeout(response_timeout)
        });
        let name = ground.name("L");
        // The server learns the scripts.
        let near = connect(ground);
        let warm = far.fair_lock(ground.name("warm-up"));
        let guard = warm.lock().expect("free");
        thread::scope(|scope| {
            scope.spawn(|| warm.try_lock_for(millis(50)).map(drop).expect("answered"));
        });
        guard.unlock().expect("held");
        Self {
            server,
            proxy,
            near,
            far,
            name,
        }
    }

    pub(super) fn locks(&self) -> (FairLock, FairLock) {
        (
            self.near.fair_lock(&self.name),
            self.far.fair_lock(&self.name),
        )
    }
}

/// Once, and the repetition finds it; twice, and the waiter asks again under the same name.
#[test]
fn a_lost_reply_to_the_queueing_costs_no_place() {
    let ground = Ground::new();
    let scene = Scene::new(&ground);
    let (near, far) = scene.locks();
    for lost in [1, 2, 3] {
        let before = scene.proxy.swallowed();
        let guard = near.lock().expect("free");
        scene.proxy.swallow_replies(script(&scene.name), lost);
        thread::scope(|scope| {
            let first = waiter(scope, &far, |guard| guard.holder().to_owned());
            wait_for_queue(&scene.server, &near, 1);
            let behind = waiter(scope, &near, drop);
            eventually(SOON, "the replies are lost", || {
                scene.proxy.swallowed() == before + lost
            });
            wait_for_queue(&scene.server, &near, 2);
            wait_for_ears(&scene.server, &near);
            let order = queue(&scene.server, &near);
            assert!(order[0].starts_with(scene.far.id()), "{order:?}");
            guard.unlock().expect("held");
            assert_eq!(first.join().expect("entered"), order[0]);
            behind.join().expect("entered");
        });
        nobody_waits(&scene.server, &[&scene.near, &scene.far], &near);
    }
}

#[test]
fn a_lost_reply_to_the_entry_makes_one_hold() {
    let ground = Ground::new();
    let scene = Scene::new(&ground);
    let (near, far) = scene.locks();
    for lost in [1, 2] {
        let guard = near.lock().expect("free");
        thread::scope(|scope| {
            let first = waiter(scope, &far, |guard| {
                assert_eq!(far.hold_count().expect("answered"), 1);
                guard.verify().expect("held");
                guard.unlock().expect("held");
            });
            wait_for_queue(&scene.server, &near, 1);
            wait_for_ears(&scene.server, &near);
            let before = scene.proxy.swallowed();
            scene.proxy.swallow_replies(script(&scene.name), lost);
            guard.unlock().expect("held");
            first.join().expect("entered");
            assert_eq!(scene.proxy.swallowed(), before + lost);
        });
        assert!(!near.is_locked().expect("answered"));
        nobody_waits(&scene.server, &[&scene.near, &scene.far], &near);
    }
}

/// The caller does not wait for it; the watchdog goes on.
#[test]
fn a_lost_reply_to_the_leaving_leaves_no_ghost() {
    let ground = Ground::new();
    let scene = Scene::new(&ground);
    let (near, far) = scene.locks();
    for requests in [false, true] {
        let guard = near.lock().expect("free");
        let token = CancelToken::new();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| far.options().cancel(&token).acquire().map(drop));
            wait_for_queue(&scene.server, &near, 1);
            wait_for_ears(&scene.server, &near);
            let before = scene.proxy.swallowed() + scene.proxy.dropped();
            match requests {
                true => scene.proxy.drop_requests(script(&scene.name), 2),
                false => scene.proxy.swallow_replies(script(&scene.name), 2),
            }
            token.cancel();
            let (error, took) = timed(|| waiting.join().expect("returns").expect_err("cancelled"));
            assert_eq!(error.kind(), ErrorKind::Cancelled);
            assert!(took < secs(2), "{took:?}");
            wait_for_queue(&scene.server, &near, 0);
            assert!(scene.proxy.swallowed() + scene.proxy.dropped() > before);
        });
        scene.proxy.clear();
        guard.unlock().expect("held");
        nobody_waits(&scene.server, &[&scene.near, &scene.far], &near);
    }
}

/// The request to queue arrives when nobody waits any more.
#[test]
fn a_request_that_comes_late_leaves_no_ghost() {
    let ground = Ground::new();
    let scene = Scene::new(&ground);
    let (near, far) = scene.locks();
    let guard = near.lock().expect("free");
    scene.proxy.hold(script(&scene.name), 1);
    let got = far.try_lock_for(millis(300)).map(|got| got.is_some());
    assert!(!got.unwrap_or(false), "another has it");
    assert_eq!(scene.proxy.held(), 1);
    scene.proxy.release_held();
    // The connection of the late request is closed by the server, or the request has run and is
    // taken back.
    eventually(SOON, "nothing is on its way", || {
        let name = format!("lockson-{}", scene.far.id());
        let clients = scene.server.clients();
        let there = clients.iter().filter(|one| one.name() == name).count();
        there <= scene.proxy.open()
    });
    wait_for_queue(&scene.server, &near, 0);
    guard.unlock().expect("held");
    nobody_waits(&scene.server, &[&scene.near, &scene.far], &near);
}

#[test]
fn messages_cut_while_waiting_cost_little() {
    let ground = Ground::alone();
    let scene = Scene::new(&ground);
    let (near, far) = scene.locks();
    let guard = near.lock_with_lease(secs(60)).expect("free");
    thread::scope(|scope| {
        let waiting = waiter(scope, &far, drop);
        wait_for_queue(&scene.server, &near, 1);
        wait_for_ears(&scene.server, &near);
        scene.server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        let ((), took) = timed(|| {
            guard.unlock().expect("held");
            waiting.join().expect("entered");
        });
        println!("in after {took:?}");
        assert!(took < millis(500), "{took:?}");
    });
    assert!(scene.far.state().reconnects > 0);
    nobody_waits(&scene.server, &[&scene.near, &scene.far], &near);
}

#[test]
fn scripts_forgotten_while_waiting() {
    let ground = Ground::new();
    let scene = Scene::new(&ground);
    let (near, far) = scene.locks();
    let guard = near.lock().expect("free");
    thread::scope(|scope| {
        let first = waiter(scope, &far, drop);
        wait_for_queue(&scene.server, &near, 1);
        let second = waiter(scope, &near, drop);
        wait_for_queue(&scene.server, &near, 2);
        scene.server.cli(&["SCRIPT", "FLUSH"]);
        guard.unlock().expect("held");
        first.join().expect("entered");
        second.join().expect("entered");
    });
    nobody_waits(&scene.server, &[&scene.near, &scene.far], &near);
}

#[test]
fn release_and_leaving_work_without_memory() {
    let ground = Ground::new();
    let server = ground.server();
    let (one, two) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let (lock, other) = (one.fair_lock(&name), two.fair_lock(&name));
    let guard = lock.lock().expect("free");
    let token = CancelToken::new();
    thread::scope(|scope| {
        let gives_up = scope.spawn(|| other.options().cancel(&token).acquire().map(drop));
        wait_for_queue(&server, &lock, 1);
        let heir = waiter(scope, &lock, drop);
        wait_for_queue(&server, &lock, 2);
        server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
        token.cancel();
        let error = gives_up.join().expect("returns").expect_err("cancelled");
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        wait_for_queue(&server, &lock, 1);
        guard.unlock().expect("the last release always works");
        heir.join().expect("it was handed over");
        let error = scope.spawn(|| other.try_lock().map(drop)).join();
        let error = error.expect("returns").expect_err("no memory");
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    });
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    nobody_waits(&server, &[&one, &two], &lock);
}

/// It has its place: that a new time for it cannot be written is no reason to give up.
#[test]
fn waiting_needs_no_memory() {
    let ground = Ground::new();
    let server = ground.server();
    let (one, two) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let (lock, other) = (one.fair_lock(&name), two.fair_lock(&name));
    let guard = lock.lock().expect("free");
    thread::scope(|scope| {
        let waiting = waiter(scope, &other, drop);
        wait_for_queue(&server, &lock, 1);
        wait_for_ears(&server, &lock);
        server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
        let before = server.script_calls();
        let holder = &queue(&server, &lock)[0];
        let channel = format!("redisson_lock__channel:{{{name}}}:{holder}");
        server.cli(&["PUBLISH", &channel, "0"]);
        eventually(SOON, "it looks", || server.script_calls() > before);
        server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
        guard.unlock().expect("held");
        waiting.join().expect("entered");
    });
    nobody_waits(&server, &[&one, &two], &lock);
}

#[test]
fn a_queue_that_is_none_is_a_wrong_type() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    for key in [queue_key, times_key] {
        let lock = client.fair_lock(ground.name("L"));
        let guard = lock.lock().expect("free");
        let () = server.connection().set(key(&lock), "text").expect("SET");
        thread::scope(|scope| {
            let refused = scope.spawn(|| lock.lock().map(drop)).join();
            let error = refused.expect("returns").expect_err("no queue");
            assert_eq!(error.kind(), ErrorKind::WrongType, "{error}");
        });
        // Times are looked at where somebody waits.
        if key(&lock) == queue_key(&lock) {
            let inspected = lock.inspect().expect_err("no queue");
            assert_eq!(inspected.kind(), ErrorKind::WrongType, "{inspected}");
        }
        let _: u64 = server.connection().del(key(&lock)).expect("DEL");
        assert!(queue(&server, &lock).is_empty(), "it left no place behind");
        drop(guard);
        assert!(!lock.is_locked().expect("answered"));
    }
}

/// All get in: in the order of their places when these were kept.
#[test]
fn a_server_that_comes_back_lets_all_in() {
    for aof in [false, true] {
        let ground = Ground::new();
        let server = ground.server_with(|plain| if aof { plain.aof() } else { plain });
        let quick = || {
            let url = server.url();
            connect_to(&ground, &url, |plain| plain.response_timeout(secs(1)))
        };
        let (client, other) = (quick(), quick());
        let name = ground.name("L");
        let holder = other.fair_lock(&name);
        let guard = holder.lock_with_lease(secs(4)).expect("free");
        let entered = std::sync::Mutex::new(Vec::new());
        let lock = client.fair_lock(&name);
        thread::scope(|scope| {
            for number in 0..10 {
                let entered = &entered;
                waiter(scope, &lock, move |guard| {
                    entered
                        .lock()
                        .expect("no panic")
                        .push(guard.holder().to_owned());
                    guard.unlock().expect("held");
                });
                wait_for_queue(&server, &lock, number + 1);
            }
            let order = queue(&server, &lock);
            server.kill();
            server.restart();
            eventually(secs(30), "all get in", || {
                entered.lock().expect("no panic").len() == order.len()
            });
            if aof {
                assert_eq!(*entered.lock().expect("no panic"), order);
            }
        });
        drop(guard);
        nobody_waits(&server, &[&client, &other], &lock);
    }
}
