//! By any reply that says that it is gone, and without touching whoever came after.

use lockson::{Client, Ended, ErrorKind, LockGuard, LostReason, ReentrantLock};
use redis::Commands;

use super::{BOUND, fails, leased, listening, secs, taken};
use crate::support::{Ground, Told, connect, connect_with, eventually};

/// Two nested guards of a hold that is deleted under their feet.
struct Pulled {
    lock: ReentrantLock,
    outer: LockGuard,
    inner: LockGuard,
}

/// How one may find out.
type Ask = fn(&Pulled);

const ASKS: [(&str, Ask); 4] = [
    ("verify", |pulled| {
        fails(pulled.outer.verify(), ErrorKind::NotHeld);
    }),
    ("extend", |pulled| {
        fails(pulled.inner.extend(secs(60)), ErrorKind::NotHeld);
    }),
    ("re-entry", |pulled| {
        let new = taken(&pulled.lock);
        assert_ne!(new.holder(), pulled.outer.holder());
        assert_eq!(pulled.lock.hold_count().expect("answered"), 1);
        new.verify().expect("the new one is there");
        new.unlock().expect("held");
    }),
    ("re-entry with a lease", |pulled| {
        let new = leased(&pulled.lock, secs(10));
        assert_ne!(new.holder(), pulled.outer.holder());
        new.unlock().expect("held");
    }),
];

#[test]
fn any_reply_that_says_gone_ends_the_hold() {
    let ground = Ground::new();
    let (client, told) = listening(&ground);
    for (number, (way, ask)) in ASKS.into_iter().enumerate() {
        let pulled = pull(&ground, &client);
        ask(&pulled);
        all_told(&pulled, &told, number, way);
        let holds = client.state().holds;
        assert_eq!(holds, 0, "{way}");
        fails(pulled.inner.unlock(), ErrorKind::NotHeld);
        fails(pulled.outer.unlock(), ErrorKind::NotHeld);
    }
    assert_eq!(told.unreleased(), [], "nobody dropped a guard");
    assert_eq!(told.lost().len(), ASKS.len(), "each once");
}

#[test]
fn a_re_entry_that_another_refuses_ends_the_hold() {
    let ground = Ground::new();
    let (client, told) = listening(&ground);
    let pulled = pull(&ground, &client);
    let other = taken(&connect(&ground).reentrant_lock(pulled.lock.name()));
    assert!(pulled.lock.try_lock().expect("answered").is_none());
    all_told(&pulled, &told, 0, "refused");
    other.unlock().expect("held");
}

#[test]
fn an_unlock_that_finds_nothing_ends_the_other_guards() {
    let ground = Ground::new();
    let (client, told) = listening(&ground);
    let Pulled { outer, inner, .. } = pull(&ground, &client);
    let (released, other) = (inner.lost(), outer.lost());
    fails(inner.unlock(), ErrorKind::NotHeld);
    assert_eq!(other.wait(BOUND), Ended::Lost(LostReason::Gone));
    assert_eq!(released.wait(BOUND), Ended::Lost(LostReason::Gone));
    assert!(!outer.is_held());
    eventually(BOUND, "the event", || told.lost().len() == 1);

    // Dropped: that it is gone was told already.
    drop(outer);
    client.shutdown();
    assert_eq!(told.unreleased(), []);
    assert_eq!(told.lost().len(), 1, "once for the hold");
}

