//! Those who want the same members at the same time all get in.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use super::{
    MULTI, is_beside_java,
    scene::{CLIENTS, Party, seat_clients},
};
use crate::{
    interop::{
        LOCK,
        processes::{java_peer, rust_peer},
        seats::{Seat, Side, WATCHDOG},
        sweep_latches,
    },
    support::{Ground, Peer, Server},
};

#[test]
fn opposite_orders_of_two_processes() {
    in_opposite_orders(Side::Rust);
}

#[test]
fn opposite_orders_beside_java() {
    if is_beside_java() {
        in_opposite_orders(Side::Java);
    }
}

#[test]
fn hot_names_of_another_process() {
    beside_hot_names(Side::Rust);
}

#[test]
fn hot_names_of_java() {
    if is_beside_java() {
        beside_hot_names(Side::Java);
    }
}

/// Two processes take three names, one from the first to the last, one from the last to the first.
fn in_opposite_orders(second: Side) {
    let ground = Ground::alone();
    let server = ground.server();
    let names = ["a", "b", "c"].map(|name| ground.name(name));
    let peers = [seated(Side::Rust, &ground), seated(second, &ground)];
    let party = |place: usize, side| Party::new(&peers[place], side, MULTI, CLIENTS[0], &names);
    let parties = [party(0, Side::Rust), party(1, second).turned()];
    let inside = AtomicBool::new(false);
    let began = Instant::now();
    let longest = thread::scope(|scope| {
        let each = parties.each_ref().map(|party| {
            let inside = &inside;
            scope.spawn(move || {
                let waits = (0..ROUNDS).map(|_| {
                    let asked = Instant::now();
                    party.says("lock", "null");
                    let waited = asked.elapsed();
                    assert!(!inside.swap(true, Ordering::SeqCst), "one at a time");
                    // Long enough for the other to come and find it taken.
                    thread::sleep(Duration::from_millis(5));
                    inside.store(false, Ordering::SeqCst);
                    party.says("unlock", "null");
                    waited
                });
                waits.max().expect("some rounds")
            })
        });
        each.map(|thread| thread.join().expect("ends well"))
    });
    let all = began.elapsed();
    eprintln!(
        "{ROUNDS} rounds in opposite orders: Rust waited {:?} at most, {second:?} {:?}; all done after {all:?}",
        longest[0], longest[1]
    );
    assert!(all < Duration::from_secs(20), "{all:?}");
    sweep_latches(&server);
}

/// A MultiLock of three names while four threads for each of them take it by itself all the time.
fn beside_hot_names(side: Side) {
    let ground = Ground::alone();
    let server = ground.server();
    let names = ["a", "b", "c"].map(|name| ground.name(name));
    let peers = [seated(Side::Rust, &ground), seated(side, &ground)];
    let lock = Party::new(&peers[0], Side::Rust, MULTI, CLIENTS[0], &names);
    let (over, entries) = (AtomicBool::new(false), AtomicU64::new(0));
    let threads: Vec<(String, &String)> = (0..4)
        .flat_map(|number| {
            names
                .iter()
                .map(move |name| (format!("{name}-{number}"), name))
        })
        .collect();
    let (longest, all) = thread::scope(|scope| {
        for (thread, name) in &threads {
            let seat = Seat::new(&peers[1], side, CLIENTS[0][0], LOCK).on(thread);
            let (over, entries) = (&over, &entries);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    seat.says("lock", name, "null");
                    seat.says("unlock", name, "null");
                    entries.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _ends = Flag(&over);
        while entries.load(Ordering::Relaxed) < 100 {
            thread::yield_now();
        }
        let began = Instant::now();
        let waits = (0..ROUNDS).map(|_| {
            let asked = Instant::now();
            lock.says("lock", "null");
            let waited = asked.elapsed();
            lock.says("unlock", "null");
            waited
        });
        (waits.max().expect("some rounds"), began.elapsed())
    });
    let others = entries.into_inner();
    eprintln!(
        "{ROUNDS} entries beside three names that are hot in {side:?}: longest wait {longest:?}, \
         all done after {all:?}; {others} entries of the others"
    );
    assert!(longest < Duration::from_secs(15), "{longest:?}");
    assert_eq!(left(&server, &names), 0);
    sweep_latches(&server);
}

fn seated(side: Side, ground: &Ground) -> Peer {
    let peer = match side {
        Side::Java => java_peer(),
        Side::Rust => rust_peer(),
    };
    seat_clients(&peer, CLIENTS[0], &[ground.server()], WATCHDOG);
    peer
}

fn left(server: &Server, names: &[String]) -> u64 {
    use redis::Commands;
    server.connection().exists(names).expect("EXISTS")
}

/// Set when it goes, also by a panic: others wait for it.
struct Flag<'a>(&'a AtomicBool);

impl Drop for Flag<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

const ROUNDS: usize = 20;
