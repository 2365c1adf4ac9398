//! The Rust peer by itself: a scenario can only be as good as the lines that it speaks.

use std::{thread, time::Duration};

use redis::Commands;

use super::processes::rust_peer;
use crate::support::{Ground, Peer, Server, child::Refusal, eventually, launch::free_port};

#[test]
fn refuses_what_it_cannot_read() {
    let ground = Ground::new();
    let peer = rust_peer();
    let url = ground.server().url();
    let id = client(&peer, &ground, "30000");
    for (request, kind) in [
        ("", "Usage"),
        ("A", "Usage"),
        ("A t1", "Usage"),
        ("A  t1 tryLock lock L", "Usage"),
        ("A t1 tryLock", "Usage"),
        ("A t1 tryLock lock", "Usage"),
        ("A t1 tryLock lock L 5", "Usage"),
        ("A t1 tryLockW lock L", "Usage"),
        ("A t1 tryLockW lock L soon", "Usage"),
        ("A t1 tryLockWL lock L 0", "Usage"),
        ("A t1 tryLockWL lock L 0 1.5", "Usage"),
        ("A t1 lockL lock L 99999999999999999999", "Usage"),
        ("A t1 info lock", "Usage"),
        ("B t1 tryLock lock L", "Usage"),
        ("B t1 info", "Usage"),
        ("shutdown B", "Usage"),
        ("shutdown", "Usage"),
        ("shutdown A B", "Usage"),
        ("exit now", "Usage"),
        ("cancel", "Usage"),
        ("cancel t1 t2", "Usage"),
        ("client", "Usage"),
        ("client B single URL", "Usage"),
        ("client B single URL often", "Usage"),
        ("client B single URL 30000 pool", "Usage"),
        ("client B single URL 30000 pool=many", "Usage"),
        ("client A single URL 30000", "Usage"),
        ("client B single URL 0", "Config"),
        ("client B single URL -5", "Config"),
        ("client B single URL 30000 pool=0", "Config"),
        ("client B single URL 30000 batch=0", "Config"),
        ("client B single URL 30000 timeout=0", "Config"),
        ("client B single URL 30000 fairWait=0", "Config"),
        ("client B single URL 30000 member=0", "Config"),
        ("client B single nonsense 30000", "Config"),
        ("client B moebius URL 30000", "Unsupported"),
        ("A t1 levitate lock L", "Unsupported"),
        ("A t1 levitate", "Unsupported"),
        ("A t1 token lock L", "Unsupported"),
        ("A t1 tryLock padlock L", "Unsupported"),
        ("A t1 tryLock padlock L 5", "Unsupported"),
        ("A t1 lockL lock L 0", "Config"),
        ("A t1 tryLockWL lock L 0 0", "Config"),
        ("A t1 lockL lock L -2", "Usage"),
        ("A t1 tryLockWL lock L 0 -2", "Usage"),
    ] {
        refuses(&peer, &request.replace("URL", &url), kind);
    }
    // None of them has made a client or taken a lock.
    says(&peer, "A t1 isLocked lock L", "false");
    says(&peer, "A t1 info", &format!("{id} 0"));
    says(&peer, "cancel nobody", "null");
    let second = format!("client B single {url} 30000 pool=2 batch=7 timeout=500 unknown=x");
    assert_ne!(peer.call(&second), Ok(id), "each client is a holder");
}

#[test]
fn a_lease_of_minus_one_and_a_wait_of_less_than_nothing_are_none() {
    let ground = Ground::new();
    let peer = rust_peer();
    client(&peer, &ground, "2000");
    for acquire in [
        "tryLockW lock L 0",
        "tryLockW lock L -7",
        "tryLockWL lock L -1 -1",
    ] {
        says(&peer, &format!("A t1 {acquire}"), "true");
        says(&peer, &format!("A t2 {acquire}"), "false");
        let ttl = ask(&peer, "A t2 ttl lock L");
        assert!((1..=2000).contains(&ttl), "{ttl} of the watchdog's 2000");
        says(&peer, "A t1 unlock lock L", "null");
    }
}

