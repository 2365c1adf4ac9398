//! What guards say of a hold that lives, that ran out, and that was taken away.

use std::{
    sync::mpsc,
    time::{Duration, Instant},
};

use lockson::{Ended, Error, ErrorKind, Event, LockGuard, LostReason, ReentrantLock, Ttl};

use super::{
    SOON, is_refused, leased, millis, number, other_thread, owned, seconds_left, secs, taken,
};
use crate::support::{Ground, Proxy, connect, connect_to, connect_with, eventually};

#[test]
fn a_live_hold() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let guard = leased(&lock, secs(20));
    let lost = guard.lost();

    assert!(guard.is_held());
    assert!(guard.remaining() > secs(18) && guard.remaining() <= secs(20));
    assert_eq!(guard.name(), lock.name());
    let seen = lock.inspect().expect("answered").holders;
    assert_eq!(seen[0].holder, guard.holder());
    guard.verify().expect("there");
    assert!(!lost.is_lost());
    assert_eq!(lost.reason(), None);
    assert_eq!(lost.wait(Duration::ZERO), Ended::TimedOut);
    assert_eq!(lost.wait(millis(5)), Ended::TimedOut);

    guard.extend(secs(5)).expect("there");
    assert_eq!(seconds_left(&lock), 20, "never shortened");
    assert!(guard.remaining() > secs(18));
    guard.extend(secs(40)).expect("there");
    assert_eq!(seconds_left(&lock), 40);
    assert!(guard.remaining() > secs(38) && guard.remaining() <= secs(40));

    guard.unlock().expect("held");
    assert_eq!(lost.wait(SOON), Ended::Released);
    assert_eq!((lost.is_lost(), lost.reason()), (false, None));
}

#[test]
fn one_of_two_guards_gone_is_no_loss() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    let (outer, inner) = (taken(&lock), taken(&lock));
    let (outer_lost, inner_lost) = (outer.lost(), inner.lost());
    drop(inner);
    assert_eq!(inner_lost.wait(SOON), Ended::Released);
    assert_eq!(outer_lost.wait(Duration::ZERO), Ended::TimedOut);
    outer.verify().expect("there");
    drop(outer);
    assert_eq!(outer_lost.wait(SOON), Ended::Released);
}

#[test]
fn an_expired_hold() {
    let ground = Ground::new();
    let (events, told) = mpsc::channel();
    let client = connect_with(&ground, |plain| {
        plain.on_event(move |event| events.send(event.clone()).expect("the test listens"))
    });
    let lock = client.reentrant_lock(ground.name("L"));
    let before = Instant::now();
    let guard = leased(&lock, millis(150));
    let lost = guard.lost();
    // Nobody else is needed to notice it.
    assert_eq!(lost.wait(SOON), Ended::Lost(LostReason::Expired));
    assert!(before.elapsed() >= millis(150));

    assert_told_lost(&guard, LostReason::Expired);
    let error = guard.verify().expect_err("too late");
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert_eq!(error.name(), Some(lock.name()));
    assert_eq!(kind(guard.extend(secs(5))), ErrorKind::Lost);
    assert_eq!(lock.hold_count().expect("answered"), 0);

    // It is not waited for: the handler hears of it without any call.
    match told.recv_timeout(SOON).expect("an event") {
        Event::Lost {
            name,
            holder,
            reason,
            ..
        } => {
            assert_eq!((&*name, &*holder), (lock.name(), guard.holder()));
            assert_eq!(reason, LostReason::Expired);
        }
        other => panic!("{other:?}"),
    }
    eventually(SOON, "Redis too lets it go", || {
        !lock.is_locked().expect("answered")
    });
    assert_eq!(kind(guard.unlock()), ErrorKind::NotHeld);
    assert_eq!(
        lost.reason(),
        Some(LostReason::Expired),
        "once said, it stays"
    );
}

