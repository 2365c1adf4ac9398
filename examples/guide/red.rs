//! A block of docs/guide.md.

use std::time::Duration;

use lockson::{Client, RedLock, Result};

pub fn on_several(urls: &[&str]) -> Result<()> {
    let mut members = Vec::new();
    for url in urls {
        let client = Client::builder().connect_lazy(url)?; // also if that server is down just now
        members.push(client.reentrant_lock("guide:orders:42").into());
    }
    let lock = RedLock::new(members)?;
    if let Some(guard) = lock.try_lock_for(Duration::from_secs(5))? {
        println!("a majority holds it for {:?}", guard.validity());
        guard.unlock()?;
    }
    Ok(())
}
