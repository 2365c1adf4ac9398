//! What happens between a thread that waits and the message that it waits for.

use std::{
    thread::{self, Scope, ScopedJoinHandle},
    time::{Duration, Instant},
};

use lockson::{AnyLock, Ended, ErrorKind, LostReason, Result};

use super::{
    Scene, faults,
    restarts::forget,
    scene::{BOUND, LONG, taken},
};
use crate::support::{ClientEntry, containing, eventually};

faults! {
    alone messages_cut_while_waiting;
    alone listener_killed_for_its_backlog;
    alone released_before_anybody_listened;
    new scripts_forgotten_while_waiting;
    new client_shut_down_while_some_wait;
    alone two_hundred_wait_by_one_connection;
    alone given_up_at_the_moment_of_the_wake;
}

fn messages_cut_while_waiting(scene: &Scene<'_>) {
    let late = let_in(scene, |scene| {
        let cut: u64 = redis::cmd("CLIENT")
            .arg(&["KILL", "TYPE", "pubsub"])
            .query(&mut scene.server.connection())
            .expect("CLIENT KILL");
        assert!(cut >= 1, "somebody listened");
    });
    println!("{}: messages cut, in after {late:?}", scene.kind.name);
    assert!(late < LATE, "{late:?}");
}

/// More than the server keeps for somebody who does not read: it hangs up, and what it had not sent
/// is lost.
fn listener_killed_for_its_backlog(scene: &Scene<'_>) {
    scene.server.cli(&[
        "CONFIG",
        "SET",
        "client-output-buffer-limit",
        "pubsub 64kb 0 0",
    ]);
    let late = let_in(scene, |scene| {
        let listening = listening(scene);
        let channel = scene.channels().pop().expect("it listens");
        scene
            .server
            .cli(&["PUBLISH", &channel, &"x".repeat(1 << 20)]);
        let left = scene.server.clients();
        assert!(!listening.is_empty());
        assert!(
            left.iter().all(|one| !listening.contains(&one.id())),
            "the server hung up"
        );
    });
    println!(
        "{}: killed by its backlog, in after {late:?}",
        scene.kind.name
    );
    assert!(late < LATE, "{late:?}");
}

/// It was refused, and what it waits for is over before its subscription is there.
fn released_before_anybody_listened(scene: &Scene<'_>) {
    let client = scene.client();
    let other = scene.other_client();
    let lock = scene.lock(&client);
    let guard = scene.teller(&other).try_lock_with_lease(LONG);
    let guard = guard.expect("an answer").expect("free");
    let (subscribes, about) = (
        containing("\r\nSUBSCRIBE\r\n"),
        containing(scene.name.clone()),
    );
    scene
        .proxy
        .hold(move |request| subscribes(request) && about(request), 1);
    thread::scope(|scope| {
        let waiting = waiter(scope, &lock);
        eventually(BOUND, "it wants to listen", || scene.proxy.held() == 1);
        guard.unlock().expect("held");
        assert_eq!(scene.channels(), Vec::<String>::new(), "nobody heard of it");
        let released = Instant::now();
        assert_eq!(scene.proxy.release_held(), 1);
        let late = entered(waiting).saturating_duration_since(released);
        println!("{}: unheard, in after {late:?}", scene.kind.name);
        assert!(late < LATE, "{late:?}");
    });
    scene.eventually_free(BOUND);
}

/// Between the refusal and the next try.
fn scripts_forgotten_while_waiting(scene: &Scene<'_>) {
    let late = let_in(scene, forget);
    println!("{}: scripts forgotten, in after {late:?}", scene.kind.name);
    assert!(
        late < BOUND / 4,
        "woken, and not by the longest sleep: {late:?}"
    );
}

/// Who waits is sent away and leaves nothing; what is held is lost, and left to its time.
fn client_shut_down_while_some_wait(scene: &Scene<'_>) {
    let client = scene.client();
    let other = scene.other_client();
    let theirs = taken(&scene.rival(&other));
    let keys = scene.keys().len();
    let mine = scene.renamed();
    let own = mine.lock(&client).try_lock_with_lease(LEASE);
    let own = own.expect("an answer").expect("free");
    let lock = scene.lock(&client);
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..5).map(|_| waiter(scope, &lock)).collect();
        eventually(BOUND, "they wait", || !scene.channels().is_empty());
        client.shutdown();
        for one in waiting {
            let (got, _) = one.join().expect("ends well");
            assert_eq!(got.expect_err("closed").kind(), ErrorKind::Closed);
        }
    });
    assert_eq!(own.lost().wait(BOUND), Ended::Lost(LostReason::Closed));
    assert!(!own.is_held());
    let error = own.unlock().expect_err("closed");
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    theirs.verify().expect("held");
    eventually(BOUND, "they have left", || scene.keys().len() == keys);
    mine.assert_held(&mine.holders()[0].0, 1);
    mine.eventually_free(BOUND);
    theirs.unlock().expect("held");
    scene.assert_free();
}

