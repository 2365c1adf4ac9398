//! Places in the queue: taken, kept, left and given back.

use std::{sync::Mutex, thread};

use lockson::{CancelToken, ErrorKind};
use redis::Commands;

use super::{
    SOON, left, millis, nobody_waits, queue, queue_key, secs, timed, times_key, wait_for_ears,
    wait_for_queue, waiter,
};
use crate::support::{Ground, connect, connect_with, eventually};

#[test]
fn whoever_gives_up_leaves_the_queue() {
    let ground = Ground::new();
    let server = ground.server();
    let (one, two) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let lock = one.fair_lock(&name);
    let guard = lock.lock().expect("free");
    let token = CancelToken::new();
    thread::scope(|scope| {
        let timed_out = scope.spawn(|| lock.try_lock_for(millis(400)).map(|got| got.is_some()));
        wait_for_queue(&server, &lock, 1);
        let cancelled = scope.spawn(|| lock.options().cancel(&token).acquire().map(drop));
        wait_for_queue(&server, &lock, 2);
        let behind = waiter(scope, &two.fair_lock(&name), drop);
        wait_for_queue(&server, &lock, 3);
        let last = queue(&server, &lock)[2].clone();
        let before = left(&server, &lock, &last);
        token.cancel();
        let error = cancelled.join().expect("returns").expect_err("cancelled");
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        assert_eq!(
            queue(&server, &lock).len(),
            2,
            "it has left when it returns"
        );
        // Those behind need not wait for its patience any more.
        assert!(left(&server, &lock, &last) <= before - 290_000);
        assert!(!timed_out.join().expect("returns").expect("answered"));
        assert_eq!(queue(&server, &lock), [last], "it has left when it returns");
        guard.unlock().expect("held");
        behind.join().expect("entered");
    });
    nobody_waits(&server, &[&one, &two], &lock);
}

/// The first may have been told that the lock is free in the very moment it gave up.
#[test]
fn a_head_that_leaves_passes_the_word_on() {
    let ground = Ground::alone();
    let server = ground.server();
    let (one, two) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let lock = one.fair_lock(&name);
    let guard = lock.lock_with_lease(secs(60)).expect("free");
    thread::scope(|scope| {
        let head = scope.spawn(|| lock.try_lock_for(millis(800)).map(|got| got.is_some()));
        wait_for_queue(&server, &lock, 1);
        let behind = waiter(scope, &two.fair_lock(&name), drop);
        wait_for_queue(&server, &lock, 2);
        wait_for_ears(&server, &lock);
        // Free without a message: as if the head had been told, and had not asked yet.
        server.cli(&["DEL", lock.name()]);
        let got = head.join().expect("returns").expect("answered");
        let ((), took) = timed(|| behind.join().expect("entered"));
        println!("the next entered {took:?} after the head had left");
        assert!(!got, "nobody told it");
        assert!(took < secs(1), "{took:?}");
    });
    drop(guard);
    nobody_waits(&server, &[&one, &two], &lock);
}

/// However long the holder holds, and however short the time set for the silent.
#[test]
fn a_live_waiter_is_never_passed() {
    let ground = Ground::new();
    let server = ground.server();
    let quick = |timeout| {
        connect_with(&ground, |plain| {
            plain
                .lock_watchdog_timeout(millis(1800))
                .fair_lock_wait_timeout(timeout)
        })
    };
    let (one, two) = (quick(millis(1000)), quick(millis(1000)));
    let name = ground.name("L");
    let lock = one.fair_lock(&name);
    let guard = lock.lock().expect("free");
    thread::scope(|scope| {
        let first = waiter(scope, &two.fair_lock(&name), drop);
        wait_for_queue(&server, &lock, 1);
        let second = waiter(scope, &lock, drop);
        wait_for_queue(&server, &lock, 2);
        let order = queue(&server, &lock);
        let began = std::time::Instant::now();
        while began.elapsed() < secs(5) {
            assert!(guard.is_held(), "renewed in time");
            assert_eq!(queue(&server, &lock), order);
            for holder in &order {
                let left = left(&server, &lock, holder);
                assert!(left > 0, "{holder} could be passed: {left} ms");
            }
            thread::sleep(millis(20));
        }
        guard.unlock().expect("held");
        first.join().expect("entered");
        second.join().expect("entered");
    });
    nobody_waits(&server, &[&one, &two], &lock);
}

