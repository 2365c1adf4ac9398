//! The pool: who gets a connection, how many there are, and that releases come first.

use std::{
    env,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use lockson::{Client, ErrorKind};

use super::{BOUND, LONG, SLACK, connections_of, exists, patience, timed, use_lock};
use crate::support::{
    Ground, Proxy, eventually,
    proxy::{ALWAYS, script},
    watched, within,
};

#[test]
fn connections_that_nobody_uses_rest_for_a_minute() {
    let ground = Ground::new();
    let server = ground.server();
    // It looks after them as often as after its holds.
    let often = Duration::from_millis(300);
    let builder = Client::builder().lock_watchdog_timeout(often);
    let client = watched(&ground, builder.connect(&server.url()));
    let open = eventually(BOUND, "several connections are open", || {
        thread::scope(|scope| {
            for number in 0..8 {
                let lock = client.reentrant_lock(ground.name(&format!("L{number}")));
                scope.spawn(move || drop(lock.try_lock().expect("an answer").expect("free")));
            }
        });
        Some(client.state().connections).filter(|open| *open >= 3)
    });
    let long = env::var_os("LOCKSON_LONG").is_some();
    let kept = Duration::from_secs(if long { 55 } else { 1 });
    let closed = within(kept, || client.state().connections < open);
    assert!(closed.is_none(), "closed before the minute was over");
    if long {
        eventually(BOUND, "all are closed", || client.state().connections == 0);
    }
}

#[test]
fn releases_do_not_wait_for_acquirers() {
    let ground = Ground::alone();
    let server = ground.server();
    let client = watched(
        &ground,
        Client::builder().pool_size(2).connect(&server.url()),
    );
    let shared = ground.name("shared");
    let releases = Mutex::new(Vec::new());
    let done = AtomicBool::new(false);
    let (mut round_trips, mut most) = (Vec::new(), 0);
    thread::scope(|scope| {
        for number in 0..20 {
            let own = client.reentrant_lock(ground.name(&format!("own-{number}")));
            let shared = client.reentrant_lock(&shared);
            let (releases, done) = (&releases, &done);
            scope.spawn(move || {
                let mut times = Vec::new();
                while !done.load(Ordering::Relaxed) {
                    for lock in [&own, &shared] {
                        if let Some(guard) = lock.try_lock().expect("an answer") {
                            let (released, took) = timed(|| guard.unlock());
                            released.expect("released");
                            times.push(took);
                        }
                    }
                }
                let mut all = releases.lock().unwrap_or_else(PoisonError::into_inner);
                all.append(&mut times);
            });
        }
        let mut redis = server.connection();
        let end = Instant::now() + Duration::from_secs(2);
        while Instant::now() < end {
            let (pong, took) = timed(|| redis::cmd("PING").query::<String>(&mut redis));
            pong.expect("PING");
            round_trips.push(took);
            most = most.max(connections_of(&server, &client).len());
            thread::sleep(Duration::from_millis(10));
        }
        done.store(true, Ordering::Relaxed);
    });
    let mut releases = releases
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    releases.sort_unstable();
    round_trips.sort_unstable();
    let (count, round_trip) = (releases.len(), round_trips[round_trips.len() / 2]);
    let (median, longest) = (releases[count / 2], releases[count - 1]);
    println!(
        "{count} releases: median {median:?}, longest {longest:?}; round trip {round_trip:?}; \
         {most} connections"
    );
    assert!(count > 100, "only {count} releases");
    assert!(
        longest < round_trip * 50 + Duration::from_millis(250),
        "a release took {longest:?}, a round trip {round_trip:?}"
    );
    assert!(most >= 2, "{most} connections were seen");
    assert!(most <= 2 + 2 + 1, "{most} connections of a pool of 2");
    assert!(client.state().connections <= 4);
}

#[test]
fn a_release_gets_through_when_all_acquirers_are_stuck() {
    let ground = Ground::new();
    let server = ground.server();
    let proxy = Proxy::to(server.addr());
    let builder = patience(LONG, LONG).pool_size(1);
    let client = watched(&ground, builder.connect(&proxy.url()));
    let [held, stuck, queued] = ["held", "stuck", "queued"].map(|name| ground.name(name));
    let lock = client.reentrant_lock(&held);
    let guards: Vec<_> = (0..3)
        .map(|_| lock.try_lock().expect("an answer").expect("free"))
        .collect();

    proxy.hold(script(&stuck), 1);
    thread::scope(|scope| {
        let first = scope.spawn(|| use_lock(&client, &stuck));
        eventually(BOUND, "the acquirer is stuck", || proxy.held() == 1);
        let second = scope.spawn(|| use_lock(&client, &queued));
        for guard in guards {
            guard.unlock().expect("released");
        }
        assert!(!first.is_finished() && !second.is_finished());
        assert!(!exists(&server, &held) && !exists(&server, &queued));
        assert_eq!(proxy.release_held(), 1);
    });
}

#[test]
fn waiting_for_a_connection_counts_against_the_budget() {
    let ground = Ground::alone();
    let server = ground.server();
    let proxy = Proxy::to(server.addr());
    let limit = Duration::from_millis(400);
    let builder = patience(LONG, limit).pool_size(1);
    let client = watched(&ground, builder.connect(&proxy.url()));
    let [stuck, late] = ["stuck", "late"].map(|name| ground.name(name));
    use_lock(&client, &late);
    let monitor = server.monitor();

    proxy.hold(script(&stuck), ALWAYS);
    // Whoever gets a place at the last moment cannot open a connection any more.
    proxy.delay(limit / 2);
    thread::scope(|scope| {
        // Each keeps the only place for one timeout, then stands in line again.
        for number in 1..=4 {
            let (client, stuck) = (&client, &stuck);
            scope.spawn(move || {
                let (tried, took) = timed(|| client.reentrant_lock(stuck).try_lock());
                let error = tried.expect_err("it is stuck");
                assert_eq!(error.kind(), ErrorKind::Timeout, "{number}: {error}");
                assert!(took < limit * 2 + SLACK, "{number}: {took:?}");
            });
        }
        eventually(BOUND, "the pool is stuck", || proxy.held() == 1);
        thread::sleep(Duration::from_millis(50));
        let (tried, took) = timed(|| client.reentrant_lock(&late).try_lock());
        let error = tried.expect_err("there is no connection");
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert!(took >= limit && took < limit * 2 + SLACK, "{took:?}");
    });
    let told = monitor.take_commands();
    assert!(!told.iter().any(|line| line.contains(&late)), "{told:?}");
    proxy.delay(Duration::ZERO);
    proxy.clear();
    proxy.release_held();
    use_lock(&client, &late);
    eventually(BOUND, "nothing stays behind", || !exists(&server, &stuck));
}

#[test]
fn connections_are_opened_when_needed() {
    let ground = Ground::new();
    let server = ground.server();
    let client = watched(&ground, Client::connect(&server.url()));
    eventually(BOUND, "the connection of the check closes", || {
        connections_of(&server, &client).is_empty()
    });
    assert_eq!(client.state().connections, 0);
    for _ in 0..20 {
        use_lock(&client, &ground.name("L"));
    }
    assert_eq!(connections_of(&server, &client).len(), 1);
    assert_eq!(client.state().connections, 1);
}

#[test]
fn a_failed_connection_is_not_used_again() {
    let ground = Ground::new();
    let server = ground.server();
    let proxy = Proxy::to(server.addr());
    let builder = patience(LONG, Duration::from_millis(300)).pool_size(1);
    let client = watched(&ground, builder.connect(&proxy.url()));
    let name = ground.name("L");
    use_lock(&client, &name);
    let old = connections_of(&server, &client);
    assert_eq!(old.len(), 1);

    // The reply comes too late, when its reader is gone; a connection used again would take it for
    // the next one's.
    proxy.delay(Duration::from_millis(1000));
    let lock = client.reentrant_lock(&name);
    let error = lock.is_locked().expect_err("no reply in time");
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    proxy.delay(Duration::ZERO);
    use_lock(&client, &name);
    eventually(BOUND, "the failed connection closes", || {
        let now = connections_of(&server, &client);
        now.iter().all(|one| one.id() != old[0].id())
    });
    use_lock(&client, &name);
}
