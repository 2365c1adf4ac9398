//! What else the client has to do costs no renewal.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use lockson::Event;

use super::{BOUND, is_renewed, lowest_ttl, millis, secs, taken};
use crate::support::{Ground, Proxy, connect_to, connect_with, eventually, script};

#[test]
fn a_saturated_pool_costs_no_renewal() {
    let ground = Ground::new();
    let server = ground.server();
    let proxy = Proxy::to(server.addr());
    let client = connect_to(&ground, &proxy.url(), |builder| {
        builder
            .lock_watchdog_timeout(millis(600))
            .response_timeout(secs(10))
            .pool_size(1)
    });
    let guard = taken(&client.reentrant_lock(ground.name("L")));
    let slow = client.reentrant_lock(ground.name("slow"));
    proxy.hold(script(slow.name()), 1);
    thread::scope(|scope| {
        let first = scope.spawn(|| drop(taken(&slow)));
        eventually(BOUND, "the only connection is busy", || proxy.held() == 1);
        let second = scope.spawn(|| client.reentrant_lock(guard.name()).is_locked());
        lowest_ttl(&server, &guard, secs(2));
        assert!(!first.is_finished());
        assert!(!second.is_finished(), "it waits for the connection");
        assert_eq!(proxy.release_held(), 1);
        first.join().expect("it is answered");
        assert!(second.join().expect("it is answered").expect("answered"));
    });
    guard.unlock().expect("held");
}

#[test]
fn a_slow_event_handler_costs_no_renewal() {
    let ground = Ground::new();
    let server = ground.server();
    let (begun, begins) = mpsc::channel();
    let (end, ends) = mpsc::channel::<()>();
    let channels = Mutex::new((begun, ends));
    let client = connect_with(&ground, |builder| {
        builder
            .lock_watchdog_timeout(millis(600))
            .on_event(move |event| {
                assert!(matches!(event, Event::Lost { .. }), "{event:?}");
                let channels = channels.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = channels.0.send(());
                let _ = channels.1.recv_timeout(BOUND);
            })
    });
    let guard = taken(&client.reentrant_lock(ground.name("L")));
    let gone = taken(&client.reentrant_lock(ground.name("gone")));
    server.cli(&["DEL", gone.name()]);
    begins.recv_timeout(BOUND).expect("the handler is called");
    // One of a hold that is lost while the handler blocks is told too, only not by the handler.
    let also_gone = taken(&client.reentrant_lock(ground.name("gone")));
    server.cli(&["DEL", also_gone.name()]);
    lowest_ttl(&server, &guard, millis(2500));
    assert!(also_gone.lost().is_lost());
    assert!(begins.try_recv().is_err(), "it blocks all the time");
    guard.unlock().expect("held");
    drop(end);
    begins.recv_timeout(BOUND).expect("the second event");
    let _ = (gone.unlock(), also_gone.unlock());
}

/// It is the program's own function, and runs on the watchdog's thread too.
#[test]
fn a_password_provider_that_panics_costs_no_hold() {
    let ground = Ground::new();
    let server = ground.server_with(|options| options.password("secret"));
    let panics = Arc::new(AtomicBool::new(false));
    let asked = Arc::new(AtomicUsize::new(0));
    let provider = {
        let (panics, asked) = (Arc::clone(&panics), Arc::clone(&asked));
        move || {
            asked.fetch_add(1, Ordering::SeqCst);
            if panics.load(Ordering::SeqCst) {
                // Without the noise of a panic that is not expected.
                std::panic::resume_unwind(Box::new("on purpose"));
            }
            Ok("secret".to_owned())
        }
    };
    let client = connect_to(&ground, &server.url(), |builder| {
        builder
            .lock_watchdog_timeout(secs(3))
            .password_provider(provider)
    });
    let guard = taken(&client.reentrant_lock(ground.name("L")));
    is_renewed(&guard);
    panics.store(true, Ordering::SeqCst);
    let before = asked.load(Ordering::SeqCst);
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    eventually(BOUND, "the watchdog connects again", || {
        asked.load(Ordering::SeqCst) > before
    });
    let error = client.reentrant_lock(guard.name()).is_locked();
    let kind = error.expect_err("no connection").kind();
    assert_eq!(kind, lockson::ErrorKind::NoPermission);
    panics.store(false, Ordering::SeqCst);
    is_renewed(&guard);
    guard.unlock().expect("held");
}
