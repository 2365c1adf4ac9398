//! A block of docs/guide.md.

use lockson::{Client, Result, Ttl};

pub fn look(client: &Client) -> Result<()> {
    let lock = client.reentrant_lock("guide:orders:42");
    let guard = lock.lock()?;

    let seen = lock.inspect()?;
    assert_eq!(seen.holders[0].holder, guard.holder());
    assert!(matches!(seen.ttl, Ttl::Left(_)));
    assert!(lock.is_held_by_current_thread()?);

    lock.force_unlock()?; // whoever holds it: for people who mend things
    assert!(!guard.is_held());
    Ok(())
}
