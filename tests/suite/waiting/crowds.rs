//! Many threads for one name.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use lockson::{Client, ReentrantLock};

use super::{listeners, millis, nothing_left, secs, taken, wait_for_listener, wait_for_waiters};
use crate::support::{Ground, connect};

#[test]
fn the_threads_of_a_client_get_in_by_the_order_in_which_they_came() {
    let ground = Ground::new();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let lock = ours.reentrant_lock(&name);
    // Once behind a thread of the same client, once behind another client.
    for holder in [&ours, &theirs] {
        let guard = holder.reentrant_lock(&name).lock_owned().expect("free");
        let order = AtomicU64::new(0);
        let places: Vec<u64> = thread::scope(|scope| {
            let waiting: Vec<_> = (0..12)
                .map(|number| {
                    let (lock, order) = (&lock, &order);
                    let waiting = scope.spawn(move || {
                        let _guard = lock.lock().expect("woken");
                        order.fetch_add(1, Ordering::Relaxed)
                    });
                    wait_for_waiters(&ours, number + 1);
                    waiting
                })
                .collect();
            guard.unlock().expect("held");
            waiting
                .into_iter()
                .map(|one| one.join().expect("it got in"))
                .collect()
        });
        assert!(places.is_sorted(), "{places:?}");
    }
    nothing_left(&ground, &[&ours, &theirs], &lock);
}

#[test]
fn eight_threads_share_a_hot_name() {
    let ground = Ground::alone();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let over = AtomicBool::new(false);
    let inside = AtomicBool::new(false);
    let calls = server.script_calls();
    let shares: Vec<u64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let mut share = 0;
                    while !over.load(Ordering::Relaxed) {
                        let guard = lock.lock().expect("answered");
                        assert!(!inside.swap(true, Ordering::SeqCst), "two are inside");
                        share += 1;
                        assert!(inside.swap(false, Ordering::SeqCst));
                        guard.unlock().expect("held");
                    }
                    share
                })
            })
            .collect();
        // For how long it is counted.
        thread::sleep(secs(2));
        over.store(true, Ordering::Relaxed);
        threads
            .into_iter()
            .map(|one| one.join().expect("ends well"))
            .collect()
    });
    let calls = server.script_calls() - calls;
    let all: u64 = shares.iter().sum();
    let each = calls as f64 / all as f64;
    println!("{all} acquisitions in 2 s, {each:.3} script calls each, shares {shares:?}");
    assert!(each <= 1.2, "{each} script calls an acquisition");
    for share in &shares {
        assert!(*share >= all / 8 / 2, "{shares:?}");
    }
    nothing_left(&ground, &[&client], &lock);
}

#[test]
fn a_thousand_have_one_subscription_and_all_get_in() {
    let crowd = 1_000;
    let ground = Ground::alone();
    let server = ground.server();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let lock = ours.reentrant_lock(&name);
    let guard = taken(&theirs.reentrant_lock(&name));
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..crowd)
            .map(|_| {
                thread::Builder::new()
                    .stack_size(256 * 1024)
                    .spawn_scoped(scope, || {
                        lock.lock().expect("woken").unlock().expect("held");
                    })
                    .expect("a thread can be started")
            })
            .collect();
        wait_for_waiters(&ours, crowd);
        wait_for_listener(&server, &lock);
        assert_eq!(listeners(&server, &lock), 1);
        let pubsub = server
            .clients()
            .iter()
            .filter(|one| one.channels() > 0)
            .count();
        assert_eq!(pubsub, 1, "one connection listens");
        let calls = server.script_calls();
        let start = Instant::now();
        guard.unlock().expect("held");
        for one in waiting {
            one.join().expect("it got in");
        }
        let calls = server.script_calls() - calls;
        let each = calls as f64 / crowd as f64;
        println!(
            "{crowd} got in within {:?}, {each:.2} script calls each",
            start.elapsed()
        );
        assert!(each <= 2.0, "{each} script calls an unlock");
    });
    nothing_left(&ground, &[&ours, &theirs], &lock);
}

#[test]
fn a_counter_that_is_read_and_written_in_two_steps_is_exact() {
    let rounds = match std::env::var_os("LOCKSON_LONG") {
        Some(_) => 2_000,
        None => 200,
    };
    let ground = Ground::alone();
    let server = ground.server();
    let name = ground.name("L");
    let counter = ground.name("counter");
    let clients = [connect(&ground), connect(&ground)];
    let start = Barrier::new(8);
    let count = |client: &Client| {
        let lock: ReentrantLock = client.reentrant_lock(&name);
        let mut redis = server.connection();
        let mut longest = Duration::ZERO;
        start.wait();
        for _ in 0..rounds {
            let asked = Instant::now();
            let guard = lock.lock().expect("answered");
            longest = longest.max(asked.elapsed());
            let now: Option<u64> = redis::cmd("GET")
                .arg(&counter)
                .query(&mut redis)
                .expect("answered");
            let _: () = redis::cmd("SET")
                .arg(&counter)
                .arg(now.unwrap_or(0) + 1)
                .query(&mut redis)
                .expect("answered");
            guard.unlock().expect("held");
        }
        longest
    };
    let longest = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|number| {
                let (client, count) = (&clients[number % 2], &count);
                scope.spawn(move || count(client))
            })
            .collect();
        threads
            .into_iter()
            .map(|one| one.join().expect("ends well"))
            .max()
    });
    let longest = longest.expect("eight threads");
    println!("{} rounds, the longest wait {longest:?}", 8 * rounds);
    let found: u64 = redis::cmd("GET")
        .arg(&counter)
        .query(&mut server.connection())
        .expect("answered");
    assert_eq!(found, 8 * rounds);
    // A wake that was lost shows as a sleep of three seconds.
    assert!(longest < millis(2_500), "somebody slept for {longest:?}");
    server.cli(&["DEL", &counter]);
    nothing_left(
        &ground,
        &[&clients[0], &clients[1]],
        &clients[0].reentrant_lock(&name),
    );
}
