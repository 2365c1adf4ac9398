//! A hand-over from thread to thread, and what happens to it on its way.

use std::{
    thread::{self, Scope, ScopedJoinHandle},
    time::{Duration, Instant},
};

use lockson::{AnyGuard, AnyLock, CancelToken, Client, ErrorKind};

use super::{
    Scene, faults,
    scene::{BOUND, LONG, TIMEOUT, taken},
};
use crate::support::{command, eventually, proxy::Matcher};

faults! {
    where hands_over;
    alone lost_reply_of_a_hand_over;
    alone lost_replies_of_a_hand_over;
    alone connection_cut_before_a_hand_over;
    alone connection_cut_after_a_hand_over;
    alone hand_over_that_never_arrives;
    alone heir_gives_up_during_a_hand_over;
    alone heir_is_cancelled_during_a_hand_over;
    alone server_dies_during_a_hand_over;
}

fn lost_reply_of_a_hand_over(scene: &Scene<'_>) {
    let client = scene.client();
    scene.proxy.swallow_replies(hand_over(&client), 1);
    let heir = hand_to(scene, &client, Ok(()), || scene.proxy.swallowed() > 0);
    assert_eq!(scene.proxy.swallowed(), 1);
    assert_eq!(heir, Some(1), "the next thread has it");
    scene.eventually_free(BOUND);
}

fn lost_replies_of_a_hand_over(scene: &Scene<'_>) {
    let client = scene.client();
    scene.proxy.swallow_replies(hand_over(&client), 2);
    let heir = hand_to(scene, &client, Err(ErrorKind::Timeout), || {
        scene.proxy.swallowed() > 0
    });
    assert_eq!(scene.proxy.swallowed(), 2);
    assert_eq!(heir, Some(1), "it gets in by itself");
    scene.eventually_free(BOUND);
    assert_eq!(scene.expired(), 0, "nothing was left to its time");
}

fn connection_cut_before_a_hand_over(scene: &Scene<'_>) {
    let client = scene.client();
    scene.proxy.cut_before(hand_over(&client), 1);
    let heir = hand_to(scene, &client, Ok(()), || scene.proxy.cuts() > 0);
    assert_eq!(scene.proxy.cuts(), 1);
    assert_eq!(heir, Some(1));
    scene.eventually_free(BOUND);
}

fn connection_cut_after_a_hand_over(scene: &Scene<'_>) {
    let client = scene.client();
    scene.proxy.cut_after(hand_over(&client), 1);
    let heir = hand_to(scene, &client, Ok(()), || scene.proxy.cuts() > 0);
    assert_eq!(scene.proxy.cuts(), 1);
    assert_eq!(heir, Some(1));
    scene.eventually_free(BOUND);
}

fn hand_over_that_never_arrives(scene: &Scene<'_>) {
    let client = scene.client();
    scene.proxy.drop_requests(hand_over(&client), 2);
    let heir = hand_to(scene, &client, Err(ErrorKind::Timeout), || {
        scene.proxy.dropped() > 0
    });
    assert_eq!(scene.proxy.dropped(), 2);
    assert_eq!(heir, Some(1), "it gets in by itself");
    scene.eventually_free(BOUND);
    assert_eq!(scene.expired(), 0, "nothing was left to its time");
}

fn heir_gives_up_during_a_hand_over(scene: &Scene<'_>) {
    let client = scene.client_with(LONG, |settings| {
        settings.response_timeout(Duration::from_secs(5))
    });
    give_up(scene, &client, false);
}

fn heir_is_cancelled_during_a_hand_over(scene: &Scene<'_>) {
    let client = scene.client_with(LONG, |settings| {
        settings.response_timeout(Duration::from_secs(5))
    });
    give_up(scene, &client, true);
}

/// The heir is gone when the lock becomes its own: the third in line gets it.
fn give_up(scene: &Scene<'_>, client: &Client, cancel: bool) {
    let lock = scene.lock(client);
    scene.proxy.hold(hand_over(client), 1);
    until_on_its_way(|| {
        let token = CancelToken::new();
        thread::scope(|scope| {
            let mut holder = Holder::start(scope, scene, client);
            let heir = scope.spawn(|| {
                let wait = Duration::from_millis(if cancel { 20_000 } else { 700 });
                let got = lock.options().wait(wait).cancel(&token).acquire();
                (got.map(|guard| guard.is_some()), Instant::now())
            });
            waiting(client, 2);
            let third = scope.spawn(|| {
                let guard = lock.try_lock_for(BOUND).expect("an answer");
                guard.is_some()
            });
            waiting(client, 3);
            holder.go();
            if !holder.is_handing_over(scene) {
                token.cancel();
                return false;
            }
            let began = Instant::now();
            if cancel {
                token.cancel();
            }
            let (got, at) = heir.join().expect("no panic");
            let took = at.saturating_duration_since(began);
            assert!(took < Duration::from_millis(1500), "{took:?}");
            match got {
                Ok(got) => assert!(!got && !cancel, "its time was over"),
                Err(error) => assert!(cancel && error.kind() == ErrorKind::Cancelled, "{error}"),
            }
            assert_eq!(scene.proxy.release_held(), 1);
            assert_eq!(holder.end(), Ok(()));
            assert!(third.join().expect("no panic"), "the third gets in");
            true
        })
    });
    scene.eventually_free(BOUND);
    assert_eq!(scene.expired(), 0, "nothing was left to its time");
}

