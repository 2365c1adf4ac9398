//! Events: on a thread of their own, whatever the handler does.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use lockson::{Client, ErrorKind, Event, LockGuard, LostReason};

use super::{BOUND, fails, leased, listening, millis, secs, taken};
use crate::{
    support::{Ground, Proxy, Told, connect_to, connect_with, eventually},
    watchdog::is_renewed,
};

#[test]
fn nothing_is_told_of_what_goes_well() {
    let ground = Ground::new();
    let told = Told::default();
    let client = connect_with(&ground, |builder| {
        builder
            .lock_watchdog_timeout(millis(150))
            .on_event(told.handler())
    });
    let lock = client.reentrant_lock(ground.name("L"));
    for round in 0..100 {
        let guard = match round % 2 {
            0 => taken(&lock),
            _ => leased(&lock, secs(5)),
        };
        let nested = taken(&lock);
        if round % 25 == 0 {
            thread::sleep(millis(100));
        }
        drop(nested);
        guard.unlock().expect("held");
    }
    // Several ticks after the last release.
    thread::sleep(millis(300));
    drop(lock);
    drop(client);
    assert_eq!(told.all().len(), 0, "{:?}", told.all());
}

#[test]
fn renewals_that_fail_are_told() {
    let ground = Ground::new();
    let proxy = Proxy::to(ground.server().addr());
    let told = Told::default();
    let client = connect_to(&ground, &proxy.url(), |builder| {
        builder
            .lock_watchdog_timeout(millis(1500))
            .on_event(told.handler())
    });
    let guards = [(); 3].map(|()| taken(&client.reentrant_lock(ground.name("L"))));
    proxy.black_hole(true);
    let mut expected: Vec<&str> = guards.iter().map(LockGuard::name).collect();
    expected.sort_unstable();
    let failed = eventually(BOUND, "a failed renewal is told", || told.all().pop());
    let Event::RenewalFailed { names, error, .. } = failed else {
        panic!("{failed:?}");
    };
    let mut names: Vec<&str> = names.iter().map(|name| &**name).collect();
    names.sort_unstable();
    assert_eq!(names, expected);
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(proxy.lost() > 0);
    proxy.black_hole(false);
    proxy.cut_all();
    for guard in guards {
        // Tried again soon enough that nothing is lost.
        is_renewed(&guard);
        guard.unlock().expect("held");
    }
    assert_eq!(told.lost(), []);
}

#[test]
fn a_drop_that_fails_is_told_and_an_unlock_is_not() {
    let ground = Ground::new();
    let server = ground.server();
    let told = Told::default();
    let client = connect_with(&ground, |builder| {
        builder
            .response_timeout(millis(200))
            .on_event(told.handler())
    });
    let [dropped, unlocked] = [(); 2].map(|()| taken(&client.reentrant_lock(ground.name("L"))));
    let name = dropped.name().to_owned();
    server.freeze();
    fails(unlocked.unlock(), ErrorKind::Timeout);
    drop(dropped);
    eventually(BOUND, "the event", || !told.unreleased().is_empty());
    server.thaw();
    eventually(BOUND, "both are released in the background", || {
        server.cli(&["DBSIZE"]) == redis::Value::Int(0)
    });
    assert_eq!(told.unreleased(), [(name, ErrorKind::Timeout)]);
    assert_eq!(told.lost(), []);
}

#[test]
fn a_handler_that_panics_is_called_again() {
    let ground = Ground::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let client = connect_with(&ground, |builder| {
        builder
            .lock_watchdog_timeout(millis(300))
            .on_event(move |_| {
                counted.fetch_add(1, Ordering::SeqCst);
                // Without the noise of a panic that is not expected.
                std::panic::resume_unwind(Box::new("on purpose"));
            })
    });
    let kept = taken(&client.reentrant_lock(ground.name("L")));
    for round in 1..=3 {
        let guard = leased(&client.reentrant_lock(ground.name("L")), millis(50));
        eventually(BOUND, "the handler is called", || {
            calls.load(Ordering::SeqCst) == round
        });
        assert!(!guard.is_held());
        // Unlocked, not dropped: that would be told too.
        let _ = guard.unlock();
    }
    is_renewed(&kept);
    kept.unlock().expect("held");
}

