//! Whose turn it is.

use std::{sync::Mutex, thread, time::Instant};

use lockson::{CancelToken, Client, Ttl};

use super::{
    SOON, enqueue_dead, millis, nobody_waits, queue, secs, timed, wait_for_ears, wait_for_queue,
    waiter,
};
use crate::support::{Ground, connect, eventually};

/// Threads of one client are handed the lock, those of another are told: in both ways in order.
#[test]
fn who_came_first_is_first() {
    let ground = Ground::new();
    let server = ground.server();
    let (one, two) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let entered = Mutex::new(Vec::new());
    let guard = one.fair_lock(&name).lock().expect("free");
    let mut expected = Vec::new();
    thread::scope(|scope| {
        for number in 0..8 {
            // Two of the one, then two of the other: hand-overs and messages.
            let client = if number % 4 < 2 { &one } else { &two };
            let lock = client.fair_lock(&name);
            let entered = &entered;
            waiter(scope, &lock, move |guard| {
                entered
                    .lock()
                    .expect("no panic")
                    .push(guard.holder().to_owned());
                guard.unlock().expect("held");
            });
            wait_for_queue(&server, &lock, number + 1);
            expected = queue(&server, &lock);
        }
        let seen = one.fair_lock(&name).inspect().expect("answered");
        let holders: Vec<_> = seen.queue.iter().map(|one| one.holder.clone()).collect();
        assert_eq!(holders, expected);
        assert!(
            seen.queue.iter().all(|one| one.left > Some(secs(300))),
            "{seen:?}"
        );
        assert!(seen.queue.is_sorted_by_key(|one| one.left), "{seen:?}");
        assert_eq!(seen.waiters, 4);
        guard.unlock().expect("held");
    });
    assert_eq!(entered.into_inner().expect("no panic"), expected);
    nobody_waits(&server, &[&one, &two], &one.fair_lock(&name));
    assert_eq!(
        one.fair_lock(&name).remaining_ttl().expect("answered"),
        Ttl::Free
    );
}

/// One round trip from holder to holder, and no message.
#[test]
fn the_next_thread_of_a_client_is_handed_the_lock_in_the_release() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.fair_lock(ground.name("L"));
    // The server learns the scripts.
    lock.lock().expect("free").unlock().expect("held");
    let guard = lock.lock_with_lease(secs(20)).expect("free");
    thread::scope(|scope| {
        let first = waiter(scope, &lock, |guard| {
            let calls = server.script_calls();
            guard.unlock().expect("held");
            calls
        });
        wait_for_queue(&server, &lock, 1);
        wait_for_ears(&server, &lock);
        // Its second look, after it began to listen, is over.
        let calls = quiet(&server);
        guard.unlock().expect("held");
        assert_eq!(first.join().expect("entered"), calls + 1);
    });
    nobody_waits(&server, &[&client], &lock);
}

/// The count of script calls once nobody asks any more.
fn quiet(server: &crate::support::Server) -> u64 {
    let mut calls = server.script_calls();
    eventually(SOON, "nobody asks", || {
        thread::sleep(millis(50));
        let before = std::mem::replace(&mut calls, server.script_calls());
        before == calls
    });
    calls
}

#[test]
fn a_single_try_takes_no_place_and_passes_nobody() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.fair_lock(ground.name("L"));
    let guard = lock.try_lock().expect("answered").expect("free");
    thread::scope(|scope| {
        scope.spawn(|| assert!(lock.try_lock().expect("answered").is_none()));
    });
    assert_eq!(queue(&server, &lock), Vec::<String>::new());
    guard.unlock().expect("held");

    enqueue_dead(&server, &lock, "dead:1", Some(millis(700)));
    assert!(
        lock.try_lock().expect("answered").is_none(),
        "another is first"
    );
    let guard = eventually(SOON, "the dead one is passed", || {
        lock.try_lock().expect("answered")
    });
    guard.unlock().expect("held");
    nobody_waits(&server, &[&client], &lock);
}

