//! `shutdown`: at once, for everybody, and without a word to Redis.

use std::{
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use lockson::{Client, Ended, Event, LostReason};
use redis::Commands;

use super::{
    BOUND, all_calls_are_closed, exists, is_closed, millis, nobody_connected, owned, secs, taken,
    threads_of,
};
use crate::support::{Ground, Proxy, Told, connect, connect_to, connect_with, eventually};

#[test]
fn everything_is_closed_and_nothing_released() {
    let ground = Ground::new();
    ground.expect_keys_left();
    let server = ground.server();
    let told = Told::default();
    let client = connect_with(&ground, |builder| builder.on_event(told.handler()));
    let lock = client.reentrant_lock(ground.name("L"));
    let (guard, nested) = (taken(&lock), taken(&lock));
    let owned = owned(&client.reentrant_lock(ground.name("M")));
    let (signal, watched) = (guard.lost(), nested.lost());
    let watcher = thread::spawn(move || watched.wait(Duration::MAX));
    eventually(BOUND, "its threads have their names", || {
        threads_of(client.id()).len() == 3
    });
    let before = server.script_calls();

    client.shutdown();
    eventually(BOUND, "its threads are gone", || {
        threads_of(client.id()).is_empty()
    });
    nobody_connected(&server);
    for guard in [&guard, &nested] {
        assert!(!guard.is_held());
        assert!(guard.remaining().is_zero());
        is_closed(guard.verify());
        is_closed(guard.extend(secs(10)));
    }
    assert_eq!(signal.reason(), Some(LostReason::Closed));
    assert_eq!(owned.lost().wait(BOUND), Ended::Lost(LostReason::Closed));
    let ended = watcher.join().expect("it is woken");
    assert_eq!(ended, Ended::Lost(LostReason::Closed));
    all_calls_are_closed(&client, lock.name());
    all_calls_are_closed(&client, &ground.name("other"));
    let state = client.state();
    assert_eq!((state.connections, state.holds, state.renewals), (0, 0, 0));

    is_closed(nested.unlock());
    drop(guard);
    is_closed(owned.unlock());
    assert_eq!(told.lost().len(), 2);
    assert_eq!(told.all().len(), 2, "nothing is told of the drops");
    let mut spy = server.connection();
    let left: u64 = spy.pttl(lock.name()).expect("PTTL");
    assert!((20_000..=30_000).contains(&left), "{left} ms");
    let counts: Vec<u64> = spy.hvals(lock.name()).expect("HVALS");
    assert_eq!(counts, [2], "as it was");
    assert_eq!(server.script_calls(), before);
    assert!(server.clients().iter().all(|one| one.name().is_empty()));
}

#[test]
fn once_more_and_by_many_does_no_harm() {
    let ground = Ground::new();
    ground.expect_keys_left();
    let client = connect_with(&ground, |builder| builder.on_event(|_| {}));
    let guard = owned(&client.reentrant_lock(ground.name("L")));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| client.shutdown());
        }
    });
    eventually(BOUND, "its threads are gone", || {
        threads_of(client.id()).is_empty()
    });
    client.shutdown();
    assert!(!guard.is_held());
    drop(guard);
    client.shutdown();
    nobody_connected(&ground.server());
}

#[test]
fn a_handler_may_shut_down_the_client() {
    let ground = Ground::new();
    ground.expect_keys_left();
    // In a place that the test can empty: a handler that keeps its client keeps it for ever.
    let slot = Arc::new(Mutex::new(None::<Client>));
    let (tell, told) = mpsc::channel();
    let handler = {
        let (slot, tell) = (Arc::clone(&slot), Mutex::new(tell));
        move |event: &Event| {
            let client = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(client) = client else { return };
            assert!(matches!(event, Event::Lost { .. }), "{event:?}");
            let start = Instant::now();
            client.shutdown();
            is_closed(client.reentrant_lock("any").is_locked());
            let tell = tell.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = tell.send(start.elapsed());
        }
    };
    let client = connect_with(&ground, |builder| builder.on_event(handler));
    let kept = taken(&client.reentrant_lock(ground.name("L")));
    *slot.lock().expect("nobody panicked") = Some(client.clone());
    let short = client.reentrant_lock(ground.name("M"));
    let guard = short.try_lock_with_lease(millis(50)).expect("answered");
    let took = told.recv_timeout(BOUND).expect("the handler ends well");
    assert!(took < secs(2), "it waited for itself: {took:?}");
    assert!(!kept.is_held());
    client.shutdown();
    eventually(BOUND, "its threads end", || {
        threads_of(client.id()).is_empty()
    });
    nobody_connected(&ground.server());
    drop(guard);
}

