//! A token by which another thread ends a wait.

use std::{
    thread,
    time::{Duration, Instant},
};

use lockson::{CancelToken, ErrorKind};

use super::{
    SOON, channels, millis, nothing_left, secs, taken, wait_for_listener, wait_for_waiters,
};
use crate::support::{
    Ground, Proxy, command, connect, connect_to, eventually, proxy::ALWAYS, script,
};

#[test]
fn a_token_that_is_cancelled_already_asks_nobody() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let token = CancelToken::new();
    let same = token.clone();
    assert!(!token.is_cancelled());
    same.cancel();
    same.cancel();
    assert!(token.is_cancelled());
    let calls = ground.server().script_calls();
    for options in [
        lock.options(),
        lock.options().wait(Duration::ZERO),
        lock.options().wait(SOON).lease(secs(1)),
    ] {
        let options = options.cancel(&token);
        let error = options.clone().acquire().expect_err("cancelled");
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        assert_eq!(error.name(), Some(lock.name()));
        let error = options.acquire_owned().expect_err("cancelled");
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    }
    assert_eq!(ground.server().script_calls(), calls);
}

#[test]
fn a_token_that_nobody_cancels_changes_nothing() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let token = CancelToken::new();
    let guard = lock.options().cancel(&token).acquire();
    let guard = guard.expect("answered").expect("free");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let guard = lock.options().cancel(&token).acquire();
            drop(guard.expect("answered").expect("woken"));
            let none = lock.options().cancel(&token).wait(millis(1)).acquire();
            drop(none.expect("answered"));
        });
        wait_for_waiters(&client, 1);
        guard.unlock().expect("held");
        waiting.join().expect("it got in");
    });
    // Too late: there is nothing to end any more.
    token.cancel();
    nothing_left(&ground, &[&client], &lock);
}

#[test]
fn one_token_ends_all_waits_that_have_it_and_no_other() {
    let ground = Ground::new();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let names = [ground.name("L"), ground.name("L")];
    let guards = names
        .each_ref()
        .map(|name| taken(&theirs.reentrant_lock(name)));
    let locks = names.each_ref().map(|name| ours.reentrant_lock(name));
    let token = CancelToken::new();
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..6)
            .map(|number| {
                let (lock, token) = (&locks[number % 2], token.clone());
                scope.spawn(move || {
                    let options = lock.options().cancel(&token);
                    let error = match number % 3 {
                        0 => options.acquire().map(drop),
                        1 => options.acquire_owned().map(drop),
                        _ => options.wait(secs(60)).lease(secs(9)).acquire().map(drop),
                    };
                    (error.expect_err("cancelled").kind(), Instant::now())
                })
            })
            .collect();
        let others: Vec<_> = locks
            .iter()
            .map(|lock| scope.spawn(move || lock.lock().expect("woken").unlock()))
            .collect();
        wait_for_waiters(&ours, 8);
        let start = Instant::now();
        token.cancel();
        for one in waiting {
            let (kind, ended) = one.join().expect("ends well");
            assert_eq!(kind, ErrorKind::Cancelled);
            assert!(ended - start < secs(1), "{:?}", ended - start);
        }
        assert_eq!(ours.state().waiters, 2, "the others wait on");
        drop(guards);
        for one in others {
            one.join().expect("ends well").expect("it got in");
        }
    });
    nothing_left(&ground, &[&ours, &theirs], &locks[0]);
}

#[test]
fn who_was_cancelled_leaves_nothing() {
    let ground = Ground::new();
    let server = ground.server();
    let (ours, theirs) = (connect(&ground), connect(&ground));
    let name = ground.name("L");
    let guard = taken(&theirs.reentrant_lock(&name));
    let lock = ours.reentrant_lock(&name);
    let token = CancelToken::new();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| lock.options().cancel(&token).acquire().map(drop));
        wait_for_listener(&server, &lock);
        token.cancel();
        let error = waiting.join().expect("ends well").expect_err("cancelled");
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    });
    let state = ours.state();
    assert_eq!((state.waiters, state.holds, state.renewals), (0, 0, 0));
    assert_eq!(lock.inspect().expect("answered").waiters, 0);
    guard.unlock().expect("untouched");
    eventually(SOON, "nothing is listened to", || {
        channels(&server).is_empty()
    });
    nothing_left(&ground, &[&ours, &theirs], &lock);
}

/// The attempt that is under way is waited for; no other is begun.
#[test]
fn who_is_cancelled_while_redis_is_silent_asks_no_more() {
    let ground = Ground::alone();
    let proxy = Proxy::to(ground.server().addr());
    let timeout = secs(1);
    let client = connect_to(&ground, &proxy.url(), |plain| {
        plain.response_timeout(timeout)
    });
    let lock = client.reentrant_lock(ground.name("L"));
    let token = CancelToken::new();
    // Only who acquires says for how long.
    proxy.drop_requests(script("30000"), ALWAYS);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| lock.options().cancel(&token).acquire().map(drop));
        eventually(SOON, "it asks", || proxy.dropped() == 1);
        let start = Instant::now();
        token.cancel();
        let error = waiting.join().expect("ends well").expect_err("cancelled");
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        assert!(start.elapsed() < timeout + millis(500));
    });
    assert_eq!(proxy.dropped(), 1, "asked once");
    nothing_left(&ground, &[&client], &lock);
}

/// It was refused, and would have begun to listen.
#[test]
fn who_is_cancelled_does_not_begin_to_listen() {
    let ground = Ground::alone();
    let server = ground.server();
    let proxy = Proxy::to(server.addr());
    let (ours, theirs) = (
        connect_to(&ground, &proxy.url(), |plain| plain),
        connect(&ground),
    );
    let names = [ground.name("L"), ground.name("L")];
    let guards = names
        .each_ref()
        .map(|name| taken(&theirs.reentrant_lock(name)));
    let locks = names.each_ref().map(|name| ours.reentrant_lock(name));
    let (other, token) = (CancelToken::new(), CancelToken::new());
    let took = thread::scope(|scope| {
        // So that the notifier is there to be told.
        let before = scope.spawn(|| locks[0].options().cancel(&other).acquire().map(drop));
        wait_for_listener(&server, &locks[0]);
        proxy.hold(script(&names[1]), 1);
        proxy.drop_requests(command("PUBLISH"), ALWAYS);
        let waiting = scope.spawn(|| locks[1].options().cancel(&token).acquire().map(drop));
        eventually(SOON, "it asks", || proxy.held() == 1);
        token.cancel();
        let start = Instant::now();
        proxy.release_held();
        let error = waiting.join().expect("ends well").expect_err("cancelled");
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        let took = start.elapsed();
        proxy.clear();
        other.cancel();
        before.join().expect("ends well").expect_err("cancelled");
        took
    });
    // Else it waits for the answer to its message, three seconds.
    assert!(took < secs(1), "{took:?}");
    drop(guards);
    nothing_left(&ground, &[&ours, &theirs], &locks[1]);
}