/// Not at once, again and again, as long as its time is not over.
#[test]
fn behind_a_dead_head_nobody_spins() {
    let ground = Ground::alone();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.fair_lock(ground.name("L"));
    enqueue_dead(&server, &lock, "dead:1", Some(millis(1500)));
    let calls = server.script_calls();
    let (guard, took) = timed(|| lock.lock().expect("passes it"));
    let calls = server.script_calls() - calls;
    println!("entered after {took:?} with {calls} scripts");
    assert!(millis(1400) <= took && took < millis(2500), "{took:?}");
    assert!(calls <= 12, "{calls} scripts");
    guard.unlock().expect("held");
    nobody_waits(&server, &[&client], &lock);
}

/// The first cannot be handed the lock, as its lease is short, and is told that it is free. The second
/// is handed it then: that it asks meanwhile, and begins to listen, is of no use to anybody.
#[test]
fn who_is_behind_one_of_its_own_client_is_left_in_peace() {
    let ground = Ground::alone();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.fair_lock(ground.name("L"));
    // The server learns the scripts.
    lock.lock().expect("free").unlock().expect("held");
    let mut calls = Vec::new();
    for _ in 0..20 {
        let guard = lock.lock_with_lease(secs(60)).expect("free");
        thread::scope(|scope| {
            let first = scope.spawn(|| {
                let guard = lock.lock_with_lease(secs(40)).expect("its turn comes");
                guard.unlock().expect("held");
            });
            wait_for_queue(&server, &lock, 1);
            wait_for_waiters(&client, 1);
            let came = Instant::now();
            let second = scope.spawn(|| {
                let guard = lock.lock_with_lease(secs(60)).expect("its turn comes");
                guard.unlock().expect("held");
            });
            wait_for_queue(&server, &lock, 2);
            wait_for_waiters(&client, 2);
            let before = server.script_calls();
            guard.unlock().expect("held");
            first.join().expect("entered");
            second.join().expect("entered");
            // After 100 ms whoever does not listen looks by itself.
            if came.elapsed() < millis(80) {
                calls.push(server.script_calls() - before);
            }
        });
    }
    println!("{calls:?}");
    // Three releases, and the first takes it by itself.
    assert!(calls.contains(&4), "{calls:?}");
    nobody_waits(&server, &[&client], &lock);
}

/// It relied on the one before it to come first, and does not listen yet.
#[test]
fn who_is_behind_one_that_gives_up_begins_to_listen() {
    let ground = Ground::alone();
    let server = ground.server();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let lock = ours.fair_lock(&name);
    let mut soon = Vec::new();
    for _ in 0..20 {
        let guard = theirs.fair_lock(&name).lock_owned().expect("free");
        let token = CancelToken::new();
        thread::scope(|scope| {
            let first = scope.spawn(|| lock.options().cancel(&token).acquire().map(drop));
            wait_for_queue(&server, &lock, 1);
            wait_for_ears(&server, &lock);
            let came = Instant::now();
            let second = waiter(scope, &lock, |guard| guard.unlock().expect("held"));
            wait_for_queue(&server, &lock, 2);
            wait_for_waiters(&ours, 2);
            token.cancel();
            first.join().expect("returns").expect_err("cancelled");
            wait_for_ears(&server, &lock);
            soon.push(came.elapsed() < millis(80));
            guard.unlock().expect("held");
            second.join().expect("entered");
        });
    }
    // Else it looks by itself after 100 ms, and begins then.
    assert!(soon.contains(&true), "{soon:?}");
    nobody_waits(&server, &[&ours, &theirs], &lock);
}