#[test]
fn without_a_guard_nothing_is_held() {
    let ground = Ground::new();
    let peer = rust_peer();
    client(&peer, &ground, "30000");
    says(&peer, "A t1 tryLock lock L", "true");
    for op in ["unlock", "holder", "verify", "remaining"] {
        refuses(&peer, &format!("A t2 {op} lock L"), "NotHeld");
        refuses(&peer, &format!("A t1 {op} lock M"), "NotHeld");
    }
    refuses(&peer, "A t2 awaitLost lock L 0", "NotHeld");
    says(&peer, "A t2 guardHeld lock L", "false");
    says(&peer, "A t2 isHeld lock L", "false");
    says(&peer, "A t2 drop lock L", "null");
    says(&peer, "A t1 isHeld lock L", "true");

    says(&peer, "A t1 drop lock L", "null");
    says(&peer, "A t1 isLocked lock L", "false");
    refuses(&peer, "A t1 unlock lock L", "NotHeld");
}

#[test]
fn unlocks_the_newest_guard_and_forgets_it_whatever_the_answer() {
    let ground = Ground::new();
    let server = ground.server();
    let peer = rust_peer();
    client(&peer, &ground, "30000");
    says(&peer, "A t1 tryLock lock L", "true");
    let older = peer.call("A t1 holder lock L").expect("it is held");
    server.cli(&["DEL", "L"]);
    refuses(&peer, "A t1 verify lock L", "NotHeld");
    says(&peer, "A t1 tryLock lock L", "true");
    let newer = peer.call("A t1 holder lock L").expect("it is held");
    assert_ne!(older, newer);

    says(&peer, "A t1 unlock lock L", "null");
    assert_eq!(peer.call("A t1 holder lock L"), Ok(older));
    refuses(&peer, "A t1 unlock lock L", "NotHeld");
    let refusal = refuses(&peer, "A t1 unlock lock L", "NotHeld");
    assert!(refusal.message.contains("no guard"), "{refusal}");
}

#[test]
fn a_client_of_a_dead_server_can_be_made() {
    let _ground = Ground::new();
    let peer = rust_peer();
    let port = free_port();
    let made = peer.call(&format!("client A single redis://127.0.0.1:{port} 30000"));
    assert_eq!(made.expect("it connects later").len(), 36);
    refuses(&peer, "A t1 tryLock lock L", "Connection");
}

#[test]
fn the_end_of_the_input_releases_nothing() {
    let ground = Ground::new();
    let server = ground.server();
    let peer = rust_peer();
    let id = client(&peer, &ground, "30000");
    says(&peer, "A t1 tryLock lock L", "true");
    says(&peer, "A t2 tryLock lock M", "true");
    peer.close_stdin();
    let status = peer.wait_exit(SOON);
    assert!(status.success(), "{status}");
    still_held(&server, &id, &["L", "M"]);
}

#[test]
fn the_end_of_the_input_is_seen_while_threads_are_at_work() {
    let ground = Ground::new();
    let server = ground.server();
    let peer = rust_peer();
    let id = client(&peer, &ground, "30000");
    says(&peer, "A t1 tryLock lock L", "true");
    let waiting = peer.send("A t1 awaitLost lock L 60000");
    says(&peer, "A t2 isLocked lock L", "true");
    server.freeze();
    let asking = peer.send("A t2 isLocked lock L");
    peer.close_stdin();
    peer.wait_exit(SOON);
    assert!(!waiting.is_done() && !asking.is_done());
    server.thaw();
    still_held(&server, &id, &["L"]);
}

