//! What happens to readers and writers when the server has no memory, is cut off, ends or restarts,
//! and when a client is stopped or shut down.

use std::{thread, time::Instant};

use lockson::{Client, ErrorKind, LostReason};
use redis::Commands;

use super::{SOON, faults::Scene, fields, secs, ttl};
use crate::{
    interop::processes::rust_peer,
    support::{Ground, Server, connect, connect_to, eventually},
};

fn without_memory(server: &Server) {
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
}

fn with_memory(server: &Server) {
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
}

#[test]
fn releases_work_without_memory_and_a_downgrade_says_why_not() {
    let ground = Ground::new();
    let scene = Scene::new(&ground);
    let (lock, other) = scene.locks();
    let short = lock.read_with_lease(secs(20)).expect("free");
    let long = lock.read_with_lease(secs(60)).expect("its own");
    without_memory(&scene.server);
    for error in [
        lock.try_read().expect_err("no memory"),
        other.try_read().expect_err("no memory"),
    ] {
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    }
    long.unlock().expect("a slot that goes makes room");
    short.verify().expect("it still reads");
    assert!(ttl(&scene.server, &lock) > 10_000);
    short.unlock().expect("the last release always works");
    scene.assert_free();

    with_memory(&scene.server);
    let writing = lock.write().expect("free");
    without_memory(&scene.server);
    let (error, writing) = writing.downgrade().expect_err("no memory");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    writing.verify().expect("it still writes");
    assert_eq!(fields(&scene.server, &lock).len(), 2);
    writing.unlock().expect("the last release always works");
    scene.assert_free();
    let error = other.try_write().expect_err("no memory");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    with_memory(&scene.server);
}

#[test]
fn who_waits_without_memory_goes_on_waiting() {
    let ground = Ground::new();
    let scene = Scene::new(&ground);
    let (lock, other) = scene.locks();
    let writing = other.write().expect("free");
    thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| lock.read().expect("let in").unlock()))
            .collect();
        let writer = scope.spawn(|| lock.write().expect("let in").unlock());
        all_wait(&scene.far, 4);
        without_memory(&scene.server);
        let asked = scene.server.script_calls();
        let channel = format!("redisson_rwlock:{{{}}}", lock.name());
        // Whatever is said there: they look again.
        eventually(SOON, "they listen", || {
            let mut redis = scene.server.connection();
            let heard: u64 = redis.publish(&channel, 1).expect("PUBLISH");
            heard > 0
        });
        eventually(SOON, "all have asked", || {
            scene.server.script_calls() >= asked + 4
        });
        assert_eq!(scene.far.state().waiters, 4);
        with_memory(&scene.server);
        writing.unlock().expect("held");
        for one in readers.into_iter().chain([writer]) {
            one.join().expect("ends well").expect("held");
        }
    });
    scene.assert_free();
}

#[test]
fn a_key_that_is_no_lock_is_a_wrong_type() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.read_write_lock(ground.name("L"));
    let reading = lock.read_lock().lock_owned().expect("free");
    let () = server.connection().set(lock.name(), "text").expect("SET");
    for error in [
        lock.read().expect_err("no lock"),
        lock.write().expect_err("no lock"),
        lock.try_write().expect_err("no lock"),
        lock.inspect().map(drop).expect_err("no lock"),
        reading.verify().expect_err("no lock"),
        reading.unlock().expect_err("no lock"),
    ] {
        assert_eq!(error.kind(), ErrorKind::WrongType, "{error}");
    }
    assert_eq!(client.state().holds, 0);
    let keys: Vec<String> = server.connection().keys("*").expect("KEYS");
    // Nobody can tell any more whose the slot is: it ends by its time.
    assert_eq!(keys.len(), 2, "{keys:?}");
    let _: u64 = server.connection().del(keys).expect("DEL");
}

/// Others may have written anything into the hash.
#[test]
fn a_count_that_is_none_stops_nobody() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.read_write_lock(ground.name("L"));
    for count in [
        "",
        "text",
        "-3",
        "1e9",
        "99999999999999999999",
        "nan",
        "0.5",
    ] {
        let first = lock.read().expect("free");
        let second = lock.read().expect("its own");
        let _: u64 = server
            .connection()
            .hset(lock.name(), "somebody", count)
            .expect("HSET");
        lock.inspect().map(drop).unwrap_or_else(|error| {
            assert_eq!(error.kind(), ErrorKind::Protocol, "{count}: {error}");
        });
        first.unlock().expect(count);
        second.verify().expect(count);
        second.unlock().expect(count);
        assert!(fields(&server, &lock).is_empty(), "{count}");
    }
}