/// Both at the same time must not wait for each other.
#[test]
fn a_handler_and_another_thread_may_shut_down_the_client() {
    let ground = Ground::new();
    ground.expect_keys_left();
    for _ in 0..10 {
        let slot = Arc::new(Mutex::new(None::<Client>));
        let (tell, told) = mpsc::channel();
        let handler = {
            let (slot, tell) = (Arc::clone(&slot), Mutex::new(tell));
            move |_: &Event| {
                let client = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(client) = client {
                    let tell = tell.lock().unwrap_or_else(PoisonError::into_inner);
                    let _ = tell.send(());
                    client.shutdown();
                }
            }
        };
        let client = connect_with(&ground, |builder| builder.on_event(handler));
        *slot.lock().expect("nobody panicked") = Some(client.clone());
        let short = client.reentrant_lock(ground.name("L"));
        let guard = short.try_lock_with_lease(millis(20)).expect("answered");
        told.recv_timeout(BOUND).expect("the handler begins");
        let start = Instant::now();
        client.shutdown();
        drop((guard, short, client));
        // Had they waited for each other, a response timeout would have passed.
        assert!(start.elapsed() < secs(2), "{:?}", start.elapsed());
    }
}

#[test]
fn a_handler_that_blocks_delays_it_by_one_response_timeout() {
    let ground = Ground::alone();
    ground.expect_keys_left();
    let (begun, begins) = mpsc::channel();
    let (end, ends) = mpsc::channel::<()>();
    let channels = Mutex::new((begun, ends));
    let client = connect_with(&ground, |builder| {
        builder.response_timeout(millis(500)).on_event(move |_| {
            let channels = channels.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = channels.0.send(());
            let _ = channels.1.recv();
        })
    });
    let short = client.reentrant_lock(ground.name("L"));
    let guard = short.try_lock_with_lease(millis(20)).expect("answered");
    begins.recv_timeout(BOUND).expect("the handler begins");
    let start = Instant::now();
    client.shutdown();
    assert!(
        start.elapsed() < millis(500) + SLACK,
        "{:?}",
        start.elapsed()
    );
    drop((guard, short, client));
    drop(end);
}

#[test]
fn a_server_that_is_frozen_delays_it_by_one_response_timeout() {
    let ground = Ground::alone();
    ground.expect_keys_left();
    let server = ground.server();
    let client = connect_with(&ground, |builder| {
        builder
            .lock_watchdog_timeout(secs(3))
            .response_timeout(millis(1200))
    });
    let guard = taken(&client.reentrant_lock(ground.name("L")));
    server.freeze();
    // A third of its time is over: a renewal is under way, and not answered.
    eventually(BOUND, "a renewal is due", || {
        guard.remaining() < millis(1900)
    });
    let start = Instant::now();
    client.shutdown();
    let took = start.elapsed();
    assert!(took < millis(1200) + SLACK, "{took:?}");
    assert_eq!(guard.lost().reason(), Some(LostReason::Closed));
    eventually(BOUND, "its threads end", || {
        threads_of(client.id()).is_empty()
    });
    let start = Instant::now();
    drop((guard, client));
    assert!(start.elapsed() < SLACK, "a drop asks nobody");
    server.thaw();
}