#[test]
fn exit_shuts_down_and_releases_nothing() {
    let ground = Ground::new();
    let server = ground.server();
    let peer = rust_peer();
    let id = client(&peer, &ground, "30000");
    says(&peer, "A t1 tryLock lock L", "true");
    let _busy = peer.send("A t2 tryLock lock L");
    says(&peer, "exit", "bye");
    let status = peer.wait_exit(SOON);
    assert!(status.success(), "{status}");
    still_held(&server, &id, &["L"]);
}

#[test]
fn a_client_that_is_shut_down_is_closed_and_the_others_are_not() {
    let ground = Ground::new();
    let server = ground.server();
    let peer = rust_peer();
    let id = client(&peer, &ground, "30000");
    let other = format!("client B single {} 30000", server.url());
    peer.call(&other).expect("a second client");
    says(&peer, "A t1 tryLock lock L", "true");
    says(&peer, "shutdown A", "null");
    says(&peer, "shutdown A", "null");

    says(&peer, "A t1 guardHeld lock L", "false");
    says(&peer, "A t1 awaitLost lock L 0", "true");
    says(&peer, "A t1 remaining lock L", "0");
    refuses(&peer, "A t1 tryLock lock M", "Closed");
    refuses(&peer, "A t1 unlock lock L", "Closed");
    refuses(&peer, &other.replace(" B ", " A "), "Usage");
    says(&peer, "B t1 tryLock lock L", "false");
    says(&peer, "B t1 tryLock lock M", "true");
    says(&peer, "B t1 unlock lock M", "null");
    still_held(&server, &id, &["L"]);
}

#[test]
fn a_thread_works_in_order_and_beside_the_others() {
    let ground = Ground::new();
    let peer = rust_peer();
    client(&peer, &ground, "30000");
    says(&peer, "A t1 tryLock lock L", "true");
    let in_order = [
        "A t1 awaitLost lock L 500",
        "A t1 tryLock lock L",
        "A t1 holdCount lock L",
        "A t1 unlock lock L",
        "A t1 holdCount lock L",
        "A t1 drop lock L",
        "A t1 isLocked lock L",
    ]
    .map(|request| peer.send(request));
    says(&peer, "A t2 tryLock lock M", "true");
    says(&peer, "A t2 unlock lock M", "null");
    assert!(!in_order[0].is_done(), "the first thread still waits");

    let answers = in_order.map(|pending| pending.wait(BOUND).expect("nothing is refused"));
    assert_eq!(
        answers,
        ["false", "true", "2", "null", "1", "null", "false"]
    );
}

#[test]
fn a_guard_tells_by_itself_when_its_lease_is_over() {
    let ground = Ground::new();
    let peer = rust_peer();
    client(&peer, &ground, "30000");
    says(&peer, "A t1 tryLockWL lock L 0 60000", "true");
    says(&peer, "A t1 guardHeld lock L", "true");
    says(&peer, "A t1 verify lock L", "null");
    says(&peer, "A t1 awaitLost lock L 20", "false");
    let left = ask(&peer, "A t1 remaining lock L");
    assert!((1..=59_980).contains(&left), "{left} of a minute");
    says(&peer, "A t1 unlock lock L", "null");

    says(&peer, "A t1 tryLockWL lock L 0 100", "true");
    says(&peer, "A t1 awaitLost lock L 10000", "true");
    says(&peer, "A t1 guardHeld lock L", "false");
    says(&peer, "A t1 remaining lock L", "0");
    refuses(&peer, "A t1 verify lock L", "Lost");
    // A guard gives up a moment before its key does.
    eventually(BOUND, "the key ends", || {
        peer.call("A t1 isLocked lock L") == Ok("false".to_owned())
    });
    refuses(&peer, "A t1 unlock lock L", "NotHeld");
}

