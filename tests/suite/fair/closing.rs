//! A client that is shut down while its threads stand in the queue: none of them stays there.

use std::{thread, time::Duration};

use lockson::{Client, ErrorKind, FairLock};

use super::{
    SOON, faults::Scene, millis, nobody_waits, queue, secs, timed, wait_for_ears, wait_for_queue,
    waiter,
};
use crate::support::{Ground, connect, eventually, proxy::ALWAYS, script};

/// Those who wait leave the queue, so that who is behind them need not wait for their time.
#[test]
fn a_client_that_is_shut_down_leaves_the_queue() {
    let ground = Ground::new();
    let server = ground.server();
    let (one, two) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let (lock, other) = (one.fair_lock(&name), two.fair_lock(&name));
    let guard = other.lock().expect("free");
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..20)
            .map(|_| scope.spawn(|| lock.lock().map(drop).map_err(|error| error.kind())))
            .collect();
        wait_for_queue(&server, &other, 20);
        let behind = waiter(scope, &other, drop);
        wait_for_queue(&server, &other, 21);
        one.shutdown();
        for one in waiting {
            assert_eq!(one.join().expect("returns"), Err(ErrorKind::Closed));
        }
        assert_eq!(queue(&server, &other).len(), 1, "they have left");
        guard.unlock().expect("held");
        behind.join().expect("entered");
    });
    nobody_waits(&server, &[&two], &other);
}

/// Redis has not heard of it yet when the client is shut down.
#[test]
fn who_is_on_its_way_into_the_queue_leaves_it_too() {
    let ground = Ground::new();
    let scene = Scene::patient(&ground, PATIENT);
    let (near, far) = scene.locks();
    let guard = near.lock().expect("free");
    thread::scope(|scope| {
        scene.proxy.hold(script(&scene.name), 1);
        let waiting = scope.spawn(|| far.lock().map(drop).map_err(|error| error.kind()));
        eventually(SOON, "it is on its way", || scene.proxy.held() == 1);
        let closing = shut_down(scope, &scene.far, &far);
        assert_eq!(scene.proxy.release_held(), 1);
        closing.join().expect("ends");
        assert_eq!(waiting.join().expect("returns"), Err(ErrorKind::Closed));
    });
    assert_eq!(queue(&scene.server, &near), [""; 0]);
    guard.unlock().expect("held");
    nobody_waits(&scene.server, &[&scene.near], &near);
}

/// Those who are named in it leave the rest to who sent it: that one is waited for as well.
#[test]
fn who_is_named_in_a_hand_over_leaves_the_queue_too() {
    let ground = Ground::new();
    let scene = Scene::patient(&ground, PATIENT);
    let (near, far) = scene.locks();
    thread::scope(|scope| {
        let guard = far.lock_owned().expect("free");
        let waiting: Vec<_> = (1..4)
            .map(|number| {
                let far = &far;
                let one = scope.spawn(move || far.lock().map(drop).map_err(|error| error.kind()));
                wait_for_queue(&scene.server, &near, number);
                one
            })
            .collect();
        wait_for_ears(&scene.server, &near);
        // Who asks just then is not named.
        eventually(SOON, "they sleep", || {
            let before = scene.server.script_calls();
            thread::sleep(millis(150));
            scene.server.script_calls() == before
        });
        let names = queue(&scene.server, &near);
        let named: Vec<_> = names.iter().map(script).collect();
        scene
            .proxy
            .hold(move |request| named.iter().all(|names| names(request)), 1);
        let releasing = scope.spawn(|| guard.unlock());
        eventually(SOON, "it is on its way", || scene.proxy.held() == 1);
        let closing = shut_down(scope, &scene.far, &far);
        assert_eq!(scene.proxy.release_held(), 1);
        closing.join().expect("ends");
        releasing.join().expect("returns").expect("held");
        for one in waiting {
            assert_eq!(one.join().expect("returns"), Err(ErrorKind::Closed));
        }
    });
    assert_eq!(queue(&scene.server, &near), [""; 0]);
    // What was handed over is a hold of a closed client, and ends by its lease.
    assert!(near.force_unlock().expect("answered"));
    nobody_waits(&scene.server, &[&scene.near], &near);
}

