//! When the notifier connects and goes, and how much one connection carries.

use std::{
    env,
    time::{Duration, Instant},
};

use super::{
    BOUND, LATE, PATIENCE, Waiter, channel, channels, client, listeners, pair, subscribers, taken,
};
use crate::support::{Ground, eventually};

#[test]
fn comes_with_the_first_waiter_and_goes_after_the_last() {
    let ground = Ground::new();
    let server = ground.server();
    let (waiting, holding) = pair(&ground);
    for _ in 0..2 {
        assert_eq!(subscribers(&server), 0);
        let name = &ground.name("L");
        let guard = taken(&holding.reentrant_lock(name));
        let lock = waiting.reentrant_lock(name);
        assert!(lock.try_lock().expect("an answer").is_none());
        assert_eq!(subscribers(&server), 0, "who does not wait does not listen");
        let first = Waiter::listening(&server, &lock, name);
        let second = Waiter::start(&lock, PATIENCE);
        eventually(BOUND, "both wait", || {
            lock.inspect().is_ok_and(|seen| seen.waiters == 2)
        });
        assert_eq!((listeners(&server, name), subscribers(&server)), (1, 1));
        guard.unlock().expect("held");
        let _ = (first.entered(), second.entered());
        eventually(Duration::from_secs(3), "the channel is left", || {
            listeners(&server, name) == 0
        });
        eventually(Duration::from_secs(6), "the connection is closed", || {
            subscribers(&server) == 0 && channels(&server).is_empty()
        });
    }
    assert_eq!(waiting.state().reconnects, 0, "that was no failure");
}

#[test]
fn who_gives_up_leaves_no_subscription() {
    let ground = Ground::new();
    let server = ground.server();
    let (waiting, holding) = pair(&ground);
    let name = &ground.name("L");
    let _guard = taken(&holding.reentrant_lock(name));
    for wait in [1, 5, 20, 200] {
        let lock = waiting.reentrant_lock(name);
        let (got, _) = Waiter::start(&lock, Duration::from_millis(wait)).end();
        assert!(!got.expect("an answer"), "it is held");
    }
    eventually(Duration::from_secs(6), "nothing is listened to", || {
        channels(&server).is_empty() && subscribers(&server) == 0
    });
    assert_eq!(waiting.state().waiters, 0);
}

#[test]
fn one_connection_carries_many_channels() {
    let ground = Ground::alone();
    let server = ground.server();
    let names: usize = match env::var_os("LOCKSON_LONG") {
        Some(_) => 10_000,
        None => 500,
    };
    let base = &ground.name("L");
    let waiting = client(&ground, &server.url());
    let mut redis = server.connection();
    let mut held = redis::pipe();
    for number in 0..names {
        let key = format!("{base}-{number}");
        held.cmd("HSET").arg(&key).arg("somebody:1").arg(1).ignore();
        held.cmd("PEXPIRE").arg(&key).arg(600_000).ignore();
    }
    held.query::<()>(&mut redis).expect("HSET");
    let began = Instant::now();
    let waiters: Vec<_> = (0..names)
        .map(|number| {
            let lock = waiting.reentrant_lock(format!("{base}-{number}"));
            std::thread::Builder::new()
                .stack_size(128 * 1024)
                .spawn(move || {
                    let guard = lock.try_lock_for(Duration::from_secs(120));
                    guard.map(|guard| guard.is_some())
                })
                .expect("a thread can be started")
        })
        .collect();
    eventually(Duration::from_secs(60), "all listen", || {
        server
            .clients()
            .iter()
            .any(|one| one.channels() >= names as u64)
    });
    println!("{names} channels after {:?}", began.elapsed());
    assert_eq!(subscribers(&server), 1);
    let released = Instant::now();
    let mut free = redis::pipe();
    for number in 0..names {
        let key = format!("{base}-{number}");
        free.cmd("DEL").arg(&key).ignore();
        free.cmd("PUBLISH").arg(channel(&key)).arg("0").ignore();
    }
    free.query::<()>(&mut redis).expect("DEL");
    for waiter in waiters {
        assert!(waiter.join().expect("no panic").expect("an answer"));
    }
    println!("{names} waiters in after {:?}", released.elapsed());
    assert_eq!(waiting.state().reconnects, 0);
    eventually(BOUND, "all channels are left", || {
        channels(&server).len() <= 1
    });
}

#[test]
fn waits_over_resp3() {
    let ground = Ground::alone();
    let server = ground.server();
    let url = format!("{}?protocol=resp3", server.url());
    let (waiting, holding) = (client(&ground, &url), client(&ground, &server.url()));
    for _ in 0..3 {
        let name = &ground.name("L");
        let guard = taken(&holding.reentrant_lock(name));
        let waiter = Waiter::listening(&server, &waiting.reentrant_lock(name), name);
        guard.unlock().expect("held");
        let released = Instant::now();
        let late = waiter.entered().saturating_duration_since(released);
        assert!(late < LATE, "{late:?}");
    }
    assert_eq!(waiting.state().reconnects, 0);
}
