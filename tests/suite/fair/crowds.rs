//! Many threads, and many processes, for one fair lock.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use lockson::Client;
use redis::Commands;

use super::{SOON, millis, nobody_waits, queue, queue_key, secs, server_now, times_key};
use crate::{
    interop::processes::rust_peer,
    support::{Ground, Peer, Pending, Server, connect, eventually},
};

/// Of one client, where the lock is handed over, and of two by turns, where each is told.
#[test]
fn a_crowd_enters_in_the_order_of_its_queue() {
    for clients in [1, 2] {
        let ground = Ground::alone();
        let server = ground.server();
        let clients: Vec<Client> = (0..clients).map(|_| connect(&ground)).collect();
        let other = connect(&ground);
        let name = ground.name("L");
        let lock = other.fair_lock(&name);
        let guard = lock.lock().expect("free");
        let entered = Mutex::new(Vec::new());
        let order = thread::scope(|scope| {
            let waiting: Vec<_> = (0..CROWD)
                .map(|number| {
                    let lock = clients[number % clients.len()].fair_lock(&name);
                    let entered = &entered;
                    thread::Builder::new()
                        .stack_size(256 * 1024)
                        .spawn_scoped(scope, move || {
                            let guard = lock.lock().expect("its turn comes");
                            let holder = guard.holder().to_owned();
                            entered.lock().expect("no panic").push(holder);
                            guard.unlock().expect("held");
                        })
                        .expect("a thread can be started")
                })
                .collect();
            let start = Instant::now();
            eventually(secs(60), "all have a place", || {
                queue(&server, &lock).len() == CROWD
            });
            let placed = start.elapsed();
            let order = queue(&server, &lock);
            let calls = server.script_calls();
            let start = Instant::now();
            guard.unlock().expect("held");
            for one in waiting {
                one.join().expect("it got in");
            }
            let took = start.elapsed();
            let each = (server.script_calls() - calls) as f64 / CROWD as f64;
            println!(
                "{CROWD} threads of {} client(s): placed within {placed:?}, in within {took:?}, \
                 {each:.2} scripts each",
                clients.len()
            );
            order
        });
        let entered = entered.into_inner().expect("no panic");
        assert_eq!(entered, order);
        nobody_waits(&server, &[&other], &lock);
        nobody_waits(&server, &clients.iter().collect::<Vec<_>>(), &lock);
    }
}

/// Says how quick it is; what it must be is not for a busy machine to say.
#[test]
fn eight_threads_of_a_hot_fair_lock() {
    let ground = Ground::alone();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.fair_lock(ground.name("L"));
    let (over, inside) = (AtomicBool::new(false), AtomicBool::new(false));
    let calls = server.script_calls();
    let shares: Vec<u64> = thread::scope(|scope| {
        let hot = || {
            let mut share = 0;
            while !over.load(Ordering::Relaxed) {
                let guard = lock.lock().expect("answered");
                assert!(!inside.swap(true, Ordering::SeqCst), "two are inside");
                share += 1;
                assert!(inside.swap(false, Ordering::SeqCst));
                guard.unlock().expect("held");
            }
            share
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(hot)).collect();
        thread::sleep(secs(2));
        over.store(true, Ordering::Relaxed);
        let ends = threads.into_iter().map(|one| one.join());
        ends.map(|share| share.expect("ends well")).collect()
    });
    let all: u64 = shares.iter().sum();
    let each = (server.script_calls() - calls) as f64 / all as f64;
    println!("{all} acquisitions in 2 s, {each:.2} scripts each, shares {shares:?}");
    assert!(shares.iter().all(|share| *share > 0), "{shares:?}");
    nobody_waits(&server, &[&client], &lock);
}

