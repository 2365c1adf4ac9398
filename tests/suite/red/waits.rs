//! Waits that are honoured, and that cost little.

use std::{
    thread,
    time::{Duration, Instant},
};

use lockson::{CancelToken, ErrorKind};
use redis::Commands;

use super::{SLACK, SOON, Scene, is_there, start, stop};
use crate::support::{Ground, eventually, within};

#[test]
fn a_waiter_does_not_wake_itself() {
    const WAIT: Duration = Duration::from_secs(3);
    // A try and its release after each rest, of which none is shorter.
    const MOST: u64 = 2 * (WAIT.as_millis() as u64 / 20 + 1);
    let ground = Ground::alone();
    let scene = Scene::new(&ground, 3);
    let lock = scene.warm();
    for server in &scene.servers {
        let mut redis = server.connection();
        let _: i64 = redis.hset(&scene.name, "other:1", 1).expect("HSET");
    }
    let free = &scene.servers[0];
    let calls = thread::scope(|scope| {
        let waiter = scope.spawn(|| lock.try_lock_for(WAIT).map(|guard| guard.is_some()));
        scene.assert_heard();
        // It gets this one and gives it back, and its own message is none to wake for.
        free.cli(&["DEL", &scene.name]);
        let before = free.script_calls();
        let got = waiter.join().expect("ends well").expect("all answer");
        assert!(!got, "one is no majority");
        free.script_calls() - before
    });
    println!("one of three to be had: {calls} scripts in less than {WAIT:?}");
    assert!(calls >= 4, "it tried again: {calls}");
    assert!(calls <= MOST, "{calls} scripts");
    for server in &scene.servers[1..] {
        server.cli(&["DEL", &scene.name]);
    }
}

#[test]
fn a_short_wait_does_not_shorten_the_release() {
    const WAIT: Duration = Duration::from_millis(4);
    const STOPPED: Duration = Duration::from_millis(100);
    let ground = Ground::alone();
    let scene = Scene::with(&ground, 3, |plain| plain.red_lock_member_timeout(SOON));
    let lock = scene.warm();
    let guard = eventually(SOON, "taken with a short wait", || {
        lock.try_lock_for(WAIT).unwrap_or_default()
    });
    stop(&scene.servers);
    let asked = Instant::now();
    let released = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(STOPPED);
            start(&scene.servers);
        });
        guard.unlock()
    });
    let took = asked.elapsed();
    released.expect("all answer in the time of a member");
    assert!(took >= STOPPED - WAIT, "they were stopped: {took:?}");
    scene.assert_released();
}

/// What is left of the old hold is released on members that do not answer.
#[test]
fn an_old_hold_on_stopped_members_does_not_outlast_the_wait() {
    const WAIT: Duration = Duration::from_millis(200);
    let ground = Ground::alone();
    let scene = Scene::new(&ground, 5);
    let lock = scene.warm();
    let old = lock.try_lock_with_lease(Duration::from_millis(300));
    let old = old.expect("all answer").expect("free");
    stop(&scene.servers[..2]);
    eventually(SOON, "its time is over", || {
        !old.is_held() && old.lost_members().len() == 5
    });
    let asked = Instant::now();
    let new = lock.try_lock_for(WAIT).expect("three answer");
    let took = asked.elapsed();
    println!("with an old hold on stopped members: {took:?} of {WAIT:?}");
    assert!(took < WAIT + SLACK, "{took:?}");
    start(&scene.servers[..2]);
    drop((new, old));
    lock.lock().expect("all answer").unlock().expect("held");
    scene.assert_free_soon();
}

#[test]
fn a_lease_of_which_nothing_is_left_is_not_waited_for() {
    let ground = Ground::new();
    let scene = Scene::new(&ground, 3);
    let lock = scene.lock();
    let token = CancelToken::new();
    let error = thread::scope(|scope| {
        let options = lock.options().lease(Duration::from_millis(2));
        let waiter = scope.spawn(|| options.cancel(&token).acquire().map(drop));
        let _ = within(SOON, || waiter.is_finished());
        token.cancel();
        waiter.join().expect("ends well")
    });
    let error = error.expect_err("it could never be held");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(scene.is_free());
}

/// Somebody says that it is free, and the rest that was begun ends.
#[test]
fn a_message_ends_the_rest() {
    const TRIES: u32 = 6;
    // The shortest that they could take if nobody were woken.
    const RESTS: Duration = Duration::from_millis(20 * TRIES as u64);
    let ground = Ground::alone();
    let scene = Scene::new(&ground, 3);
    let lock = scene.warm();
    for server in &scene.servers {
        let mut redis = server.connection();
        let _: i64 = redis.hset(&scene.name, "other:1", 1).expect("HSET");
    }
    let server = &scene.servers[0];
    let channel = format!("redisson_lock__channel:{{{}}}", scene.name);
    let token = CancelToken::new();
    let woken = thread::scope(|scope| {
        let waiter = scope.spawn(|| lock.options().cancel(&token).acquire().map(drop));
        scene.assert_heard();
        let mut redis = server.connection();
        // On a machine that is busy with other things, some of these take longer.
        let woken = within(SOON, || {
            let asked = Instant::now();
            for _ in 0..TRIES {
                let before = server.script_calls();
                let _: i64 = redis.publish(&channel, "0").expect("PUBLISH");
                while server.script_calls() == before && asked.elapsed() < SOON {}
            }
            asked.elapsed() < RESTS
        });
        token.cancel();
        let error = waiter.join().expect("ends well").expect_err("cancelled");
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        woken
    });
    woken.expect("it tries as often as it is told");
    for server in &scene.servers {
        server.cli(&["DEL", &scene.name]);
    }
}

#[test]
fn a_cancelled_wait_leaves_nothing() {
    let ground = Ground::new();
    let scene = Scene::new(&ground, 3);
    let lock = scene.warm();
    for server in &scene.servers[..2] {
        let mut redis = server.connection();
        let _: i64 = redis.hset(&scene.name, "other:1", 1).expect("HSET");
    }
    let token = CancelToken::new();
    let error = thread::scope(|scope| {
        let waiter = scope.spawn(|| lock.options().cancel(&token).acquire().map(drop));
        let before = scene.servers[2].script_calls();
        eventually(SOON, "it tries again and again", || {
            scene.servers[2].script_calls() > before + 4
        });
        token.cancel();
        waiter.join().expect("ends well").expect_err("cancelled")
    });
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    assert!(
        !is_there(&scene.servers[2], &scene.name),
        "it was given back"
    );
    for server in &scene.servers[..2] {
        let fields: Vec<String> = server.connection().hkeys(&scene.name).expect("HKEYS");
        assert_eq!(fields, ["other:1"]);
        server.cli(&["DEL", &scene.name]);
    }
}