/// No herd: of what they are told, only those ask who may get in by it.
fn two_hundred_wait_by_one_connection(scene: &Scene<'_>) {
    const CROWD: usize = 200;
    let client = scene.client();
    let other = scene.other_client();
    let lock = scene.lock(&client);
    let guard = scene.teller(&other).try_lock_with_lease(LONG);
    let guard = guard.expect("an answer").expect("free");
    thread::scope(|threads| {
        let crowd: Vec<_> = (0..CROWD).map(|_| waiter(threads, &lock)).collect();
        eventually(BOUND, "they wait", || {
            // Those of a RedLock stand in no line.
            let waiting = client.state().waiters == CROWD || scene.kind.name == "red";
            waiting && !scene.channels().is_empty()
        });
        assert_eq!(listening(scene).len(), 1, "one connection");
        let before = scene.server.script_calls();
        guard.unlock().expect("held");
        for one in crowd {
            entered(one);
        }
        let each = (scene.server.script_calls() - before) as f64 / CROWD as f64;
        println!(
            "{}: {each:.2} scripts for each that got in",
            scene.kind.name
        );
        assert!(each <= 4.0 || scene.kind.name == "red", "{each}");
    });
    scene.eventually_free(BOUND);
    eventually(BOUND, "nobody listens", || listening(scene).is_empty());
}

/// What the first was woken for belongs to the next.
fn given_up_at_the_moment_of_the_wake(scene: &Scene<'_>) {
    let client = scene.client();
    let other = scene.other_client();
    let lock = scene.lock(&client);
    let (mut got, mut left) = (0, 0);
    let mut longest = Duration::ZERO;
    // How long after the release is due the first gives up, in µs. It follows the moment, wherever
    // that is on this machine.
    let mut after = 0_i64;
    for _ in 0..150 {
        let guard = scene.teller(&other).try_lock_with_lease(LONG);
        let guard = guard.expect("an answer").expect("free");
        let shot = Instant::now() + LEAD;
        let step = Duration::from_micros(after.unsigned_abs());
        let end = match after < 0 {
            true => shot - step.min(LEAD),
            false => shot + step,
        };
        thread::scope(|threads| {
            // On a busy machine its last attempt may go without an answer: that is giving up, too.
            let first = threads.spawn(|| match lock.try_lock_until(end) {
                Ok(guard) => guard.is_some(),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
                    false
                }
            });
            let next = waiter(threads, &lock);
            thread::sleep(shot.saturating_duration_since(Instant::now()));
            guard.unlock().expect("held");
            let released = Instant::now();
            let late = entered(next).saturating_duration_since(released);
            longest = longest.max(late);
            match first.join().expect("ends well") {
                true => {
                    got += 1;
                    after -= 150;
                }
                false => {
                    left += 1;
                    after += 150;
                }
            }
        });
    }
    println!(
        "{}: {got} got in, {left} left, the next after {longest:?} at most",
        scene.kind.name
    );
    assert!(got > 0 && left > 0, "both happen");
    // A wake that was lost shows as a sleep of three seconds.
    assert!(longest < Duration::from_millis(1500), "{longest:?}");
    scene.eventually_free(BOUND);
}

/// Has a thread wait for what another client holds, breaks something, releases, and says how late
/// the thread was in.
#[track_caller]
fn let_in(scene: &Scene<'_>, break_it: fn(&Scene<'_>)) -> Duration {
    let client = scene.client();
    let other = scene.other_client();
    let lock = scene.lock(&client);
    let mut longest = Duration::ZERO;
    for _ in 0..3 {
        let guard = scene.teller(&other).try_lock_with_lease(LONG);
        let guard = guard.expect("an answer").expect("free");
        thread::scope(|scope| {
            let waiting = waiter(scope, &lock);
            eventually(BOUND, "it listens", || !scene.channels().is_empty());
            break_it(scene);
            guard.unlock().expect("held");
            let released = Instant::now();
            let late = entered(waiting).saturating_duration_since(released);
            longest = longest.max(late);
        });
        scene.eventually_free(BOUND);
        eventually(BOUND, "nobody listens any more", || {
            scene.channels().is_empty()
        });
    }
    longest
}

/// Takes the lock when it can, releases it, and says when it had it.
pub(super) fn waiter<'s>(
    scope: &'s Scope<'s, '_>,
    lock: &'s AnyLock,
) -> ScopedJoinHandle<'s, (Result<bool>, Instant)> {
    scope.spawn(move || {
        let got = lock.try_lock_for(LONG);
        let at = Instant::now();
        let got = got.and_then(|guard| match guard {
            Some(guard) => guard.unlock().map(|()| true),
            None => Ok(false),
        });
        (got, at)
    })
}

#[track_caller]
pub(super) fn entered(waiting: ScopedJoinHandle<'_, (Result<bool>, Instant)>) -> Instant {
    let (got, at) = waiting.join().expect("ends well");
    assert!(got.expect("it is let in"), "before its time was over");
    at
}

/// The connections that listen.
fn listening(scene: &Scene<'_>) -> Vec<u64> {
    let clients = scene.server.clients();
    let listening = clients.iter().filter(|one| one.channels() > 0);
    listening.map(ClientEntry::id).collect()
}

/// How late a waiter may be whose message was lost.
const LATE: Duration = Duration::from_millis(500);
/// Time for two threads to begin to wait.
const LEAD: Duration = Duration::from_millis(4);
const LEASE: Duration = Duration::from_secs(2);
