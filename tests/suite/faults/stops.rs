//! A server that is stopped and goes on: what it was asked meanwhile it does late.

use std::{thread, time::Duration};

use lockson::{AnyLock, Client, ErrorKind};

use super::{
    Scene, faults,
    scene::{BOUND, LONG, SLACK, TIMEOUT, enter, taken, timed},
};

faults! {
    alone acquires_given_up_while_the_server_was_stopped;
    alone releases_given_up_while_the_server_was_stopped;
    alone server_stopped_and_continued_within_the_budget;
}

fn acquires_given_up_while_the_server_was_stopped(scene: &Scene<'_>) {
    let other = scene.other_client();
    let rival = scene.rival(&other);
    let monitor = scene.server.monitor();
    let mut late = 0;
    let mut client = hasty(scene);
    for round in 0..ROUNDS {
        let before = scene.expired();
        monitor.take();
        scene.server.freeze();
        fails_in_time(&scene.lock(&client));
        let ends = round % 2 == 1;
        if ends {
            // Then nobody is there to clean up: what was written behind the copy must do.
            let (_, took) = timed(|| drop(std::mem::replace(&mut client, lazy(scene))));
            assert!(took < HASTY + SLACK, "{took:?}");
        }
        scene.server.thaw();

        // As soon as the late copy is undone; its own time is far longer.
        let (next, _) = enter(&rival, BOUND);
        let holder = next.holder().to_owned();
        if ends {
            client = hasty(scene);
        } else {
            scene.settle(&client);
        }
        let told = monitor.take_commands();
        late += usize::from(told.iter().any(|line| is_late(line, scene, &holder)));
        scene.assert_held(&holder, 1);
        next.unlock().expect("held");
        scene.assert_free();
        assert_eq!(scene.expired(), before, "released, not expired");
        assert_eq!(client.state().holds, 0);
    }
    assert!(late > 0, "copies ran late");
    println!("0 orphans after {ROUNDS} stops, {late} late copies ran");
}

fn releases_given_up_while_the_server_was_stopped(scene: &Scene<'_>) {
    let other = scene.other_client();
    let client = hasty(scene);
    for _ in 0..3 {
        let guard = taken(&scene.lock(&client));
        scene.server.freeze();
        let (failed, took) = timed(|| guard.unlock());
        let error = failed.expect_err("nobody answers");
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert!(took < 2 * HASTY + SLACK, "{took:?}");
        assert_eq!(client.state().holds, 0);
        scene.server.thaw();

        let (next, _) = enter(&scene.rival(&other), BOUND);
        scene.settle(&client);
        scene.assert_held(next.holder(), 1);
        next.unlock().expect("held");
        scene.assert_free();
    }
    assert_eq!(scene.expired(), 0, "released, not expired");
}

/// The first copy waits at the server when the second comes.
fn server_stopped_and_continued_within_the_budget(scene: &Scene<'_>) {
    let client = scene.client();
    let lock = scene.lock(&client);
    for _ in 0..3 {
        let guard = while_stopped(scene, || taken(&lock));
        scene.assert_held(guard.holder(), 1);
        let messages = scene.messages();
        while_stopped(scene, || guard.unlock()).expect("released");
        scene.settle(&client);
        scene.assert_free();
        assert_eq!(scene.messages() - messages, scene.kind.messages);
    }
}

/// Stops the server and lets it go on when the first attempt has been given up.
fn while_stopped<T>(scene: &Scene<'_>, work: impl FnOnce() -> T) -> T {
    scene.server.freeze();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(TIMEOUT + TIMEOUT / 5);
            scene.server.thaw();
        });
        let (done, took) = timed(work);
        assert!(took > TIMEOUT, "the first attempt failed: {took:?}");
        done
    })
}

#[track_caller]
fn fails_in_time(lock: &AnyLock) {
    let (tried, took) = timed(|| lock.try_lock());
    let error = tried.expect_err("nobody answers");
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(took < 2 * HASTY + SLACK, "{took:?}");
}

/// Whether this line of MONITOR is a script for this lock by somebody else.
fn is_late(line: &str, scene: &Scene<'_>, holder: &str) -> bool {
    line.contains("\"EVAL") && line.contains(&scene.name) && !line.contains(holder)
}

fn hasty(scene: &Scene<'_>) -> Client {
    scene.client_with(LONG, |settings| settings.response_timeout(HASTY))
}

/// In the place of another while the server does not answer.
fn lazy(scene: &Scene<'_>) -> Client {
    let made = Client::builder().connect_lazy(&scene.proxy.url());
    crate::support::watched(scene.ground, made)
}

const ROUNDS: usize = 20;
const HASTY: Duration = Duration::from_millis(100);
