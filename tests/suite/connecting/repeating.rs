//! Lost replies and lost requests: the call is repeated behind a fence and has one effect.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use lockson::{Client, ErrorKind};

use super::{BOUND, LONG, calls, exists, holders, patience, use_lock};
use crate::support::{Ground, Proxy, Server, eventually, script, watched};

#[test]
fn an_acquire_whose_reply_was_lost_is_repeated_behind_a_fence() {
    let scene = Scene::new();
    let monitor = scene.server.monitor();
    let overheard = overhear(&scene.proxy);
    scene.proxy.swallow_replies(script(&scene.name), 1);
    let lock = scene.client.reentrant_lock(&scene.name);
    let guard = lock.try_lock().expect("an answer").expect("free");
    assert_eq!(scene.proxy.swallowed(), 1);
    assert_eq!(scene.holders(), [(guard.holder().to_owned(), 1)]);

    // Both copies arrived, by two connections.
    let told = monitor.take_commands();
    let origins: Vec<&str> = told
        .iter()
        .filter(|line| line.contains("\"EVALSHA\"") && line.contains(&scene.name))
        .map(|line| origin(line))
        .collect();
    let [doubtful, repeated] = origins[..] else {
        panic!("not two copies: {told:?}");
    };
    assert_ne!(doubtful, repeated);
    // MONITOR does not show the killing; the proxy does, right before the second copy.
    let said = heard(&overheard);
    let copies: Vec<usize> = places(&said, |request| request.contains(&scene.name));
    let kills = places(&said, |request| {
        request.starts_with("CLIENT KILL ID ") && request.ends_with(&format!(" ADDR {doubtful}"))
    });
    assert_eq!((copies.len(), kills.len()), (2, 1), "{said:?}");
    assert_eq!(kills[0] + 1, copies[1], "{said:?}");
    let connected = scene.server.clients();
    assert!(connected.iter().all(|one| one.addr() != doubtful));

    guard.unlock().expect("released");
    scene.is_clean();
}

#[test]
fn a_re_entry_whose_reply_was_lost_counts_once() {
    let scene = Scene::new();
    let lock = scene.client.reentrant_lock(&scene.name);
    let outer = lock.try_lock().expect("an answer").expect("free");
    scene.proxy.swallow_replies(script(&scene.name), 1);
    let inner = lock.try_lock().expect("an answer").expect("own");
    assert_eq!(scene.proxy.swallowed(), 1);
    assert_eq!(scene.holders(), [(outer.holder().to_owned(), 2)]);

    scene.proxy.swallow_replies(script(&scene.name), 1);
    inner.unlock().expect("released");
    assert_eq!(scene.proxy.swallowed(), 2);
    assert_eq!(scene.holders(), [(outer.holder().to_owned(), 1)]);
    outer.unlock().expect("released");
    scene.is_clean();
}

#[test]
fn an_unlock_whose_reply_was_lost_publishes_once() {
    let scene = Scene::new();
    let lock = scene.client.reentrant_lock(&scene.name);
    let guard = lock.try_lock().expect("an answer").expect("free");
    let mut spy = scene.server.connection();
    let before = calls(&mut spy, "publish");
    scene.proxy.swallow_replies(script(&scene.name), 1);
    guard.unlock().expect("released");
    assert_eq!(scene.proxy.swallowed(), 1);
    assert!(!exists(&scene.server, &scene.name));
    assert_eq!(calls(&mut spy, "publish") - before, 1);
    scene.is_clean();
}

#[test]
fn a_request_that_never_arrived_is_repeated() {
    let scene = Scene::new();
    let lock = scene.client.reentrant_lock(&scene.name);
    scene.proxy.drop_requests(script(&scene.name), 1);
    let guard = lock.try_lock().expect("an answer").expect("free");
    assert_eq!(scene.proxy.dropped(), 1);
    assert_eq!(scene.holders(), [(guard.holder().to_owned(), 1)]);

    let mut spy = scene.server.connection();
    let before = calls(&mut spy, "publish");
    scene.proxy.drop_requests(script(&scene.name), 1);
    guard.unlock().expect("released");
    assert_eq!(scene.proxy.dropped(), 2);
    assert!(!exists(&scene.server, &scene.name));
    assert_eq!(calls(&mut spy, "publish") - before, 1);
    scene.is_clean();
}

