//! By the clock of the hold itself: whatever Redis says, and once for all.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use lockson::{Client, Ended, ErrorKind, LockGuard, LostReason};
use redis::Commands;

use super::{BOUND, fails, leased, listening, millis, secs, taken};
use crate::{
    support::{Ground, Proxy, Told, connect_to, eventually, script},
    watchdog::is_renewed,
};

#[test]
fn the_end_of_a_lease_is_told() {
    let ground = Ground::new();
    let (client, told) = listening(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let (outer, inner) = (leased(&lock, millis(300)), leased(&lock, millis(300)));
    for guard in [&outer, &inner] {
        assert_eq!(guard.lost().wait(BOUND), Ended::Lost(LostReason::Expired));
        assert!(!guard.is_held());
        assert_eq!(guard.remaining(), Duration::ZERO);
        assert_eq!(guard.lost().reason(), Some(LostReason::Expired));
    }
    eventually(BOUND, "the event", || told.lost().len() == 1);
    let told = told.lost().remove(0);
    let holder = outer.holder().to_owned();
    assert_eq!(told, (lock.name().to_owned(), holder, LostReason::Expired));
    assert_eq!(client.state().holds, 0);
    eventually(BOUND, "it ends in Redis too", || {
        !lock.is_locked().expect("answered")
    });

    // Without asking: the time is over whatever Redis says.
    let monitor = ground.server().monitor();
    fails(outer.verify(), ErrorKind::Lost);
    fails(outer.extend(secs(10)), ErrorKind::Lost);
    assert_eq!(monitor.take(), Vec::<String>::new());
    fails(inner.unlock(), ErrorKind::NotHeld);
    fails(outer.unlock(), ErrorKind::NotHeld);
}

#[test]
fn told_without_a_reply_from_redis() {
    let ground = Ground::new();
    let server = ground.server();
    let (client, told) = listening(&ground);
    let guard = leased(&client.reentrant_lock(ground.name("L")), millis(500));
    server.freeze();
    assert_eq!(guard.lost().wait(BOUND), Ended::Lost(LostReason::Expired));
    assert!(!guard.is_held());
    eventually(BOUND, "the event", || told.lost().len() == 1);
    server.thaw();
    drop(guard);
}

/// Redis keeps the key, because a hand wrote so: the hold is over nevertheless.
#[test]
fn a_ttl_raised_by_hand_does_not_lengthen_a_lease() {
    let ground = Ground::new();
    let (client, _) = listening(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let guard = leased(&lock, millis(300));
    ground.server().cli(&["PEXPIRE", lock.name(), "60000"]);
    assert_eq!(guard.lost().wait(BOUND), Ended::Lost(LostReason::Expired));
    assert!(lock.is_locked().expect("answered"));
    guard.unlock().expect("Redis had it, and nothing is left");
    assert!(!lock.is_locked().expect("answered"));
}

#[test]
fn an_extension_answered_too_late_does_not_bring_it_back() {
    let ground = Ground::new();
    let (client, proxy) = through_a_proxy(&ground, secs(30), &Told::default());
    let lock = client.reentrant_lock(ground.name("L"));
    let guard = leased(&lock, millis(400));
    // So that the server knows the script.
    guard.extend(millis(400)).expect("held");
    proxy.delay(millis(600));
    never_again(&guard, || {
        fails(guard.extend(secs(60)), ErrorKind::Lost);
        proxy.delay(Duration::ZERO);
        thread::sleep(millis(100));
        assert!(proxy.delayed() > 0);
    });
    assert!(!guard.is_held());
    // It did raise the TTL: nobody shall wait a minute for it.
    let mut spy = ground.server().connection();
    eventually(BOUND, "it is released", || {
        !spy.exists::<_, bool>(lock.name()).expect("EXISTS")
    });
    fails(guard.unlock(), ErrorKind::NotHeld);
}

#[test]
fn a_re_entry_answered_too_late_is_a_hold_of_its_own() {
    let ground = Ground::new();
    let told = Told::default();
    let (client, proxy) = through_a_proxy(&ground, secs(30), &told);
    let lock = client.reentrant_lock(ground.name("L"));
    let old = leased(&lock, millis(400));
    proxy.delay(millis(600));
    never_again(&old, || {
        let new = taken(&lock);
        proxy.delay(Duration::ZERO);
        assert_ne!(new.holder(), old.holder());
        assert!(new.is_held());
        assert_eq!(lock.hold_count().expect("answered"), 1);
        thread::sleep(millis(100));
        new.unlock().expect("held");
    });
    assert_eq!(told.lost().len(), 1);
    fails(old.unlock(), ErrorKind::NotHeld);
}

/// A renewal that is done in time and answered when the time is over, by little and by more.
#[test]
fn once_lost_it_is_never_held_again() {
    let ground = Ground::alone();
    // Without a handler: nobody but the clock looks at it until the answer is there.
    let proxy = Proxy::to(ground.server().addr());
    let client = connect_to(&ground, &proxy.url(), |builder| {
        builder.lock_watchdog_timeout(TIMEOUT)
    });
    for after in [1, 100] {
        let guard = with_late_renewal(&ground, &client, &proxy, millis(after));
        never_again(&guard, || thread::sleep(millis(500)));
        assert!(!guard.is_held());
        assert_eq!(guard.lost().reason(), Some(LostReason::Expired));
        // It did raise the TTL: nobody shall wait for the end of that.
        let lock = client.reentrant_lock(guard.name());
        eventually(BOUND, "it is released in Redis", || {
            !lock.is_locked().expect("answered")
        });
        fails(guard.unlock(), ErrorKind::NotHeld);
    }
}

/// A renewal that is done, and answered only when the hold was released and its time over.
#[test]
fn what_was_released_is_not_reported_lost() {
    let ground = Ground::alone();
    let told = Told::default();
    let (client, proxy) = through_a_proxy(&ground, TIMEOUT, &told);
    let guard = with_late_renewal(&ground, &client, &proxy, millis(100));
    let signal = guard.lost();
    guard.unlock().expect("held");
    assert_eq!(signal.wait(BOUND), Ended::Released);
    // Long enough for the late answer to arrive.
    thread::sleep(millis(500));
    assert_eq!(signal.wait(BOUND), Ended::Released);
    assert_eq!(told.lost(), []);
}

/// A hold whose last renewal is done and not answered yet: the answer is still under way, and will
/// come so long after the time of the hold is over.
///
/// Two renewals are lost before it. The watchdog waits 500 ms for an answer, so that all comes to
/// pass only if the hold is taken shortly before its tick.
#[track_caller]
fn with_late_renewal(
    ground: &Ground,
    client: &Client,
    proxy: &Proxy,
    after: Duration,
) -> LockGuard {
    let probe = taken(&client.reentrant_lock(ground.name("probe")));
    is_renewed(&probe);
    thread::sleep(millis(350));
    probe.unlock().expect("held");
    let guard = taken(&client.reentrant_lock(ground.name("L")));
    let (dropped, held, delayed) = (proxy.dropped(), proxy.held(), proxy.delayed());
    proxy.drop_requests(script(guard.name()), 2);
    proxy.hold(script(guard.name()), 1);
    eventually(BOUND, "the third renewal is on its way", || {
        proxy.dropped() == dropped + 2 && proxy.held() > held
    });
    eventually(BOUND, "its time is nearly over", || {
        guard.remaining() < millis(80)
    });
    let left = guard.remaining();
    assert!(!left.is_zero());
    proxy.delay(left + after);
    assert_eq!(proxy.release_held(), 1);
    eventually(BOUND, "its answer is late", || proxy.delayed() > delayed);
    proxy.delay(Duration::ZERO);
    guard
}

const TIMEOUT: Duration = millis(1500);

fn through_a_proxy(ground: &Ground, timeout: Duration, told: &Told) -> (Client, Proxy) {
    let proxy = Proxy::to(ground.server().addr());
    let client = connect_to(ground, &proxy.url(), |builder| {
        builder
            .lock_watchdog_timeout(timeout)
            .on_event(told.handler())
    });
    (client, proxy)
}

/// Looks at a guard all the time while `during` runs: once lost, it must stay so.
#[track_caller]
fn never_again(guard: &LockGuard, during: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    let came_back = thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let (mut lost, mut came_back, start) = (false, false, Instant::now());
            while !stop.load(Ordering::SeqCst) && start.elapsed() < BOUND {
                for _ in 0..200 {
                    let held = guard.is_held();
                    came_back |= lost && held;
                    lost |= !held;
                }
                thread::sleep(Duration::from_micros(100));
            }
            came_back
        });
        // Not by catching a panic: the thread ends by itself after a while.
        during();
        stop.store(true, Ordering::SeqCst);
        watcher.join().expect("it only looks")
    });
    assert!(!came_back, "held again after it was lost");
}
