//! Waits that are honoured, whoever else is there.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use lockson::{Client, ErrorKind};
use redis::Commands;

use super::{SOON, of, plain};
use crate::support::{Ground, Proxy, connect, connect_to, eventually, within};

#[test]
fn a_stopped_server_does_not_outlast_the_wait() {
    const WAIT: Duration = Duration::from_millis(300);
    let ground = Ground::alone();
    let server = ground.server();
    let client = connect(&ground);
    let names = ["A", "B"].map(|name| ground.name(name));
    let lock = plain(&client, &names);
    lock.lock().expect("free").unlock().expect("held");
    server.freeze();
    let asked = Instant::now();
    let error = lock.try_lock_for(WAIT).expect_err("nobody answered");
    let waited = asked.elapsed();
    server.thaw();
    println!("the server is stopped: {waited:?} of {WAIT:?}");
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!((WAIT..WAIT + SLACK).contains(&waited), "{waited:?}");
}

#[test]
fn a_healthy_member_is_not_kept_while_another_hangs() {
    const WAIT: Duration = Duration::from_secs(4);
    let ground = Ground::alone();
    let servers = [(); 2].map(|()| ground.server_with(|plain| plain));
    let clients = servers
        .each_ref()
        .map(|server| connect_to(&ground, &server.url(), |plain| plain));
    let name = ground.name("A");
    let lock = of(clients.iter().map(|one| one.reentrant_lock(&name).into()));
    lock.lock().expect("free").unlock().expect("held");
    let other = connect_to(&ground, &servers[0].url(), |plain| plain);
    servers[1].freeze();
    thread::scope(|scope| {
        let asked = Instant::now();
        let waiter = scope.spawn(|| lock.try_lock_for(WAIT).map(|guard| guard.is_some()));
        let mut redis = servers[0].connection();
        eventually(SOON, "it has the first", || {
            redis.exists::<_, bool>(&name).expect("EXISTS")
        });
        let had = Instant::now();
        let guard = other.reentrant_lock(&name).try_lock_for(SOON);
        let kept = had.elapsed();
        println!("the other server is stopped: the first was kept for {kept:?}");
        drop(guard.expect("answered").expect("it is given back"));
        assert!(kept < SLACK, "{kept:?}");
        let error = waiter
            .join()
            .expect("ends well")
            .expect_err("one is silent");
        let waited = asked.elapsed();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert!((WAIT..WAIT + SLACK).contains(&waited), "{waited:?}");
    });
    servers[1].thaw();
}

/// A guard goes: what it holds on the servers that live is free at once.
#[test]
fn a_server_that_hangs_does_not_keep_what_is_held_on_the_others() {
    let ground = Ground::alone();
    let servers = [(); 3].map(|()| ground.server_with(|plain| plain));
    let clients = servers
        .each_ref()
        .map(|server| connect_to(&ground, &server.url(), |plain| plain));
    let name = ground.name("A");
    let lock = of(clients.iter().map(|one| one.reentrant_lock(&name).into()));
    let guard = lock.lock_owned().expect("free");
    let other = connect_to(&ground, &servers[2].url(), |plain| plain);
    for hangs in &servers[..2] {
        hangs.freeze();
    }
    thread::scope(|scope| {
        let dropped = scope.spawn(|| {
            let asked = Instant::now();
            drop(guard);
            asked.elapsed()
        });
        let asked = Instant::now();
        let taken = other.reentrant_lock(&name).try_lock_for(SOON);
        let kept = asked.elapsed();
        let took = dropped.join().expect("ends well");
        println!(
            "two of three servers stopped: the third was free after {kept:?}, all after {took:?}"
        );
        drop(taken.expect("answered").expect("released"));
        assert!(kept < SLACK, "{kept:?}");
        // The budget of one release, not of two: two attempts of three seconds.
        assert!(took < Duration::from_secs(6) + SLACK, "{took:?}");
    });
    for hangs in &servers[..2] {
        hangs.thaw();
    }
    for server in &servers {
        eventually(SOON, "the watchdog releases the rest", || {
            !server
                .connection()
                .exists::<_, bool>(&name)
                .expect("EXISTS")
        });
    }
}

