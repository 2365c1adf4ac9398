//! One thread takes the lock, another does the work and releases it: an owned guard goes along.
//!
//! On the server that REDIS_URL names, or on a private one.

#[path = "tour/private_server.rs"]
mod private_server;

use std::{sync::mpsc, thread};

use lockson::{Client, OwnedLockGuard, Result};

/// An order, and the right to work on it.
struct Job {
    order: u32,
    guard: OwnedLockGuard,
}

fn main() -> Result<()> {
    let server = private_server::PrivateServer::unless_given();
    let client = Client::connect(&server.url())?;
    let (jobs, inbox) = mpsc::channel::<Job>();
    let worker = thread::spawn(move || {
        for Job { order, guard } in inbox {
            println!("the worker has order {order}, as {}", guard.holder());
            guard.unlock()?; // or drop it: then nobody is told if that failed
        }
        Ok(())
    });

    for order in [41, 42] {
        let lock = client.reentrant_lock(format!("example:order:{order}"));
        // It belongs to the guard and to no thread: not even this one could take it again.
        let Some(guard) = lock.try_lock_owned()? else {
            println!("order {order}: somebody else works on it");
            continue;
        };
        println!("order {order} is ours, and goes to the worker");
        if jobs.send(Job { order, guard }).is_err() {
            break; // the worker has gone; the guard was released with the job
        }
    }
    drop(jobs);
    worker.join().expect("the worker does not panic")?;
    for order in [41, 42] {
        let locked = client
            .reentrant_lock(format!("example:order:{order}"))
            .is_locked()?;
        println!(
            "order {order} is {}",
            if locked { "locked" } else { "free" }
        );
    }
    Ok(())
}