/// Neither the first in the queue nor the second, whatever Redis says of the time that is left.
#[test]
fn no_ttl_makes_who_stands_in_the_queue_busy() {
    let ground = Ground::alone();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.fair_lock(ground.name("L"));
    let name = lock.name();
    // The server learns the scripts.
    let guard = lock.lock().expect("free");
    thread::scope(|scope| {
        scope.spawn(|| drop(lock.try_lock_for(millis(50)).expect("answered")));
    });
    guard.unlock().expect("held");
    let both_wait = |meanwhile: &dyn Fn()| {
        let calls = server.script_calls();
        thread::scope(|scope| {
            let waiting = [(); 2].map(|()| {
                scope.spawn(|| {
                    let got = lock.try_lock_for(millis(1500)).expect("answered");
                    assert!(got.is_none_or(|guard| guard.unlock().is_ok()));
                })
            });
            while !waiting.iter().all(|one| one.is_finished()) {
                meanwhile();
            }
        });
        server.script_calls() - calls
    };
    server.cli(&["HSET", name, "somebody:1", "1"]);
    let asked = both_wait(&|| thread::sleep(millis(20)));
    println!("without a TTL: asked {asked} times");
    assert!(asked <= 10, "without a TTL: asked {asked} times");
    let asked = both_wait(&|| {
        let _: () = redis::pipe()
            .hset(name, "somebody:1", "1")
            .ignore()
            .pexpire(name, 2)
            .ignore()
            .query(&mut server.connection())
            .expect("answered");
    });
    println!("a TTL of 2 ms: asked {asked} times");
    assert!(asked <= 120, "a TTL of 2 ms: asked {asked} times");
    server.cli(&["DEL", name]);
    nobody_waits(&server, &[&client], &lock);
}

/// Redisson would wait for it for ever.
#[test]
fn a_head_without_a_time_is_dropped() {
    let ground = Ground::new();
    let server = ground.server();
    let client = connect(&ground);
    let lock = client.fair_lock(ground.name("L"));
    enqueue_dead(&server, &lock, "dead:1", None);
    enqueue_dead(&server, &lock, "dead:2", None);
    let guard = lock.try_lock().expect("answered").expect("nobody waits");
    guard.unlock().expect("held");
    nobody_waits(&server, &[&client], &lock);
}

/// Who came to the head of the queue meanwhile had read the TTL of an earlier holder, and slept on.
#[test]
fn the_end_of_a_short_lease_is_not_slept_through() {
    let ground = Ground::alone();
    let server = ground.server();
    let (one, two, three) = (connect(&ground), connect(&ground), connect(&ground));
    let name = ground.name("L");
    let lock = one.fair_lock(&name);
    let guard = lock.lock_with_lease(secs(60)).expect("free");
    thread::scope(|scope| {
        let short = two.fair_lock(&name);
        let short = scope.spawn(move || {
            let guard = short.lock_with_lease(millis(300)).expect("its turn comes");
            guard.lost().wait(SOON);
            std::time::Instant::now()
        });
        wait_for_queue(&server, &lock, 1);
        let behind = waiter(scope, &three.fair_lock(&name), |guard| {
            drop(guard);
            std::time::Instant::now()
        });
        wait_for_queue(&server, &lock, 2);
        wait_for_ears(&server, &lock);
        guard.unlock().expect("held");
        let over = short.join().expect("entered");
        let late = behind
            .join()
            .expect("entered")
            .saturating_duration_since(over);
        println!("in {late:?} after the end of the lease");
        assert!(late < secs(1), "{late:?}");
    });
    nobody_waits(&server, &[&one, &two, &three], &lock);
}

/// Waiters elsewhere sleep for the TTL that they have read.
#[test]
fn a_shorter_lease_is_not_handed_over_silently() {
    let ground = Ground::new();
    let server = ground.server();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let lock = ours.fair_lock(&name);
    let guard = lock.lock_with_lease(secs(60)).expect("free");
    thread::scope(|scope| {
        let short = scope.spawn(|| {
            let guard = lock.lock_with_lease(millis(300)).expect("its turn comes");
            guard.lost().wait(SOON)
        });
        wait_for_queue(&server, &lock, 1);
        let behind = waiter(scope, &theirs.fair_lock(&name), LockGuardExt::unlocked);
        wait_for_queue(&server, &lock, 2);
        wait_for_ears(&server, &lock);
        guard.unlock().expect("held");
        short.join().expect("entered");
        // Nobody releases it, and nobody waits for the sixty seconds.
        behind
            .join()
            .expect("entered when the short lease was over");
    });
    nobody_waits(&server, &[&ours, &theirs], &lock);
}

#[track_caller]
fn wait_for_waiters(client: &Client, count: usize) {
    eventually(SOON, "they wait", || client.state().waiters == count);
}

trait LockGuardExt {
    fn unlocked(self);
}

impl LockGuardExt for lockson::LockGuard {
    fn unlocked(self) {
        self.unlock().expect("held");
    }
}
