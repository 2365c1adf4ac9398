//! A block of docs/guide.md.

use std::time::Duration;

use lockson::{CancelToken, Client, Result};

pub fn wait(client: &Client, token: &CancelToken) -> Result<()> {
    let lock = client.reentrant_lock("guide:orders:42");

    if let Some(_guard) = lock.try_lock()? {
        println!("nobody had it");
    }
    match lock.try_lock_for(Duration::from_secs(2))? {
        Some(_guard) => println!("got it within two seconds"),
        None => println!("others had it all the time"),
    }
    // `token.cancel()` in another thread ends the wait with ErrorKind::Cancelled.
    let guard = lock.options().cancel(token).acquire()?;
    drop(guard);
    Ok(())
}
