//! A block of docs/guide.md.

use lockson::{AnyLock, Result};

pub fn once(lock: &AnyLock, work: impl FnOnce()) -> Result<bool> {
    let Some(guard) = lock.try_lock()? else {
        return Ok(false);
    };
    work();
    guard.unlock()?;
    Ok(true)
}