#[test]
fn inspects_in_one_line() {
    let ground = Ground::new();
    let server = ground.server();
    let peer = rust_peer();
    client(&peer, &ground, "30000");
    let free = "mode= ttl=-2 holders= queue= waiters=0";
    says(&peer, "A t1 inspect lock L", free);

    says(&peer, "A t1 tryLock lock L", "true");
    says(&peer, "A t1 tryLock lock L", "true");
    let holder = peer.call("A t1 holder lock L").expect("it is held");
    let seen = peer
        .call("A t2 inspect lock L")
        .expect("it can be looked at");
    let words: Vec<&str> = seen.split(' ').collect();
    let [mode, ttl, holders, queue, waiters] = words[..] else {
        panic!("five words: {seen:?}");
    };
    assert_eq!((mode, queue, waiters), ("mode=", "queue=", "waiters=0"));
    assert_eq!(holders, format!("holders={holder}×2"));
    let ttl: u64 = ttl
        .strip_prefix("ttl=")
        .and_then(|ttl| ttl.parse().ok())
        .unwrap_or_else(|| panic!("a time: {ttl:?}"));
    assert!((1..=30_000).contains(&ttl), "{ttl} of the watchdog's 30000");
    says(&peer, "A t1 unlock lock L", "null");
    says(&peer, "A t1 unlock lock L", "null");

    server.cli(&["HSET", "L", "somebody:77", "3"]);
    let foreign = "mode= ttl=-1 holders=somebody:77×3 queue= waiters=0";
    says(&peer, "A t1 inspect lock L", foreign);
    says(&peer, "A t1 ttl lock L", "-1");
    says(&peer, "A t1 tryLock lock L", "false");
    says(&peer, "A t1 forceUnlock lock L", "true");
    says(&peer, "A t1 inspect lock L", free);
}

#[test]
fn an_answer_is_one_line_whatever_stands_in_redis() {
    let ground = Ground::new();
    let server = ground.server();
    let peer = rust_peer();
    client(&peer, &ground, "30000");
    server.cli(&["HSET", "L", "some\r\nbody", "1"]);
    let seen = "mode= ttl=-1 holders=some  body×1 queue= waiters=0";
    says(&peer, "A t1 inspect lock L", seen);
    server.cli(&["DEL", "L"]);
    server.cli(&["SET", "L", "no lock"]);
    refuses(&peer, "A t1 inspect lock L", "WrongType");
    server.cli(&["DEL", "L"]);
}

/// Makes the client A.
#[track_caller]
fn client(peer: &Peer, ground: &Ground, watchdog: &str) -> String {
    let request = format!("client A single {} {watchdog}", ground.server().url());
    peer.call(&request).expect("a client is made")
}

#[track_caller]
fn says(peer: &Peer, request: &str, expected: &str) {
    assert_eq!(peer.call(request).as_deref(), Ok(expected), "{request}");
}

#[track_caller]
fn refuses(peer: &Peer, request: &str, kind: &str) -> Refusal {
    match peer.call(request) {
        Err(refusal) if refusal.kind == kind => refusal,
        answer => panic!("{request:?}: {answer:?}, not {kind}"),
    }
}

#[track_caller]
fn ask(peer: &Peer, request: &str) -> i64 {
    let answer = peer.call(request);
    let number = answer.as_ref().ok().and_then(|value| value.parse().ok());
    number.unwrap_or_else(|| panic!("{request:?}: {answer:?}, not a number"))
}

/// Waits a moment, as a release on its way could come late, and removes the keys.
#[track_caller]
fn still_held(server: &Server, client: &str, locks: &[&str]) {
    thread::sleep(Duration::from_millis(50));
    let mut redis = server.connection();
    for lock in locks {
        let holders: Vec<String> = redis.hkeys(lock).expect("HKEYS");
        assert!(
            matches!(&holders[..], [holder] if holder.starts_with(client)),
            "{lock} of {client}: {holders:?}"
        );
        let ttl: i64 = redis.pttl(lock).expect("PTTL");
        assert!((1..=30_000).contains(&ttl), "{lock} ends by itself: {ttl}");
        let _: i64 = redis.del(lock).expect("DEL");
    }
}

const BOUND: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_secs(2);