#[test]
fn messages_cut_while_readers_and_a_writer_wait_cost_little() {
    let ground = Ground::alone();
    let scene = Scene::new(&ground);
    let (lock, other) = scene.locks();
    let writing = other.write_with_lease(secs(60)).expect("free");
    thread::scope(|scope| {
        let readers: Vec<_> = (0..5)
            .map(|_| scope.spawn(|| lock.read().expect("let in").unlock()))
            .collect();
        let writer = scope.spawn(|| lock.write().expect("let in").unlock());
        all_wait(&scene.far, 6);
        eventually(SOON, "they listen", || {
            let cut: u64 = redis::cmd("CLIENT")
                .arg(&["KILL", "TYPE", "pubsub"])
                .query(&mut scene.server.connection())
                .expect("CLIENT KILL");
            cut > 0
        });
        let began = Instant::now();
        writing.unlock().expect("held");
        for one in readers.into_iter().chain([writer]) {
            one.join().expect("ends well").expect("held");
        }
        println!("all in after {:?}", began.elapsed());
        assert!(began.elapsed() < secs(2), "{:?}", began.elapsed());
    });
    scene.assert_free();
}

/// Who held it is told when the server has forgotten it, and goes on when it has not.
#[test]
fn a_server_that_comes_back_lets_readers_and_writers_in() {
    for aof in [false, true] {
        let ground = Ground::new();
        let server = ground.server_with(|plain| if aof { plain.aof() } else { plain });
        let quick = || {
            let url = server.url();
            connect_to(&ground, &url, |plain| plain.response_timeout(secs(1)))
        };
        let (client, other) = (quick(), quick());
        let name = ground.name("L");
        let (lock, holder) = (client.read_write_lock(&name), other.read_write_lock(&name));
        let [first, second] = [
            holder.read_lock().lock_owned().expect("free"),
            holder.read_lock().lock_owned().expect("shared"),
        ];
        thread::scope(|scope| {
            let waiting: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| lock.write().expect("let in").unlock()))
                .collect();
            all_wait(&client, 3);
            let pid = server.pid();
            server.kill();
            server.restart();
            assert_ne!(server.pid(), pid);
            if aof {
                for guard in [first, second] {
                    guard.verify().expect("kept");
                    guard.unlock().expect("kept");
                }
            } else {
                for guard in [first, second] {
                    assert_eq!(
                        guard.lost().wait(SOON),
                        lockson::Ended::Lost(LostReason::Gone)
                    );
                    let error = guard.unlock().expect_err("forgotten");
                    assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
                }
            }
            for one in waiting {
                one.join().expect("ends well").expect("held");
            }
        });
        let keys: Vec<String> = server.connection().keys("*").expect("KEYS");
        assert_eq!(keys, Vec::<String>::new());
    }
}

#[test]
fn a_client_that_is_shut_down_sends_all_who_wait_away() {
    let ground = Ground::new();
    let server = ground.server();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let (lock, other) = (ours.read_write_lock(&name), theirs.read_write_lock(&name));
    let writing = other.write().expect("free");
    thread::scope(|scope| {
        let read = || lock.read().map(drop).map_err(|error| error.kind());
        let write = || lock.write().map(drop).map_err(|error| error.kind());
        let mut waiting: Vec<_> = (0..10).map(|_| scope.spawn(read)).collect();
        waiting.extend((0..10).map(|_| scope.spawn(write)));
        all_wait(&ours, 20);
        ours.shutdown();
        for one in waiting {
            assert_eq!(one.join().expect("returns"), Err(ErrorKind::Closed));
        }
    });
    assert_eq!(fields(&server, &other).len(), 2, "the writer alone");
    writing.unlock().expect("held");
    let keys: Vec<String> = server.connection().keys("*").expect("KEYS");
    assert_eq!(keys, Vec::<String>::new());
}

/// A reader that is stopped is in nobody's way when its time is over, though others read on.
#[test]
fn a_reader_that_is_stopped_past_its_time_is_not_there_any_more() {
    let ground = Ground::alone();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.read_write_lock(ground.name("L"));
    let peer = rust_peer();
    let ask = |op: &str| peer.call(&format!("A t1 {op} read {}", lock.name()));
    let made = peer.call(&format!("client A single {} 900", server.url()));
    made.expect("a client");
    assert_eq!(ask("tryLock").expect("answered"), "true");
    let holder = ask("holder").expect("answered");
    let beside = lock.read().expect("shared");
    assert_eq!(fields(&server, &lock).len(), 3);
    peer.freeze();
    let slot = format!("{{{}}}:{holder}:rwlock_timeout:1", lock.name());
    eventually(SOON, "its time is over", || {
        !server
            .connection()
            .exists::<_, bool>(&slot)
            .expect("EXISTS")
    });
    beside.verify().expect("it reads on");
    assert!(fields(&server, &lock).contains_key(&holder), "a ghost");
    beside.unlock().expect("held");
    let writing = lock.try_write().expect("answered").expect("nobody reads");

    peer.thaw();
    assert_eq!(ask("guardHeld").expect("answered"), "false");
    let refusal = ask("unlock").expect_err("its time is over");
    assert_eq!(refusal.kind, "NotHeld", "{refusal}");
    writing.verify().expect("held");
    assert_eq!(fields(&server, &lock).len(), 2);
    writing.unlock().expect("held");
    assert!(fields(&server, &lock).is_empty());
}

#[track_caller]
fn all_wait(client: &Client, count: usize) {
    eventually(SOON, "all wait", || client.state().waiters == count);
}