/// They do not know whether they have a place: the watchdog puts that right before it ends.
#[test]
fn who_is_in_doubt_leaves_the_queue_too() {
    let ground = Ground::new();
    let scene = Scene::patient(&ground, PATIENT);
    let (near, far) = scene.locks();
    let guard = near.lock().expect("free");
    thread::scope(|scope| {
        // Only who acquires says for how long.
        scene.proxy.cut_after(script("30000"), ALWAYS);
        let waiting: Vec<_> = (0..20)
            .map(|_| scope.spawn(|| far.lock().map(drop).map_err(|error| error.kind())))
            .collect();
        wait_for_queue(&scene.server, &near, 20);
        eventually(SOON, "all have lost a reply", || {
            scene.far.state().waiters == 20
        });
        assert!(scene.proxy.cuts() >= 20);
        scene.far.shutdown();
        for one in waiting {
            assert_eq!(one.join().expect("returns"), Err(ErrorKind::Closed));
        }
    });
    assert_eq!(queue(&scene.server, &near), [""; 0]);
    guard.unlock().expect("held");
    nobody_waits(&scene.server, &[&scene.near], &near);
}

/// The answer that it waits for at that moment never comes.
#[test]
fn who_waits_in_vain_for_its_place_leaves_the_queue_too() {
    let ground = Ground::alone();
    let timeout = millis(1000);
    let scene = Scene::patient(&ground, timeout);
    let (near, far) = scene.locks();
    let guard = near.lock().expect("free");
    thread::scope(|scope| {
        scene.proxy.swallow_replies(script(&scene.name), 1);
        let waiting = scope.spawn(|| far.lock().map(drop).map_err(|error| error.kind()));
        wait_for_queue(&scene.server, &near, 1);
        thread::sleep(timeout / 2);
        let ((), took) = timed(|| scene.far.shutdown());
        println!("shut down after {took:?}");
        assert!(took < timeout + SLACK, "{took:?}");
        assert_eq!(waiting.join().expect("returns"), Err(ErrorKind::Closed));
    });
    assert_eq!(scene.proxy.swallowed(), 1);
    assert_eq!(queue(&scene.server, &near), [""; 0]);
    guard.unlock().expect("held");
    nobody_waits(&scene.server, &[&scene.near], &near);
}

/// Nobody answers at all, whoever is asked.
#[test]
fn a_server_that_is_frozen_delays_it_by_one_response_timeout() {
    let ground = Ground::alone();
    ground.expect_keys_left();
    let timeout = millis(1000);
    let scene = Scene::patient(&ground, timeout);
    let (near, far) = scene.locks();
    let guard = near.lock().expect("free");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| far.lock().map(drop).map_err(|error| error.kind()));
        wait_for_queue(&scene.server, &near, 1);
        wait_for_ears(&scene.server, &near);
        scene.server.freeze();
        let ((), took) = timed(|| scene.far.shutdown());
        println!("shut down after {took:?}");
        assert!(took < timeout + SLACK, "{took:?}");
        assert_eq!(waiting.join().expect("returns"), Err(ErrorKind::Closed));
        scene.server.thaw();
    });
    guard.unlock().expect("held");
}

/// Returns as soon as it has begun.
fn shut_down<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    client: &'scope Client,
    lock: &FairLock,
) -> thread::ScopedJoinHandle<'scope, ()> {
    let closing = scope.spawn(|| client.shutdown());
    eventually(SOON, "it is closed", || {
        let asked = lock.is_locked().map_err(|error| error.kind());
        asked == Err(ErrorKind::Closed)
    });
    closing
}

const PATIENT: Duration = secs(8);

const SLACK: Duration = millis(700);
