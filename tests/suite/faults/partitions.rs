//! Links that carry nothing, or nothing back, for longer than the hold lasts.

use std::{
    thread,
    time::{Duration, Instant},
};

use lockson::{AnyGuard, Ended, ErrorKind, LostReason};

use super::{
    Scene, faults,
    replies::{end_of, outlives},
    scene::{BOUND, LONG, Losses, SLACK, enter, taken},
};
use crate::support::{containing, eventually, proxy::ALWAYS};

faults! {
    alone black_hole_longer_than_the_lease;
    alone replies_lost_until_the_time_was_over;
    alone extension_unheard_until_the_time_was_over;
    alone answers_heard_after_the_time_was_over;
}

fn black_hole_longer_than_the_lease(scene: &Scene<'_>) {
    let losses = Losses::default();
    let client = scene.client_with(WATCHDOG, |settings| settings.on_event(losses.listen()));
    let other = scene.other_client();
    let rival = scene.rival(&other);
    let guard = taken(&scene.lock(&client));
    scene.proxy.black_hole(true);
    // From then on no answer can be under way.
    eventually(BOUND, "a renewal is lost", || scene.proxy.lost() > 0);
    let deadline = Instant::now() + guard.remaining();

    let signal = guard.lost();
    let watcher = thread::spawn(move || (signal.wait(LONG), Instant::now()));
    let (next, entered) = enter(&rival, BOUND);
    let (ended, told) = watcher.join().expect("no panic");
    assert_eq!(ended, Ended::Lost(LostReason::Expired));
    assert!(!guard.is_held());
    assert_eq!(guard.remaining(), Duration::ZERO);
    let (reason, heard) = losses.of(guard.holder());
    assert_eq!(reason, LostReason::Expired);

    let late = |at: Instant| at.saturating_duration_since(deadline);
    println!(
        "told {:?}, event {:?}, the next in {:?} after the end",
        late(told),
        late(heard),
        late(entered)
    );
    assert!(told >= deadline && heard >= deadline);
    assert!(late(told) < AT_ONCE, "{:?}", late(told));
    assert!(late(heard) < AT_ONCE, "{:?}", late(heard));
    // Redis counts in milliseconds: by one of them its end may come first.
    assert!(entered + Duration::from_millis(2) > deadline);
    assert!(late(entered) < SLACK, "{:?}", late(entered));

    scene.proxy.black_hole(false);
    let error = guard.unlock().expect_err("another has it");
    assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
    scene.assert_held(next.holder(), 1);
    next.unlock().expect("held");
    scene.assert_free();
}

/// Redis keeps a hold that nobody believes in any more, and is told so when the link is back.
fn replies_lost_until_the_time_was_over(scene: &Scene<'_>) {
    let client = scene.client_with(3 * WATCHDOG, |settings| settings);
    let guard = taken(&scene.lock(&client));
    // The watchdog has its connection by then: on a new one it would wait for the greeting.
    outlives(scene, &guard, end_of(&guard));
    scene.proxy.swallow_replies_from(|_: &[u8]| true, ALWAYS);
    let lost = guard.lost().wait(BOUND);
    assert_eq!(lost, Ended::Lost(LostReason::Expired));
    assert!(scene.proxy.swallowed() > 0);
    assert_eq!(scene.holders(), [(guard.holder().to_owned(), 1)]);
    let left = scene.ttl();
    assert!(left > 200, "{left} ms: a renewal was heard");

    let expired = scene.expired();
    scene.proxy.clear();
    let back = Instant::now();
    scene.eventually_free(BOUND);
    println!("released {:?} after the link, of {left} ms", back.elapsed());
    assert_eq!(scene.expired(), expired, "released, not expired");
    let again = taken(&scene.lock(&client));
    assert_ne!(again.holder(), guard.holder());
    let error = guard.unlock().expect_err("it is over");
    assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
    scene.assert_held(again.holder(), 1);
    again.unlock().expect("held");
}

/// As above with much more time to lose, and with nobody who would wake up by himself.
fn extension_unheard_until_the_time_was_over(scene: &Scene<'_>) {
    let client = scene.client();
    let lock = scene.lock(&client);
    let guard = lock.try_lock_with_lease(WATCHDOG);
    let guard = guard.expect("an answer").expect("free");
    // Not what the watchdog asserts meanwhile, which is less.
    let (scripts, lease) = (scene.scripts(), containing("\r\n60000\r\n"));
    scene
        .proxy
        .swallow_replies(move |request| scripts(request) && lease(request), 2);
    let error = guard.extend(LONG).expect_err("nobody answers");
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert_eq!(scene.proxy.swallowed(), 2);
    assert!(guard.is_held(), "its own time is not over yet");
    scene.assert_held(guard.holder(), 1);

    assert_eq!(guard.lost().wait(BOUND), Ended::Lost(LostReason::Expired));
    let over = Instant::now();
    scene.eventually_free(BOUND);
    println!("released {:?} after the end, of {LONG:?}", over.elapsed());
    assert!(over.elapsed() < 2 * SLACK, "{:?}", over.elapsed());
    let again = taken(&lock);
    let error = guard.unlock().expect_err("it is over");
    assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
    again.unlock().expect("held");
}

/// What an answer says was so when it was given: nobody may believe in it any more.
fn answers_heard_after_the_time_was_over(scene: &Scene<'_>) {
    let client = scene.client_with(LONG, |settings| {
        settings
            .response_timeout(BOUND)
            .red_lock_member_timeout(BOUND)
    });
    let lock = scene.lock(&client);
    let calls: [fn(&AnyGuard) -> lockson::Result<()>; 2] =
        [|guard| guard.verify(), |guard| guard.extend(LONG)];
    for call in calls {
        let guard = lock.try_lock_with_lease(WATCHDOG);
        let guard = guard.expect("an answer").expect("free");
        scene.proxy.delay(WATCHDOG + SLACK / 2);
        let error = call(&guard).expect_err("too late");
        assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
        scene.proxy.delay(Duration::ZERO);
        assert!(!guard.is_held());
        assert_eq!(guard.lost().reason(), Some(LostReason::Expired));
        scene.eventually_free(BOUND);
        taken(&lock).unlock().expect("held");
    }
    assert!(scene.proxy.delayed() >= 2);
}

const WATCHDOG: Duration = Duration::from_millis(900);
/// How soon a guard must know that its time is over.
const AT_ONCE: Duration = Duration::from_millis(100);