/// None of them is had within the time that others may be kept waiting at first.
#[test]
fn several_slow_servers_are_waited_for() {
    const SLOW: Duration = Duration::from_millis(300);
    let ground = Ground::alone();
    let proxies = [(); 2].map(|()| Proxy::to(ground.server_with(|plain| plain).addr()));
    let name = ground.name("A");
    let members = proxies.each_ref().map(|proxy| {
        let client = connect_to(&ground, &proxy.url(), |plain| plain);
        client.reentrant_lock(&name).into()
    });
    let lock = of(members);
    lock.lock().expect("free").unlock().expect("held");
    for proxy in &proxies {
        proxy.delay(SLOW);
    }
    let asked = Instant::now();
    let guard = lock.try_lock_for(2 * SOON).expect("both answer");
    println!("two servers that need {SLOW:?} each: {:?}", asked.elapsed());
    guard.expect("free").unlock().expect("held");
    assert!(proxies.iter().all(|proxy| proxy.delayed() > 0));
}

#[test]
fn crowded_names_of_one_client_are_reached() {
    let ground = Ground::alone();
    let client = connect(&ground);
    let names = ["A", "B", "C"].map(|name| ground.name(name));
    let lock = plain(&client, &names);
    let stop = AtomicBool::new(false);
    // Whatever goes wrong is looked at when the threads have been told to stop.
    let (crowded, waits) = thread::scope(|scope| {
        for name in names.iter().cycle().take(12) {
            scope.spawn(|| keep_busy(&client, name, &stop));
        }
        let crowded = within(SOON, || client.state().waiters > 8);
        let waits = [(); 3].map(|()| {
            let asked = Instant::now();
            let taken = lock.try_lock_for(2 * SOON);
            taken.map(|taken| taken.map(|_| asked.elapsed()))
        });
        stop.store(true, Ordering::Relaxed);
        (crowded, waits)
    });
    println!("three names, four threads want each: {waits:?}");
    crowded.expect("three wait for each");
    for wait in waits {
        let wait = wait.expect("answered").expect("its turn comes");
        assert!(wait < SOON, "{wait:?}");
    }
}

#[test]
fn who_waits_for_one_is_not_passed_by_those_who_want_several() {
    const ENTRIES: usize = 20;
    let ground = Ground::alone();
    let client = connect(&ground);
    let names = ["A", "B"].map(|name| ground.name(name));
    let lock = plain(&client, &names);
    let one = client.reentrant_lock(&names[0]);
    let stop = AtomicBool::new(false);
    let entries = AtomicUsize::new(0);
    let passed = thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let guard = lock.lock().expect("its turn comes");
                entries.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(30));
                guard.unlock().expect("held");
            }
        });
        let mut before = 0;
        let passed = [(); ENTRIES].map(|()| {
            // Both are taken again when it asks.
            within(SOON, || entries.load(Ordering::Relaxed) > before)?;
            before = entries.load(Ordering::Relaxed);
            let taken = one.try_lock_for(SOON).ok()?;
            taken.map(|_| entries.load(Ordering::Relaxed) - before)
        });
        stop.store(true, Ordering::Relaxed);
        passed
    });
    println!("so often were both taken while one was waited for: {passed:?}");
    let passed = passed.map(|one| one.expect("its turn comes"));
    // Now and then one is on its way when the waiter comes.
    assert!(passed.iter().sum::<usize>() < ENTRIES / 2);
}

fn keep_busy(client: &Client, name: &str, stop: &AtomicBool) {
    let lock = client.reentrant_lock(name);
    while !stop.load(Ordering::Relaxed) {
        let guard = lock.lock().expect("its turn comes");
        thread::sleep(Duration::from_millis(15));
        guard.unlock().expect("held");
    }
}

/// For time that a busy machine may add.
const SLACK: Duration = Duration::from_millis(1200);