/// Who had just joined was once handed the lock and took it as well: it held twice, for ever.
#[test]
fn who_joins_while_the_lock_is_handed_over_holds_once() {
    let ground = Ground::new();
    let server = ground.server();
    for _ in 0..10 {
        let (one, two) = (connect(&ground), connect(&ground));
        let name = ground.name("L");
        thread::scope(|scope| {
            for client in [&one, &one, &one, &one, &two] {
                let lock = client.fair_lock(&name);
                scope.spawn(move || {
                    for _ in 0..150 {
                        let guard = lock.try_lock_for(SOON).expect("answered");
                        let guard = guard.expect("its turn comes");
                        guard.unlock().expect("held");
                        assert_eq!(lock.hold_count().expect("answered"), 0);
                    }
                });
            }
        });
        assert_eq!((one.state().holds, two.state().holds), (0, 0));
        nobody_waits(&server, &[&one, &two], &one.fair_lock(&name));
    }
}

/// Three processes with random patience, one of them killed: who lives gets in, or gives up when it
/// said it would; who died stays in the queue until it has been silent for too long.
#[test]
fn processes_of_which_one_dies() {
    let ground = Ground::alone();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.fair_lock(ground.name("L"));
    let guard = lock.lock().expect("free");
    let peers = [(); 3].map(|()| peer(&server));
    let mut random = 1_u64;
    let mut asked = Vec::new();
    for thread in 0..THREADS {
        for (at, peer) in peers.iter().enumerate() {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let wait = millis(2_000 + (random >> 33) % 4_000);
            let words = format!(
                "A t{thread} tryLockW fair {} {}",
                lock.name(),
                wait.as_millis()
            );
            asked.push(Asked {
                peer: at,
                thread,
                wait,
                since: Instant::now(),
                pending: peer.send(&words),
            });
        }
    }
    // Some have given up by then on a slow machine, which is as good.
    eventually(SOON, "most of them wait", || {
        queue(&server, &lock).len() >= 2 * THREADS
    });
    peers[0].kill();
    guard.unlock().expect("held");
    let (mut got, mut missed) = (0, 0);
    // Asked in turns, so that nobody's release waits for another's answer.
    asked.retain(|one| one.peer != 0);
    while !asked.is_empty() {
        asked.retain(|one| {
            let Some(answer) = one.pending.within(millis(1)) else {
                let late = one.since.elapsed().saturating_sub(one.wait);
                assert!(late < LATE, "{} of {} is late", one.thread, one.peer);
                return true;
            };
            match answer.expect("an answer").as_str() {
                "true" => {
                    got += 1;
                    let words = format!("A t{} unlock fair {}", one.thread, lock.name());
                    peers[one.peer].call(&words).expect("held");
                }
                _ => {
                    missed += 1;
                    assert!(one.since.elapsed() + millis(5) >= one.wait, "not too soon");
                }
            }
            false
        });
    }
    let left = queue(&server, &lock);
    println!(
        "{got} got in, {missed} gave up, {} dead are left",
        left.len()
    );
    assert_eq!(got + missed, 2 * THREADS);
    for peer in &peers[1..] {
        peer.call("exit").expect("it ends");
    }

    // Nobody waits here for as long as they may be silent.
    let now = server_now(&server);
    let mut redis = server.connection();
    for dead in &left {
        let _: u64 = redis.zadd(times_key(&lock), dead, now).expect("a zset");
    }
    let guard = lock.try_lock().expect("answered");
    drop(guard.expect("passes the dead"));
    eventually(SOON, "what the dead one held is over", || {
        !lock.is_locked().expect("answered")
    });
    assert!(!redis.exists::<_, bool>(queue_key(&lock)).expect("EXISTS"));
    nobody_waits(&server, &[&client], &lock);
}

struct Asked {
    peer: usize,
    thread: usize,
    wait: Duration,
    since: Instant,
    pending: Pending,
}

fn peer(server: &Server) -> Peer {
    let peer = rust_peer();
    let made = peer.call(&format!("client A single {} 1000", server.url()));
    made.expect("a client");
    peer
}

const CROWD: usize = 500;
const THREADS: usize = 20;
/// How much later than its time a process may say that it gave up, on a busy machine.
const LATE: Duration = secs(2);
