//! One function for every lock: by `AnyLock`, and by generics.

use std::{thread, time::Duration};

use lockson::{AnyGuard, AnyLock, AnyOwnedGuard, Guard, Lock, Result};

use crate::support::{Ground, connect};

#[test]
fn any_lock_is_the_lock_it_was_made_from() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let any: AnyLock = (&lock).into();
    let outer = any.try_lock().expect("answered").expect("free");
    assert_eq!(outer.name(), lock.name());
    assert!(lock.is_held_by_current_thread().expect("answered"));

    // One hold, by whichever handle.
    let inner: AnyGuard = lock.try_lock().expect("answered").expect("ours").into();
    assert_eq!(outer.holder(), inner.holder());
    assert_eq!(lock.hold_count().expect("answered"), 2);
    assert!(any.try_lock_owned().expect("answered").is_none());
    drop(outer);
    inner.verify().expect("there");
    inner.extend(Duration::from_secs(60)).expect("there");
    assert!(inner.remaining() > Duration::from_secs(50));
    assert!(!inner.lost().is_lost());
    inner.unlock().expect("held");

    let any: AnyLock = lock.clone().into();
    let owned: AnyOwnedGuard = lock
        .try_lock_owned()
        .expect("answered")
        .expect("free")
        .into();
    assert!(!any.is_held_by_current_thread().expect("answered"));
    thread::spawn(move || owned.unlock())
        .join()
        .expect("the thread ends well")
        .expect("held");
    let lease = Duration::from_secs(5);
    drop(
        any.try_lock_with_lease(lease)
            .expect("answered")
            .expect("free"),
    );
    drop(
        any.try_lock_owned_with_lease(lease)
            .expect("answered")
            .expect("free"),
    );
    assert!(!lock.is_locked().expect("answered"));
}

#[test]
fn generic_code_takes_any_of_them() {
    let ground = Ground::new();
    let client = connect(&ground);
    let lock = client.reentrant_lock(ground.name("L"));
    let fair = client.fair_lock(ground.name("F"));
    assert_eq!(once(&fair).expect("answered"), Some(fair.name().to_owned()));
    assert_eq!(owned_once(&fair).expect("answered"), Some(true));
    let shared = client.read_write_lock(ground.name("RW"));
    for name in [once(&shared.read_lock()), once(&shared.write_lock())] {
        assert_eq!(name.expect("answered"), Some(shared.name().to_owned()));
    }
    for any in [
        shared.read_lock().into(),
        AnyLock::from(shared.write_lock()),
    ] {
        assert_eq!(owned_once(&any).expect("answered"), Some(true));
    }
    let guards: [AnyGuard; 2] = [
        shared.write().expect("free").into(),
        shared.read().expect("its own").into(),
    ];
    drop(guards);
    let any_fair = AnyLock::from(&fair);
    let guard = any_fair.lock().expect("free");
    assert_eq!(fair.hold_count().expect("answered"), 1);
    guard.unlock().expect("held");
    let any = AnyLock::from(&lock);
    assert_eq!(once(&lock).expect("answered"), Some(lock.name().to_owned()));
    assert_eq!(once(&any).expect("answered"), Some(lock.name().to_owned()));
    let guard = lock.try_lock_owned().expect("answered").expect("free");
    assert_eq!(once(&lock).expect("answered"), None);
    assert_eq!(once(&any).expect("answered"), None);
    handed_over(guard).expect("held");
    assert_eq!(owned_once(&lock).expect("answered"), Some(true));
    assert_eq!(owned_once(&any).expect("answered"), Some(true));
}

fn once<L: Lock>(lock: &L) -> Result<Option<String>> {
    let Some(guard) = lock.try_lock()? else {
        return Ok(None);
    };
    assert!(lock.is_held_by_current_thread()?);
    let nested = lock.options().wait(Duration::ZERO).acquire()?;
    assert_eq!(nested.expect("ours").holder(), guard.holder());
    assert!(guard.is_held() && !guard.lost().is_lost());
    let name = guard.name().to_owned();
    guard.unlock()?;
    Ok(Some(name))
}

fn owned_once<L: Lock>(lock: &L) -> Result<Option<bool>> {
    let Some(guard) = lock.try_lock_owned_with_lease(Duration::from_secs(5))? else {
        return Ok(None);
    };
    let held = guard.is_held() && guard.remaining() <= Duration::from_secs(5);
    handed_over(guard)?;
    Ok(Some(held))
}

fn handed_over<G: Guard + Send + 'static>(guard: G) -> Result<()> {
    let released = thread::spawn(move || {
        guard.verify()?;
        guard.extend(Duration::from_secs(9))?;
        guard.unlock()
    });
    released.join().expect("the thread ends well")
}