#[test]
fn a_hold_unlocked_by_force_here() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let (outer, inner) = (taken(&lock), taken(&lock));
    let lost = inner.lost();
    assert!(other_thread(|| lock.force_unlock().expect("answered")));
    for guard in [&outer, &inner] {
        assert_told_lost(guard, LostReason::Gone);
        assert_gone_for_good(guard);
    }
    assert_eq!((client.state().holds, client.state().renewals), (0, 0));
    assert_eq!(kind(inner.unlock()), ErrorKind::NotHeld);
    assert_eq!(kind(outer.unlock()), ErrorKind::NotHeld);
    assert_eq!(lost.wait(SOON), Ended::Lost(LostReason::Gone));
}

#[test]
fn an_owned_hold_unlocked_by_force_here() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    let guard = owned(&lock);
    assert!(lock.force_unlock().expect("answered"));
    assert!(!guard.is_held());
    assert_eq!(guard.lost().reason(), Some(LostReason::Gone));
    assert_eq!(kind(guard.unlock()), ErrorKind::NotHeld);
}

#[test]
fn a_hold_that_others_deleted_is_lost_as_soon_as_anybody_asks() {
    type Ask = fn(&LockGuard, &ReentrantLock) -> Option<Error>;
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let asks: [Ask; 3] = [
        |guard, _| guard.verify().err(),
        |guard, _| guard.extend(secs(5)).err(),
        // A new acquisition finds it out too, and begins anew.
        |_, lock| {
            drop(taken(lock));
            None
        },
    ];
    for ask in asks {
        let guard = taken(&lock);
        let lost = guard.lost();
        ground.server().cli(&["DEL", lock.name()]);
        assert!(guard.is_held(), "nobody asked yet");
        if let Some(error) = ask(&guard, &lock) {
            assert_eq!(error.kind(), ErrorKind::NotHeld);
            assert_eq!(error.name(), Some(lock.name()));
        }
        assert_told_lost(&guard, LostReason::Gone);
        assert_gone_for_good(&guard);
        assert_eq!((client.state().holds, client.state().renewals), (0, 0));
        assert_eq!(kind(guard.unlock()), ErrorKind::NotHeld);
        assert_eq!(lost.reason(), Some(LostReason::Gone));
    }
}

#[test]
fn the_watchdog_notices_a_deleted_hold() {
    let ground = Ground::new();
    let (events, told) = mpsc::channel();
    let client = connect_with(&ground, |plain| {
        plain
            .lock_watchdog_timeout(millis(1500))
            .on_event(move |event| events.send(event.clone()).expect("the test listens"))
    });
    let lock = client.reentrant_lock(ground.name("L"));
    let guard = taken(&lock);
    ground.server().cli(&["DEL", lock.name()]);
    assert_eq!(guard.lost().wait(SOON), Ended::Lost(LostReason::Gone));
    let event = told.recv_timeout(SOON).expect("an event");
    assert!(
        matches!(
            event,
            Event::Lost {
                reason: LostReason::Gone,
                ..
            }
        ),
        "{event:?}"
    );
    drop(guard);
}

#[test]
fn after_a_loss_a_hold_of_its_own_begins() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    let (outer, inner) = (taken(&lock), taken(&lock));
    ground.server().cli(&["DEL", lock.name()]);

    let new = leased(&lock, secs(20));
    assert_eq!(lock.hold_count().expect("answered"), 1);
    assert!(number(new.holder()) > number(outer.holder()));
    for guard in [&outer, &inner] {
        assert_told_lost(guard, LostReason::Gone);
        assert_gone_for_good(guard);
    }
    // Nothing that the old guards do touches it.
    assert_eq!(kind(inner.unlock()), ErrorKind::NotHeld);
    drop(outer);
    let seen = lock.inspect().expect("answered");
    assert_eq!(seen.holders.len(), 1);
    assert_eq!(
        (&*seen.holders[0].holder, seen.holders[0].count),
        (new.holder(), 1)
    );
    assert_eq!(seconds_left(&lock), 20);
    new.verify().expect("there");
    let again = taken(&lock);
    assert_eq!(again.holder(), new.holder());
    assert_eq!(lock.hold_count().expect("answered"), 2);
    drop(new);
    again.unlock().expect("held");
}