#[test]
fn a_black_hole_delays_it_by_one_response_timeout() {
    let ground = Ground::alone();
    ground.expect_keys_left();
    let server = ground.server();
    let proxy = Proxy::to(server.addr());
    let client = connect_to(&ground, &proxy.url(), |builder| {
        builder
            .lock_watchdog_timeout(secs(3))
            .response_timeout(millis(1200))
            .on_event(|_| {})
    });
    let guard = taken(&client.reentrant_lock(ground.name("L")));
    let lost = proxy.lost();
    proxy.black_hole(true);
    eventually(BOUND, "a renewal is under way", || proxy.lost() > lost);
    let start = Instant::now();
    client.shutdown();
    let took = start.elapsed();
    assert!(took < millis(1200) + SLACK, "{took:?}");
    assert!(!guard.is_held());
    eventually(BOUND, "its threads end", || {
        threads_of(client.id()).is_empty()
    });
    drop((guard, client));
    eventually(BOUND, "its connections are closed", || proxy.open() == 0);
}

/// A connection that was being made when the client ended is not kept.
#[test]
fn a_connection_made_too_late_is_closed() {
    let ground = Ground::new();
    let server = ground.server();
    let proxy = Proxy::to(server.addr());
    let client = connect_to(&ground, &proxy.url(), |builder| {
        builder
            .connect_timeout(secs(10))
            .response_timeout(millis(200))
    });
    proxy.hold(crate::support::command("CLIENT"), 1);
    let tried = client.reentrant_lock(ground.name("L")).try_lock();
    assert!(tried.is_err(), "{tried:?}");
    assert_eq!(proxy.held(), 1);
    client.shutdown();
    assert_eq!(proxy.release_held(), 1);
    nobody_connected(&server);
    all_calls_are_closed(&client, "any");
}

/// Redis may have heard of an extension that was not answered. That is no reason to release.
#[test]
fn a_hold_in_doubt_is_not_released_either() {
    let ground = Ground::new();
    ground.expect_keys_left();
    let server = ground.server();
    let proxy = Proxy::to(server.addr());
    let client = connect_to(&ground, &proxy.url(), |builder| {
        builder.response_timeout(millis(400))
    });
    let guard = taken(&client.reentrant_lock(ground.name("L")));
    proxy.swallow_replies(crate::support::script(guard.name()), 2);
    guard.extend(secs(60)).expect_err("not answered");
    assert_eq!(proxy.swallowed(), 2);
    client.shutdown();
    assert!(exists(&server, guard.name()));
}

/// Who waits for a connection at that moment is told, and opens no others.
#[test]
fn a_call_under_way_is_closed() {
    let ground = Ground::alone();
    let proxy = Proxy::to(ground.server().addr());
    let client = connect_to(&ground, &proxy.url(), |builder| {
        builder.connect_timeout(secs(10)).response_timeout(secs(2))
    });
    proxy.hold(crate::support::command("CLIENT"), 1);
    let before = proxy.accepted();
    let name = ground.name("L");
    thread::scope(|scope| {
        let call = scope.spawn(|| is_closed(client.reentrant_lock(&name).try_lock()));
        eventually(BOUND, "a connection is being made", || proxy.held() == 1);
        client.shutdown();
        assert_eq!(proxy.release_held(), 1);
        call.join().expect("it is closed");
    });
    assert!(
        proxy.accepted() <= before + 2,
        "{}",
        proxy.accepted() - before
    );
}

/// `RedissonLockTest.testAutoExpire`
#[test]
fn test_auto_expire() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect_with(&ground, |builder| builder.lock_watchdog_timeout(secs(1)));
    let lock = client.reentrant_lock(ground.name("L"));
    let guard = taken(&lock);
    client.shutdown();
    let other = connect(&ground).reentrant_lock(lock.name());
    assert!(other.is_locked().expect("answered"));
    let start = Instant::now();
    eventually(BOUND, "it runs out", || !exists(&server, lock.name()));
    assert!(start.elapsed() < secs(1) + SLACK, "{:?}", start.elapsed());
    taken(&other).unlock().expect("held");
    drop(guard);
}

const SLACK: Duration = millis(700);
