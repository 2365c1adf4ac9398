//! Many processes on one name: a counter that only the lock protects.

use std::{
    env,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use redis::Commands;

use super::{
    FAIR, Kind, LOCK, READ, WRITE, is_beside_java,
    processes::{java_peer, rust_peer},
    seat_clients,
    seats::{Seat, Side},
    sweep_latches,
};
use crate::support::{Ground, Peer, Server};

/// Two processes of each side, four threads each.
#[test]
fn beside_java() {
    if !is_beside_java() {
        return;
    }
    let ground = Ground::alone();
    let server = ground.server();
    let rust = [rust_peer(), rust_peer()];
    let java = [java_peer(), java_peer()];
    seat_clients(&[&rust[0], &rust[1], &java[0], &java[1]], &server.url());
    for kind in [LOCK, FAIR] {
        let lock = ground.name("L");
        let over = AtomicBool::new(false);
        let entries = [AtomicU64::new(0), AtomicU64::new(0)];
        let longest = thread::scope(|scope| {
            let sides = [(Side::Rust, &rust), (Side::Java, &java)];
            let threads: Vec<_> = sides
                .into_iter()
                .flat_map(|(side, peers)| peers.iter().map(move |peer| (side, peer)))
                .flat_map(|one| ["t1", "t2", "t3", "t4"].map(|thread| (one, thread)))
                .map(|((side, peer), thread)| {
                    let seat = Seat::new(peer, side, "A", kind).on(thread);
                    let (lock, over, server) = (&lock, &over, &*server);
                    let count = &entries[side as usize];
                    scope.spawn(move || {
                        let mut redis = server.connection();
                        let mut longest = Duration::ZERO;
                        while !over.load(Ordering::Relaxed) {
                            longest = longest.max(enter(&mut redis, &seat, lock));
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                        (side, longest)
                    })
                })
                .collect();
            thread::sleep(Duration::from_secs(10));
            over.store(true, Ordering::Relaxed);
            let all = threads
                .into_iter()
                .map(|one| one.join().expect("ends well"));
            all.fold([Duration::ZERO; 2], |mut longest, (side, wait)| {
                longest[side as usize] = longest[side as usize].max(wait);
                longest
            })
        });
        let [java_entries, rust_entries] = entries.map(AtomicU64::into_inner);
        let [java_wait, rust_wait] = longest;
        eprintln!(
            "{}: Rust {rust_entries} entries, longest wait {rust_wait:?}; \
             Java {java_entries}, {java_wait:?}",
            kind.word
        );
        let all = java_entries + rust_entries;
        check_counter(&server, &lock, all);
        assert!(
            java_entries.min(rust_entries) >= all / 10,
            "both get their share"
        );
    }
    sweep_latches(&server);
}

/// As above, and nine of ten only read. What starves a writer is readers that never let go; here each
/// thread wants to write now and then, and waits for it.
#[test]
fn readers_and_writers_beside_java() {
    if !is_beside_java() {
        return;
    }
    let ground = Ground::alone();
    let server = ground.server();
    let rust = [rust_peer(), rust_peer()];
    let java = [java_peer(), java_peer()];
    seat_clients(&[&rust[0], &rust[1], &java[0], &java[1]], &server.url());
    let lock = &ground.name("L");
    let over = &AtomicBool::new(false);
    let peers = rust.iter().map(|peer| (Side::Rust, peer));
    let peers = peers.chain(java.iter().map(|peer| (Side::Java, peer)));
    let sums = thread::scope(|scope| {
        let server = &*server;
        let threads: Vec<_> = peers
            .flat_map(|one| ["t1", "t2", "t3", "t4"].map(|thread| (one, thread)))
            .enumerate()
            .map(|(at, ((side, peer), thread))| {
                let seat = Seat::new(peer, side, "A", READ).on(thread);
                scope.spawn(move || {
                    let mut redis = server.connection();
                    let mut share = Share::default();
                    for round in at.. {
                        if over.load(Ordering::Relaxed) {
                            break;
                        }
                        if round % 10 == 0 {
                            let waited = enter(&mut redis, &seat.by(WRITE), lock);
                            share.longest = share.longest.max(waited);
                            share.writes += 1;
                        } else {
                            look(&mut redis, &seat, lock);
                            share.reads += 1;
                        }
                    }
                    (side, share)
                })
            })
            .collect();
        thread::sleep(Duration::from_secs(10));
        over.store(true, Ordering::Relaxed);
        let mut sums = [Share::default(), Share::default()];
        for one in threads {
            let (side, share) = one.join().expect("ends well");
            sums[side as usize].add(share);
        }
        sums
    });
    let [of_java, of_rust] = &sums;
    eprintln!("Rust {of_rust:?}; Java {of_java:?}");
    let mut redis = server.connection();
    let inside: i64 = redis.get_del(readers(lock)).expect("GETDEL");
    assert_eq!(inside, 0, "every reader left");
    check_counter(server.as_ref(), lock, of_java.writes + of_rust.writes);
    for count in [|share: &Share| share.reads, |share: &Share| share.writes] {
        let (java, rust) = (count(of_java), count(of_rust));
        assert!(java.min(rust) >= (java + rust) / 10, "both get their share");
    }
    sweep_latches(&server);
}

/// What one side did.
#[derive(Debug, Default)]
struct Share {
    reads: u64,
    writes: u64,
    /// The longest that a writer waited.
    longest: Duration,
}

impl Share {
    fn add(&mut self, other: Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.longest = self.longest.max(other.longest);
    }
}

/// Reads, and looks for a writer.
fn look(redis: &mut redis::Connection, seat: &Seat<'_>, lock: &str) {
    seat.says("lock", lock, "null");
    let _: i64 = redis.incr(readers(lock), 1).expect("INCR");
    let written: bool = redis.exists(format!("{lock}:inside")).expect("EXISTS");
    assert!(!written, "somebody writes");
    let _: i64 = redis.decr(readers(lock), 1).expect("DECR");
    seat.says("unlock", lock, "null");
}

/// The key that counts who reads.
fn readers(lock: &str) -> String {
    format!("{lock}:readers")
}

/// Two processes of ours, eight threads each; 10,000 rounds each by `LOCKSON_ROUNDS=10000`.
#[test]
fn between_two_processes() {
    let rounds: u64 = match env::var("LOCKSON_ROUNDS") {
        Ok(rounds) => rounds.parse().expect("LOCKSON_ROUNDS is a number"),
        Err(_) => 1_000,
    };
    let ground = Ground::new();
    let server = ground.server();
    let peers = [rust_peer(), rust_peer()];
    seat_clients(&[&peers[0], &peers[1]], &server.url());
    for kind in [LOCK, FAIR] {
        let lock = ground.name("L");
        let began = Instant::now();
        thread::scope(|scope| {
            for peer in &peers {
                rush(scope, &server, peer, kind, &lock, rounds / 8);
            }
        });
        check_counter(&server, &lock, rounds / 8 * 16);
        eprintln!(
            "{}: {} entries in {:?}",
            kind.word,
            rounds / 8 * 16,
            began.elapsed()
        );
    }
}

/// Has eight threads of a peer enter so often each.
fn rush<'s>(
    scope: &'s thread::Scope<'s, '_>,
    server: &'s Server,
    peer: &'s Peer,
    kind: Kind,
    lock: &str,
    rounds: u64,
) {
    for thread in ["t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8"] {
        let seat = Seat::new(peer, Side::Rust, "A", kind).on(thread);
        let lock = lock.to_owned();
        scope.spawn(move || {
            let mut redis = server.connection();
            for _ in 0..rounds {
                enter(&mut redis, &seat, &lock);
            }
        });
    }
}

/// Takes the lock, counts in two steps and looks around; answers how long it waited.
fn enter(redis: &mut redis::Connection, seat: &Seat<'_>, lock: &str) -> Duration {
    let asked = Instant::now();
    seat.says("lock", lock, "null");
    let waited = asked.elapsed();
    let (count, inside) = (format!("{lock}:count"), format!("{lock}:inside"));
    let alone: bool = redis.set_nx(&inside, 1).expect("SETNX");
    assert!(alone, "somebody else is inside");
    let reading: Option<i64> = redis.get(readers(lock)).expect("GET");
    assert_eq!(reading.unwrap_or(0), 0, "somebody reads");
    let before: Option<u64> = redis.get(&count).expect("GET");
    let () = redis.set(&count, before.unwrap_or(0) + 1).expect("SET");
    let gone: u64 = redis.del(&inside).expect("DEL");
    assert_eq!(gone, 1, "nobody else left");
    seat.says("unlock", lock, "null");
    waited
}

#[track_caller]
fn check_counter(server: &Server, lock: &str, entries: u64) {
    let mut redis = server.connection();
    let counted: u64 = redis.get_del(format!("{lock}:count")).expect("GETDEL");
    assert_eq!(counted, entries, "no update was lost");
    let locked: bool = redis.exists(lock).expect("EXISTS");
    assert!(!locked, "nothing is left");
}
