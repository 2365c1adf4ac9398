//! A block of docs/guide.md.

use std::thread;

use lockson::{Client, Result};

pub fn elsewhere(client: &Client) -> Result<()> {
    let guard = client.reentrant_lock("guide:orders:42").lock_owned()?;
    let worker = thread::spawn(move || guard.unlock());
    worker.join().expect("the worker does not panic")
}
