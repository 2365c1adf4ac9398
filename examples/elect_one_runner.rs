//! A pool of workers of which one at a time runs the job; the others stand by and take over.
//!
//! On the server that REDIS_URL names, or on a private one.

#[path = "tour/private_server.rs"]
mod private_server;

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use lockson::{CancelToken, Client, ErrorKind, Result};

fn main() -> Result<()> {
    let server = private_server::PrivateServer::unless_given();
    let stop = CancelToken::new();
    let terms = AtomicUsize::new(0);
    let running = AtomicUsize::new(0);
    thread::scope(|scope| {
        let mut workers = Vec::new();
        for number in 1..=4 {
            // In a program of yours each worker is a process, so each has a client of its own here.
            let client = Client::connect(&server.url())?;
            let (stop, terms, running) = (&stop, &terms, &running);
            workers.push(scope.spawn(move || {
                worker(number, &client, stop, || {
                    let beside = running.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(beside, 0, "two run the job at the same time");
                    println!("worker {number} runs the job");
                    thread::sleep(Duration::from_millis(10));
                    running.fetch_sub(1, Ordering::SeqCst);
                    terms.fetch_add(1, Ordering::SeqCst);
                })
            }));
        }
        while terms.load(Ordering::SeqCst) < 9 && !workers.iter().any(|worker| worker.is_finished())
        {
            thread::sleep(Duration::from_millis(5));
        }
        stop.cancel();
        for worker in workers {
            worker.join().expect("no worker panics")?;
        }
        println!("never two at the same time");
        Ok(())
    })
}

/// Waits until it is elected, does the job three times, and lets another have it.
fn worker(number: u32, client: &Client, stop: &CancelToken, job: impl Fn()) -> Result<()> {
    // Fair: the one that waits longest is next.
    let lock = client.fair_lock("example:nightly-job");
    loop {
        let guard = match lock.options().cancel(stop).acquire() {
            Ok(Some(guard)) => guard,
            Err(error) if error.kind() == ErrorKind::Cancelled => return Ok(()),
            Ok(None) => continue,
            Err(error) => return Err(error),
        };
        println!("worker {number} is elected");
        for _ in 0..3 {
            // Not the elected one any more: another may run already.
            if !guard.is_held() || stop.is_cancelled() {
                break;
            }
            job();
        }
        guard.unlock()?;
    }
}
