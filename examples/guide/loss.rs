//! A block of docs/guide.md.

use std::{thread, time::Duration};

use lockson::{Client, Ended, Result};

pub fn stop_in_time(client: &Client, mut step: impl FnMut() -> bool) -> Result<()> {
    let guard = client.reentrant_lock("guide:report").lock()?;

    let lost = guard.lost(); // may go to whoever has to stop
    let watcher = thread::spawn(move || match lost.wait(Duration::MAX) {
        Ended::Lost(reason) => eprintln!("stop: {reason}"),
        _ => println!("released, all is well"),
    });

    while guard.is_held() && step() {} // no round trip: the clock of this process
    guard.verify()?; // asks Redis: before a step that cannot be taken back
    guard.unlock()?;
    watcher.join().expect("the watcher does not panic");
    Ok(())
}
