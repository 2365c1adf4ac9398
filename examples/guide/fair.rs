//! A block of docs/guide.md.

use lockson::{Client, Result};

pub fn in_turn(client: &Client) -> Result<()> {
    let lock = client.fair_lock("guide:tickets");
    let guard = lock.lock()?; // after all who came before, in whatever process and language
    for waiter in lock.inspect()?.queue {
        println!("then {}", waiter.holder);
    }
    guard.unlock() // the first of them is told
}
