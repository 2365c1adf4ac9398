//! The last of client, handles and guards takes the threads and connections with it.

use std::{
    cell::RefCell,
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
};

use lockson::{Client, Event, LockGuard, OwnedLockGuard};

use super::{BOUND, exists, millis, nobody_connected, owned, taken, threads_of};
use crate::{
    support::{Ground, connect, connect_with, eventually},
    watchdog::is_renewed,
};

#[test]
fn a_guard_alone_is_kept_alive_and_ends_the_client() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect_with(&ground, |builder| {
        builder.lock_watchdog_timeout(millis(300)).on_event(|_| {})
    });
    let id = client.id().to_owned();
    let guard = taken(&client.reentrant_lock(ground.name("L")));
    drop(client);
    for _ in 0..3 {
        is_renewed(&guard);
    }
    eventually(BOUND, "its threads have their names", || {
        threads_of(&id).len() == 3
    });
    let name = guard.name().to_owned();
    drop(guard);
    eventually(BOUND, "its threads are gone", || threads_of(&id).is_empty());
    nobody_connected(&server);
    assert!(!exists(&server, &name));
}

#[test]
fn a_handle_alone_keeps_the_client() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let id = client.id().to_owned();
    let lock = client.reentrant_lock(ground.name("L"));
    drop(client);
    taken(&lock).unlock().expect("held");
    let other = lock.clone();
    drop(lock);
    assert!(!other.is_locked().expect("answered"));
    eventually(BOUND, "its threads have their names", || {
        threads_of(&id).len() == 2
    });
    drop(other);
    eventually(BOUND, "its threads are gone", || threads_of(&id).is_empty());
    nobody_connected(&server);
}

#[test]
fn another_thread_may_be_the_last() {
    let ground = Ground::new();
    let client = connect(&ground);
    let id = client.id().to_owned();
    let guard = owned(&client.reentrant_lock(ground.name("L")));
    let (go, gone) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        let _ = gone.recv();
        drop(client);
        drop(guard);
    });
    drop(go);
    thread.join().expect("it ends well");
    eventually(BOUND, "its threads are gone", || threads_of(&id).is_empty());
    nobody_connected(&ground.server());
}

/// The last of all is dropped by the client's own thread.
#[test]
fn a_handler_may_be_the_last() {
    let ground = Ground::new();
    let slot = Arc::new(Mutex::new(None::<OwnedLockGuard>));
    let (tell, told) = mpsc::channel();
    let handler = {
        let (slot, tell) = (Arc::clone(&slot), Mutex::new(tell));
        move |_: &Event| {
            let guard = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(guard);
            let tell = tell.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = tell.send(());
        }
    };
    let client = connect_with(&ground, |builder| builder.on_event(handler));
    let id = client.id().to_owned();
    let kept = owned(&client.reentrant_lock(ground.name("L")));
    let name = kept.name().to_owned();
    let mut filled = slot.lock().expect("nobody panicked");
    // Lost while the handler waits for the slot; only then it is the last.
    let short = client.reentrant_lock(ground.name("M"));
    let lost = short.try_lock_with_lease(millis(30)).expect("answered");
    eventually(BOUND, "it is lost", || {
        lost.as_ref().is_some_and(|guard| guard.lost().is_lost())
    });
    let _ = lost.map(LockGuard::unlock);
    *filled = Some(kept);
    drop((short, client));
    drop(filled);
    told.recv_timeout(BOUND).expect("the handler ends well");
    eventually(BOUND, "its threads end", || threads_of(&id).is_empty());
    nobody_connected(&ground.server());
    assert!(!exists(&ground.server(), &name), "released");
}

#[test]
fn fifty_clients_leave_nothing() {
    let ground = Ground::new();
    let server = ground.server();
    for number in 0..50 {
        let client = connect_with(&ground, |builder| match number % 2 {
            0 => builder,
            _ => builder.on_event(|_| {}),
        });
        let id = client.id().to_owned();
        let guard = taken(&client.reentrant_lock(ground.name("L")));
        match number % 3 {
            0 => drop((client, guard)),
            1 => drop((guard, client)),
            _ => {
                guard.unlock().expect("held");
                client.shutdown();
            }
        }
        // A thread that was joined may be listed for a moment longer.
        eventually(BOUND, "its threads are gone", || threads_of(&id).is_empty());
    }
    nobody_connected(&server);
}

#[test]
fn a_guard_is_released_while_a_panic_unwinds() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let id = client.id().to_owned();
    let name = ground.name("L");
    let unwound = panic::catch_unwind(AssertUnwindSafe(|| {
        let _guard = taken(&client.reentrant_lock(&name));
        let _client = client;
        panic::resume_unwind(Box::new("on purpose"));
    }));
    assert!(unwound.is_err());
    assert!(!exists(&server, &name));
    eventually(BOUND, "its threads are gone", || threads_of(&id).is_empty());
    nobody_connected(&server);
}

thread_local! {
    static KEPT: RefCell<Option<(LockGuard, Option<Client>)>> = const { RefCell::new(None) };
}

#[test]
fn a_guard_in_a_thread_local_is_released_when_its_thread_ends() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    thread::scope(|scope| {
        let thread = scope.spawn(|| KEPT.set(Some((taken(&lock), None))));
        thread.join().expect("it ends well");
    });
    // Scoped threads are waited for before their thread-locals go.
    eventually(BOUND, "it is released", || !exists(&server, lock.name()));
    taken(&lock).unlock().expect("held");
}

#[test]
fn a_client_in_a_thread_local_ends_with_its_thread() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect_with(&ground, |builder| builder.on_event(|_| {}));
    let id = client.id().to_owned();
    let name = ground.name("L");
    let lock = client.reentrant_lock(&name);
    let thread = thread::spawn(move || KEPT.set(Some((taken(&lock), Some(client)))));
    thread.join().expect("it ends well");
    eventually(BOUND, "its threads end", || threads_of(&id).is_empty());
    assert!(!exists(&server, &name));
    nobody_connected(&server);
}
