//! A block of docs/guide.md.

use lockson::{Client, MultiLock, Result};

pub fn transfer(client: &Client) -> Result<()> {
    let [from, to] = ["guide:account:1", "guide:account:2"].map(|name| client.reentrant_lock(name));
    let both = MultiLock::new([from.into(), to.into()])?;
    let guard = both.lock()?; // both or none
    guard.unlock()
}