#[test]
fn a_hold_that_ran_out_is_not_re_entered() {
    let ground = Ground::new();
    let lock = connect(&ground).reentrant_lock(ground.name("L"));
    let old = leased(&lock, millis(50));
    assert_eq!(old.lost().wait(SOON), Ended::Lost(LostReason::Expired));
    let new = eventually(SOON, "it is free again", || {
        lock.try_lock().expect("answered")
    });
    assert_eq!(lock.hold_count().expect("answered"), 1);
    assert_ne!(new.holder(), old.holder());
    assert_eq!(kind(old.unlock()), ErrorKind::NotHeld);
    new.unlock().expect("held");
}

#[test]
fn what_another_took_meanwhile_is_refused_and_left_alone() {
    let ground = Ground::new();
    let name = ground.name("L");
    let lock = connect(&ground).reentrant_lock(&name);
    let rivals = connect(&ground).reentrant_lock(&name);
    let old = taken(&lock);
    ground.server().cli(&["DEL", &name]);
    let rival = leased(&rivals, secs(20));

    assert!(is_refused(&lock), "no re-entry into what is gone");
    assert_told_lost(&old, LostReason::Gone);
    assert_gone_for_good(&old);
    assert_eq!(lock.hold_count().expect("answered"), 0);
    drop(old);
    rival.verify().expect("there");
    assert_eq!(seconds_left(&rivals), 20);
    rival.unlock().expect("held");
}

#[test]
fn an_answer_after_the_end_revives_nothing() {
    let ground = Ground::new();
    let proxy = Proxy::to(ground.server().addr());
    let client = connect_to(&ground, &proxy.url(), |plain| plain);
    let lock = client.reentrant_lock(ground.name("L"));
    // The script is there already: an answer that it is not would be the late one.
    let warm = leased(&lock, secs(20));
    warm.extend(secs(20)).expect("there");
    drop(warm);
    let guard = leased(&lock, millis(400));
    let lost = guard.lost();
    proxy.delay(millis(800));
    let error = guard.extend(secs(20)).expect_err("the answer is late");
    assert!(proxy.delayed() > 0);
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert_told_lost(&guard, LostReason::Expired);
    proxy.delay(Duration::ZERO);
    // Redis raised the TTL, but nobody believes in the hold: others must not wait for it.
    eventually(SOON, "Redis lets it go", || {
        lock.remaining_ttl().expect("answered") == Ttl::Free
    });
    assert_eq!(kind(guard.unlock()), ErrorKind::NotHeld);
    assert_eq!(lost.wait(SOON), Ended::Lost(LostReason::Expired));
}

#[test]
fn a_re_entry_answered_after_the_end_is_a_new_hold() {
    let ground = Ground::new();
    let proxy = Proxy::to(ground.server().addr());
    let client = connect_to(&ground, &proxy.url(), |plain| plain);
    let lock = client.reentrant_lock(ground.name("L"));
    let old = leased(&lock, millis(400));
    proxy.delay(millis(800));
    let new = leased(&lock, secs(20));
    assert!(proxy.delayed() > 0);
    proxy.delay(Duration::ZERO);
    assert_told_lost(&old, LostReason::Expired);
    assert!(new.is_held());
    assert!(number(new.holder()) > number(old.holder()));
    let seen = lock.inspect().expect("answered").holders;
    assert_eq!(seen.len(), 1);
    assert_eq!((&*seen[0].holder, seen[0].count), (new.holder(), 1));
    drop(old);
    new.unlock().expect("held");
}

#[track_caller]
fn assert_told_lost(guard: &LockGuard, reason: LostReason) {
    assert!(!guard.is_held());
    assert_eq!(guard.remaining(), Duration::ZERO);
    let lost = guard.lost();
    assert!(lost.is_lost());
    assert_eq!(lost.reason(), Some(reason));
    assert_eq!(lost.wait(SOON), Ended::Lost(reason));
}

/// No question brings it back. Which of the two it is depends on whether Redis was asked.
#[track_caller]
fn assert_gone_for_good(guard: &LockGuard) {
    for answer in [guard.verify(), guard.extend(secs(5))] {
        let kind = kind(answer);
        assert!(
            matches!(kind, ErrorKind::Lost | ErrorKind::NotHeld),
            "{kind:?}"
        );
    }
    assert!(!guard.is_held());
}

#[track_caller]
fn kind(answer: lockson::Result<()>) -> ErrorKind {
    answer.expect_err("it is gone").kind()
}
