//! A block of docs/guide.md.

use std::time::Duration;

use lockson::{Client, Event, Result};

pub fn connect(url: &str) -> Result<Client> {
    Client::builder()
        .lock_watchdog_timeout(Duration::from_secs(30))
        .response_timeout(Duration::from_secs(3))
        .on_event(|event| {
            if let Event::Lost { name, reason, .. } = event {
                eprintln!("{name} was lost: {reason}");
            }
        })
        .connect(url)
}
