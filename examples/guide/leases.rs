//! A block of docs/guide.md.

use std::time::Duration;

use lockson::{Client, Result};

pub fn for_a_time(client: &Client) -> Result<()> {
    let lock = client.reentrant_lock("guide:report");

    let kept = lock.lock()?; // the watchdog renews it until the guard goes
    kept.unlock()?;

    let leased = lock.lock_with_lease(Duration::from_secs(10))?; // nobody renews it
    leased.extend(Duration::from_secs(20))?; // at least so long from now
    assert!(leased.remaining() > Duration::from_secs(10));
    leased.unlock()?;

    let bounded = lock
        .options()
        .max_hold(Duration::from_secs(60)) // renewed, but not for longer than that
        .acquire()?;
    drop(bounded);
    Ok(())
}