#[test]
fn unlocking_by_force_ends_the_guards_of_this_client() {
    let ground = Ground::new();
    let (client, told) = listening(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let (outer, inner) = (taken(&lock), taken(&lock));
    assert!(
        client
            .reentrant_lock(lock.name())
            .force_unlock()
            .expect("answered")
    );
    let pulled = Pulled { lock, outer, inner };
    all_told(&pulled, &told, 0, "force_unlock");
    drop(pulled);

    // By another client: found out at the next question.
    let lock = client.reentrant_lock(ground.name("L"));
    let (outer, inner) = (taken(&lock), taken(&lock));
    let other = connect(&ground).reentrant_lock(lock.name());
    assert!(other.force_unlock().expect("answered"));
    assert!(outer.is_held(), "nobody could know yet");
    fails(outer.verify(), ErrorKind::NotHeld);
    all_told(&Pulled { lock, outer, inner }, &told, 1, "force_unlock");
}

#[test]
fn a_renewal_that_says_gone_ends_the_hold() {
    let ground = Ground::new();
    let told = Told::default();
    let client = connect_with(&ground, |builder| {
        builder
            .lock_watchdog_timeout(secs(1))
            .on_event(told.handler())
    });
    let pulled = pull(&ground, &client);
    assert_eq!(
        pulled.outer.lost().wait(BOUND),
        Ended::Lost(LostReason::Gone)
    );
    all_told(&pulled, &told, 0, "renewal");
}

/// The key is something else now, so that the hold cannot be there.
#[test]
fn a_key_of_another_type_says_gone() {
    let ground = Ground::new();
    let server = ground.server();
    let (client, told) = listening(&ground);
    let asks: [(&str, Ask); 3] = [
        ("extend", |pulled| {
            fails(pulled.outer.extend(secs(60)), ErrorKind::NotHeld);
        }),
        ("verify", |pulled| {
            fails(pulled.outer.verify(), ErrorKind::WrongType);
        }),
        ("re-entry", |pulled| {
            fails(pulled.lock.try_lock(), ErrorKind::WrongType);
        }),
    ];
    for (number, (way, ask)) in asks.into_iter().enumerate() {
        let pulled = pull(&ground, &client);
        server.cli(&["SET", pulled.lock.name(), "something else"]);
        ask(&pulled);
        all_told(&pulled, &told, number, way);
        fails(pulled.inner.unlock(), ErrorKind::WrongType);
        fails(pulled.outer.unlock(), ErrorKind::WrongType);
        server.cli(&["DEL", pulled.lock.name()]);
    }
}

#[test]
fn old_guards_cannot_touch_the_next_holder() {
    let ground = Ground::new();
    let mut spy = ground.server().connection();
    let (client, _) = listening(&ground);
    let other = connect(&ground);
    for rival in [&client, &other] {
        let Pulled { lock, outer, inner } = pull(&ground, &client);
        let theirs = rival.reentrant_lock(lock.name());
        let new = leased(&theirs, secs(20));
        assert_ne!(new.holder(), outer.holder());
        fails(outer.extend(secs(60)), ErrorKind::NotHeld);
        fails(outer.verify(), ErrorKind::NotHeld);
        drop(inner);
        fails(outer.unlock(), ErrorKind::NotHeld);

        new.verify().expect("there");
        assert!(new.is_held());
        let fields: Vec<(String, u64)> = spy.hgetall(lock.name()).expect("HGETALL");
        assert_eq!(fields, [(new.holder().to_owned(), 1)]);
        let left: i64 = spy.pttl(lock.name()).expect("PTTL");
        assert!((10_000..=20_000).contains(&left), "{left} ms");
        new.unlock().expect("held");
    }
}

#[test]
fn extend_only_lengthens() {
    let ground = Ground::new();
    let mut spy = ground.server().connection();
    let (client, told) = listening(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let (outer, inner) = (leased(&lock, secs(20)), leased(&lock, secs(20)));
    for (lease, least, most) in [(1, 15, 20), (40, 35, 40), (5, 35, 40)] {
        inner.extend(secs(lease)).expect("held");
        let left: u64 = spy.pttl(lock.name()).expect("PTTL");
        assert!((least * 1000..=most * 1000).contains(&left), "{left} ms");
        for guard in [&outer, &inner] {
            assert!(guard.remaining() > secs(least), "{:?}", guard.remaining());
            assert!(guard.remaining() <= secs(most), "{:?}", guard.remaining());
        }
    }
    for lease in [secs(0), secs(11 * 365 * 24 * 60 * 60)] {
        fails(outer.extend(lease), ErrorKind::Config);
    }
    outer.verify().expect("there");
    assert_eq!(told.lost(), []);
}

fn pull(ground: &Ground, client: &Client) -> Pulled {
    let lock = client.reentrant_lock(ground.name("L"));
    let (outer, inner) = (taken(&lock), taken(&lock));
    ground.server().cli(&["DEL", lock.name()]);
    Pulled { lock, outer, inner }
}

/// Both guards, their signals and the handler know that it is gone; `before` others were lost.
#[track_caller]
fn all_told(pulled: &Pulled, told: &Told, before: usize, way: &str) {
    for guard in [&pulled.outer, &pulled.inner] {
        assert!(!guard.is_held(), "{way}");
        assert!(guard.remaining().is_zero(), "{way}");
        assert!(guard.lost().is_lost(), "{way}");
        let ended = guard.lost().wait(secs(0));
        assert_eq!(ended, Ended::Lost(LostReason::Gone), "{way}");
        fails(guard.verify(), ErrorKind::NotHeld);
        fails(guard.extend(secs(60)), ErrorKind::NotHeld);
    }
    eventually(BOUND, way, || told.lost().len() > before);
    let name = pulled.lock.name().to_owned();
    let holder = pulled.outer.holder().to_owned();
    let lost = told.lost().split_off(before);
    assert_eq!(lost, [(name, holder, LostReason::Gone)], "{way}");
}