#[test]
fn a_connection_cut_before_or_after_the_request_is_repeated() {
    let scene = Scene::new();
    let lock = scene.client.reentrant_lock(&scene.name);
    let cuts: [fn(&Scene); 2] = [
        |scene| scene.proxy.cut_before(script(&scene.name), 1),
        |scene| scene.proxy.cut_after(script(&scene.name), 1),
    ];
    for cut in cuts {
        cut(&scene);
        let guard = lock.try_lock().expect("an answer").expect("free");
        assert_eq!(scene.holders(), [(guard.holder().to_owned(), 1)]);
        cut(&scene);
        guard.unlock().expect("released");
        assert!(!exists(&scene.server, &scene.name));
    }
    assert_eq!(scene.proxy.cuts(), 4);
    scene.is_clean();
}

#[test]
fn an_acquire_given_up_in_doubt_leaves_nothing() {
    let scene = Scene::new();
    let lock = scene.client.reentrant_lock(&scene.name);
    scene.proxy.swallow_replies(script(&scene.name), 2);
    let error = lock.try_lock().expect_err("both replies were lost");
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert_eq!(scene.proxy.swallowed(), 2);
    assert_eq!(scene.client.state().holds, 0);
    // Long before the hold would have ended by itself.
    eventually(BOUND, "it is taken back", || {
        !exists(&scene.server, &scene.name)
    });
    let other = watched(&scene.ground, Client::connect(&scene.server.url()));
    use_lock(&other, &scene.name);
    use_lock(&scene.client, &scene.name);
    scene.is_clean();
}

#[test]
fn a_late_copy_of_an_acquire_given_up_never_runs() {
    let scene = Scene::new();
    let lock = scene.client.reentrant_lock(&scene.name);
    let overheard = overhear(&scene.proxy);
    scene.proxy.hold(script(&scene.name), 2);
    let error = lock.try_lock().expect_err("both requests are held up");
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    // The fence has been left to the watchdog; only then the copies go on.
    eventually(BOUND, "both connections are killed", || {
        let said = heard(&overheard);
        // The first also before the repetition, which came to nothing.
        let killed: HashSet<&String> = said
            .iter()
            .filter(|request| request.starts_with("CLIENT KILL ID "))
            .collect();
        killed.len() == 2
    });
    assert_eq!(scene.proxy.release_held(), 2);
    let other = watched(&scene.ground, Client::connect(&scene.server.url()));
    use_lock(&other, &scene.name);
    assert!(!exists(&scene.server, &scene.name));
    scene.is_clean();
}

/// A client behind a proxy that loses patience soon; the server knows the scripts already.
struct Scene {
    client: Client,
    name: String,
    proxy: Proxy,
    server: Arc<Server>,
    ground: Ground,
}

impl Scene {
    fn new() -> Self {
        let ground = Ground::new();
        let server = ground.server();
        let proxy = Proxy::to(server.addr());
        let builder = patience(LONG, Duration::from_millis(500));
        let client = watched(&ground, builder.connect(&proxy.url()));
        let name = ground.name("L");
        use_lock(&client, &name);
        Self {
            client,
            name,
            proxy,
            server,
            ground,
        }
    }

    #[track_caller]
    fn holders(&self) -> Vec<(String, u64)> {
        holders(&self.server, &self.name)
    }

    /// Nothing in Redis, nothing believed to be held; the ground looks at the rest.
    #[track_caller]
    fn is_clean(&self) {
        assert!(!exists(&self.server, &self.name));
        assert_eq!(self.client.state().holds, 0);
    }
}

/// Every request that comes by from now on, its words joined by spaces.
fn overhear(proxy: &Proxy) -> Arc<Mutex<Vec<String>>> {
    let said = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&said);
    let listen = move |request: &[u8]| {
        let text = String::from_utf8_lossy(request);
        // Each word follows its length.
        let words: Vec<&str> = text.split("\r\n").skip(2).step_by(2).collect();
        kept.lock().expect("nobody panics").push(words.join(" "));
        false
    };
    proxy.drop_requests(listen, 1);
    said
}

fn heard(said: &Mutex<Vec<String>>) -> Vec<String> {
    said.lock().expect("nobody panics").clone()
}

fn places(said: &[String], wanted: impl Fn(&str) -> bool) -> Vec<usize> {
    (0..said.len()).filter(|&at| wanted(&said[at])).collect()
}

/// Who sent it: `1700000000.123456 [0 127.0.0.1:40112] "EVALSHA" …`
fn origin(line: &str) -> &str {
    let (head, _) = line.split_once(']').expect("a line of MONITOR");
    head.rsplit_once(' ').expect("a line of MONITOR").1
}
