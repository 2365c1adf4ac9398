//! A block of docs/guide.md.

use lockson::{Client, Result};

pub fn one_order(client: &Client) -> Result<()> {
    let lock = client.reentrant_lock("guide:orders:42"); // a handle; asks nobody
    let guard = lock.lock()?;
    assert!(guard.is_held());

    let again = lock.lock()?; // the same thread may: each guard counts once
    assert_eq!(lock.hold_count()?, 2);
    drop(again);

    guard.unlock()?; // or drop it; `unlock` also tells what went wrong
    assert!(!lock.is_locked()?);
    Ok(())
}