#[test]
fn a_handler_may_use_the_client() {
    let ground = Ground::new();
    let slot = Arc::new(Mutex::new(None::<Client>));
    let (tell, told) = mpsc::channel();
    let handler = {
        let (slot, tell) = (Arc::clone(&slot), Mutex::new(tell));
        move |event: &Event| {
            let Event::Lost { name, .. } = event else {
                return;
            };
            let client = slot.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let client = client.expect("still there");
            let other = taken(&client.reentrant_lock(format!("not-{name}")));
            other.verify().expect("there");
            other.unlock().expect("held");
            let thread = thread::current().name().unwrap_or_default().to_owned();
            let tell = tell.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = tell.send((client.state().holds, thread));
        }
    };
    let client = connect_with(&ground, |builder| builder.on_event(handler));
    *slot.lock().expect("nobody panicked") = Some(client.clone());
    let guard = leased(&client.reentrant_lock(ground.name("L")), millis(100));
    let (holds, thread) = told.recv_timeout(BOUND).expect("the handler ends well");
    assert_eq!(holds, 0);
    assert_eq!(thread, format!("lockson-e-{}", &client.id()[..5]));
    let _ = guard.unlock();
    slot.lock().expect("nobody panicked").take();
}

#[test]
fn events_that_nobody_takes_are_counted() {
    let ground = Ground::new();
    let (begun, begins) = mpsc::channel();
    let (end, ends) = mpsc::channel::<()>();
    let (begun, ends) = (Mutex::new(begun), Mutex::new(ends));
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    let client = connect_with(&ground, |builder| {
        builder.on_event(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = begun
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .send(());
            let _ = ends.lock().unwrap_or_else(PoisonError::into_inner).recv();
        })
    });
    let base = ground.name("L");
    let guards: Vec<_> = (0..1400)
        .map(|number| taken(&client.reentrant_lock(format!("{base}-{number}"))))
        .collect();
    ground.server().cli(&["FLUSHALL"]);
    // Each is told once: that it was lost. That it could not be released says no more.
    let raised = guards.len();
    drop(guards);
    begins.recv_timeout(BOUND).expect("the handler is called");
    let dropped = usize::try_from(client.state().dropped_events).expect("few");
    assert!(dropped > 0);
    assert_eq!(client.state().holds, 0, "nobody waited for the handler");
    drop(end);
    eventually(BOUND, "the others are told", || {
        seen.load(Ordering::SeqCst) + dropped == raised
    });
    assert_eq!(client.state().dropped_events, dropped as u64);
}

#[test]
fn the_end_of_the_client_is_told_before_it_is_over() {
    let ground = Ground::new();
    ground.expect_keys_left();
    let (client, told) = listening(&ground);
    let guards = [(); 3].map(|()| taken(&client.reentrant_lock(ground.name("L"))));
    client.shutdown();
    let lost = told.lost();
    assert_eq!(lost.len(), guards.len());
    for guard in guards {
        let expected = (
            guard.name().to_owned(),
            guard.holder().to_owned(),
            LostReason::Closed,
        );
        assert!(lost.contains(&expected), "{lost:?}");
    }
    assert_eq!(told.unreleased(), [], "a drop after the end does nothing");
}

/// One that comes at the end of a lease while the handler is busy with another, too.
#[test]
fn a_blocked_handler_gets_what_it_missed() {
    let ground = Ground::new();
    let (end, ends) = mpsc::channel::<()>();
    let ends = Mutex::new(ends);
    let told = Told::default();
    let write = told.handler();
    let client = connect_with(&ground, |builder| {
        builder
            .lock_watchdog_timeout(secs(1))
            .on_event(move |event| {
                write(event);
                let ends = ends.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = ends.recv_timeout(BOUND);
            })
    });
    let guards = [100, 200, 300].map(|lease| {
        leased(
            &client.reentrant_lock(ground.name("L")),
            Duration::from_millis(lease),
        )
    });
    eventually(BOUND, "the first event", || !told.lost().is_empty());
    for guard in &guards {
        eventually(BOUND, "each is lost", || guard.lost().is_lost());
    }
    assert_eq!(told.lost().len(), 1);
    drop(end);
    eventually(BOUND, "the other events", || told.lost().len() == 3);
    for guard in guards {
        let _ = guard.unlock();
    }
}
