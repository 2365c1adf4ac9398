//! Work that stops when its lock is lost, at a step or in the middle of a long one.
//!
//! On the server that REDIS_URL names, or on a private one.

#[path = "tour/private_server.rs"]
mod private_server;

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use lockson::{Client, Ended, Result};

fn main() -> Result<()> {
    let server = private_server::PrivateServer::unless_given();
    let client = Client::builder()
        // A loss in Redis is found at the next renewal, a third of this later at most.
        .lock_watchdog_timeout(Duration::from_secs(3))
        .on_event(|event| println!("event: {event:?}"))
        .connect(&server.url())?;
    let guard = client.reentrant_lock("example:report").lock()?;

    // Whoever has to stop gets the signal; a thread that waits for it turns it into whatever ends the
    // work here: a closed socket, a cancelled query, a message.
    let lost = guard.lost();
    let (stop, stopped) = mpsc::channel();
    let watcher = thread::spawn(move || {
        if let Ended::Lost(reason) = lost.wait(Duration::MAX) {
            let _ = stop.send(reason);
        }
    });

    for step in 1.. {
        // Between two steps a look is enough; it costs no round trip.
        if !guard.is_held() {
            println!("stopped before step {step}");
            break;
        }
        // A long step, which the signal can end.
        match stopped.recv_timeout(Duration::from_millis(200)) {
            Err(RecvTimeoutError::Timeout) => println!("step {step} is done"),
            Err(RecvTimeoutError::Disconnected) => break,
            Ok(reason) => {
                println!("stopped in step {step}: {reason}");
                break;
            }
        }
        if step == 3 {
            println!("somebody unlocks it by force");
            Client::connect(&server.url())?
                .reentrant_lock("example:report")
                .force_unlock()?;
        }
    }
    if let Err(error) = guard.unlock() {
        println!("unlock: {error}");
    }
    watcher.join().expect("the watcher does not panic");
    Ok(())
}