fn server_dies_during_a_hand_over(scene: &Scene<'_>) {
    let client = scene.client();
    let lock = scene.lock(&client);
    scene.proxy.hold(hand_over(&client), 1);
    until_on_its_way(|| {
        thread::scope(|scope| {
            let mut holder = Holder::start(scope, scene, &client);
            let heir = scope.spawn(|| {
                let guard = lock.try_lock_for(BOUND).expect("an answer");
                guard.map(|guard| guard.is_held())
            });
            waiting(&client, 2);
            holder.go();
            if !holder.is_handing_over(scene) {
                return false;
            }
            scene.server.kill();
            scene.server.restart();
            scene.proxy.release_held();
            // There is no hold any more, or nobody could tell.
            let _ = holder.end();
            assert_eq!(heir.join().expect("no panic"), Some(true));
            true
        })
    });
    scene.eventually_free(BOUND);
}

/// Begins anew until the lock is handed over at all: a busy machine may take too long in between,
/// and then it is released instead.
fn until_on_its_way(attempt: impl Fn() -> bool) {
    let happened = (0..10).any(|_| attempt());
    assert!(happened, "the lock was never handed over");
}

/// Has one thread give the lock to the next, until that happens as `hit` tells: in between, a busy
/// machine may take too long. Says how often the next thread's hold stood in Redis when it got in.
fn hand_to(
    scene: &Scene<'_>,
    client: &Client,
    released: Result<(), ErrorKind>,
    hit: impl Fn() -> bool,
) -> Option<u64> {
    let lock = scene.lock(client);
    for _ in 0..10 {
        let (got, count) = thread::scope(|scope| {
            let mut holder = Holder::start(scope, scene, client);
            let heir = scope.spawn(|| heir(scene, &lock));
            waiting(client, 2);
            holder.go();
            (holder.end(), heir.join().expect("no panic"))
        });
        if hit() {
            assert_eq!(got, released);
            return count;
        }
    }
    panic!("the lock was never handed over");
}

fn heir(scene: &Scene<'_>, lock: &AnyLock) -> Option<u64> {
    let guard = lock.try_lock_for(BOUND).expect("an answer")?;
    assert!(guard.is_held());
    let holders = scene.holders();
    let [(who, count)] = &holders[..] else {
        panic!("one holder: {holders:?}");
    };
    assert_eq!(who, guard.holder());
    // Were it released behind its back, that would show by then.
    thread::sleep(TIMEOUT * 2);
    scene.assert_held(guard.holder(), 1);
    guard.unlock().expect("held");
    Some(*count)
}

/// A thread that releases the lock as soon as it has it, so that the next in line is given it.
///
/// It has it when somebody else has released: only a lock that was taken just now is handed over.
struct Holder<'s> {
    thread: ScopedJoinHandle<'s, Result<(), ErrorKind>>,
    before: Option<AnyGuard>,
    _other: Client,
}

impl<'s> Holder<'s> {
    fn start(scope: &'s Scope<'s, '_>, scene: &Scene<'_>, client: &Client) -> Self {
        let other = scene.other_client();
        let before = taken(&scene.lock(&other));
        let lock = scene.lock(client);
        let thread = scope.spawn(move || {
            let guard = lock.try_lock_for(BOUND).expect("an answer");
            let released = guard.expect("in time").unlock();
            released.map_err(|error| error.kind())
        });
        waiting(client, 1);
        Self {
            thread,
            before: Some(before),
            _other: other,
        }
    }

    fn go(&mut self) {
        let guard = self.before.take().expect("once");
        guard.unlock().expect("held");
    }

    /// Whether its hand-over is held up by the proxy; false when it released instead.
    fn is_handing_over(&self, scene: &Scene<'_>) -> bool {
        eventually(BOUND, "it releases", || {
            match (scene.proxy.held(), self.thread.is_finished()) {
                (0, false) => None,
                (held, _) => Some(held > 0),
            }
        })
    }

    fn end(self) -> Result<(), ErrorKind> {
        self.thread.join().expect("no panic")
    }
}

#[track_caller]
fn waiting(client: &Client, threads: usize) {
    eventually(BOUND, "the threads wait", || {
        client.state().waiters == threads
    });
}

/// Requests in which several holders of this client stand.
fn hand_over(client: &Client) -> impl Matcher + use<> {
    let holder = format!("\r\n{}:", client.id());
    let (eval, evalsha) = (command("eval"), command("evalsha"));
    move |request: &[u8]| {
        let windows = request.windows(holder.len());
        (eval(request) || evalsha(request))
            && windows
                .filter(|window| *window == holder.as_bytes())
                .count()
                >= 2
    }
}
