//! What comes late, or in the moment of something else.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{SOON, faults::Scene, fields, millis, secs, slot, ttl};
use crate::support::{Ground, containing, eventually, script};

/// A release that was given up would take the slot of the guard that came after it.
#[test]
fn a_late_release_does_not_shorten_the_next_re_entry() {
    let ground = Ground::new();
    let scene = Scene::new(&ground);
    let (lock, other) = scene.locks();
    // A late copy runs only if the server knows its script.
    lock.read().expect("free").unlock().expect("held");
    let outer = lock.read_with_lease(secs(20)).expect("free");
    let gone = lock.read_with_lease(secs(30)).expect("its own");
    scene.proxy.hold(script(channel(lock.name())), 100);
    scene.proxy.hold(containing("KILL"), 100);
    gone.unlock().expect_err("no answer");
    // The release, what should end it before its repetition, and what the watchdog would do: who enters
    // again is before it.
    eventually(SOON, "the watchdog is kept from it", || {
        scene.proxy.held() >= 3
    });
    scene.proxy.clear();
    let inner = lock.try_read_with_lease(secs(60));
    let inner = inner.expect("answered").expect("its own");
    assert!(scene.proxy.release_held() > 0);
    scene.settle();
    let kept = slot(&scene.server, &lock, inner.holder(), 2);
    assert!(kept > 50_000, "{kept}");
    assert!(ttl(&scene.server, &lock) > 50_000);
    assert!(other.try_write().expect("answered").is_none());
    inner.unlock().expect("held");
    outer.unlock().expect("held");
    scene.settle();
    scene.assert_free();
}

/// Its message comes before the answer to a release of ours, and is not the echo of that.
#[test]
fn the_last_reader_elsewhere_wakes_the_writer_while_we_release() {
    let ground = Ground::alone();
    let scene = Scene::new(&ground);
    let (lock, other) = scene.locks();
    let mut crossed = 0;
    for _ in 0..8 {
        let mine = lock.read_lock().lock_owned().expect("free");
        let last = other.read_lock().lock_owned().expect("shared");
        let holder = mine.holder().to_owned();
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let guard = lock.write().expect("let in");
                let entered = Instant::now();
                guard.unlock().expect("held");
                entered
            });
            eventually(SOON, "it waits", || scene.far.state().waiters == 1);
            scene.asleep();
            scene.proxy.delay(millis(60));
            let ours = scope.spawn(|| mine.unlock().expect("held"));
            eventually(SOON, "the server has released ours", || {
                !fields(&scene.server, &lock).contains_key(&holder)
            });
            scene.proxy.delay(Duration::ZERO);
            last.unlock().expect("held");
            let free = Instant::now();
            crossed += usize::from(!ours.is_finished());
            ours.join().expect("ends well");
            let entered = writer.join().expect("ends well");
            let late = entered.saturating_duration_since(free);
            assert!(late < millis(1000), "{late:?}");
        });
        scene.assert_free();
    }
    assert!(crossed > 0, "no message came in between");
}

impl Scene {
    /// Waits until who waits has looked a last time after it began to listen.
    #[track_caller]
    fn asleep(&self) {
        eventually(SOON, "it listens and asks no more", || {
            let listens = self.server.clients().iter().any(|one| one.channels() > 0);
            let asked = self.server.script_calls();
            thread::sleep(millis(20));
            listens && self.server.script_calls() == asked
        });
    }
}

fn channel(name: &str) -> String {
    format!("redisson_rwlock:{{{name}}}")
}