/// Only the first is ever thrown out, so that is where it belongs.
#[test]
fn who_was_thrown_out_gets_its_place_back() {
    let ground = Ground::new();
    let server = ground.server();
    let (one, two, three) = (connect(&ground), connect(&ground), connect(&ground));
    let name = ground.name("L");
    let lock = one.fair_lock(&name);
    let guard = lock.lock().expect("free");
    thread::scope(|scope| {
        let first = waiter(scope, &two.fair_lock(&name), drop);
        wait_for_queue(&server, &lock, 1);
        let second = waiter(scope, &three.fair_lock(&name), drop);
        wait_for_queue(&server, &lock, 2);
        wait_for_ears(&server, &lock);
        let order = queue(&server, &lock);
        let mut redis = server.connection();
        let gone: String = redis.lpop(queue_key(&lock), None).expect("the first");
        let _: u64 = redis.zrem(times_key(&lock), &gone).expect("its time");
        assert_eq!(queue(&server, &lock), order[1..]);
        eventually(SOON, "it is back", || queue(&server, &lock) == order);
        guard.unlock().expect("held");
        first.join().expect("entered");
        second.join().expect("entered");
    });
    nobody_waits(&server, &[&one, &two, &three], &lock);
}

/// As by a client whose clock is ahead, that takes them all for dead.
#[test]
fn several_who_were_thrown_out_keep_their_order() {
    let ground = Ground::new();
    let server = ground.server();
    let (one, two) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let lock = one.fair_lock(&name);
    let guard = two
        .fair_lock(&name)
        .lock_with_lease(secs(60))
        .expect("free");
    let entered = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for number in 1..4 {
            waiter(scope, &lock, |guard| {
                let holder = guard.holder().to_owned();
                entered.lock().expect("no panic").push(holder);
                guard.unlock().expect("held");
            });
            wait_for_queue(&server, &lock, number);
        }
        wait_for_ears(&server, &lock);
        let order = queue(&server, &lock);
        server.cli(&["DEL", &queue_key(&lock), &times_key(&lock)]);
        // They come back in the order in which they wake up.
        for (back, number) in [2, 0, 1].into_iter().enumerate() {
            let channel = format!("redisson_lock__channel:{{{name}}}:{}", order[number]);
            server.cli(&["PUBLISH", &channel, "0"]);
            eventually(SOON, "it is back", || queue(&server, &lock).len() > back);
        }
        assert_eq!(queue(&server, &lock), order);
        guard.unlock().expect("held");
        eventually(SOON, "all enter", || {
            entered.lock().expect("no panic").len() == 3
        });
        assert_eq!(*entered.lock().expect("no panic"), order);
    });
    nobody_waits(&server, &[&one, &two], &lock);
}

/// Free, and it was passed as well: but one of the same client who came before it is back already.
#[test]
fn who_was_thrown_out_does_not_pass_its_own() {
    let ground = Ground::new();
    let server = ground.server();
    let (one, two) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let lock = one.fair_lock(&name);
    let guard = two
        .fair_lock(&name)
        .lock_with_lease(secs(60))
        .expect("free");
    thread::scope(|scope| {
        let waiting = waiter(scope, &lock, drop);
        wait_for_queue(&server, &lock, 1);
        wait_for_ears(&server, &lock);
        let holder = queue(&server, &lock).remove(0);
        server.cli(&["DEL", &queue_key(&lock), &times_key(&lock)]);
        let earlier = format!("{}:0", one.id());
        super::enqueue_dead(&server, &lock, &earlier, Some(secs(60)));
        server.cli(&["DEL", &name]);
        let channel = format!("redisson_lock__channel:{{{name}}}:{holder}");
        server.cli(&["PUBLISH", &channel, "0"]);
        eventually(SOON, "it is back", || {
            queue(&server, &lock) == [&*earlier, &*holder]
        });
        assert!(!lock.is_locked().expect("answered"));
        let mut redis = server.connection();
        let _: u64 = redis.zrem(times_key(&lock), &earlier).expect("its time");
        waiting.join().expect("entered");
    });
    drop(guard);
    nobody_waits(&server, &[&one, &two], &lock);
}

/// Free, and the queue says that another is first: but that one came later.
#[test]
fn who_was_thrown_out_takes_the_free_lock() {
    let ground = Ground::new();
    let server = ground.server();
    let (one, two) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let lock = one.fair_lock(&name);
    let guard = lock.lock_with_lease(secs(2)).expect("free");
    thread::scope(|scope| {
        let first = waiter(scope, &two.fair_lock(&name), drop);
        wait_for_queue(&server, &lock, 1);
        wait_for_ears(&server, &lock);
        let mut redis = server.connection();
        let gone: String = redis.lpop(queue_key(&lock), None).expect("the first");
        let _: u64 = redis.zrem(times_key(&lock), &gone).expect("its time");
        super::enqueue_dead(&server, &lock, "later:1", Some(secs(60)));
        // At the end of the lease, not after the sixty seconds of the other.
        first.join().expect("entered");
    });
    assert!(!guard.is_held());
    server.cli(&["DEL", &queue_key(&lock), &times_key(&lock)]);
    nobody_waits(&server, &[&one, &two], &lock);
}

#[test]
fn unlock_of_what_is_gone_is_not_held() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.fair_lock(ground.name("L"));
    let guard = lock.lock().expect("free");
    assert!(lock.force_unlock().expect("answered"));
    let error = guard.unlock().expect_err("it is gone");
    assert_eq!(error.kind(), ErrorKind::NotHeld);
    assert!(!lock.force_unlock().expect("answered"));
}
