//! The fair lock: three threads queue, and enter in that order.

use std::{
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use lockson::{Client, Result};

pub(crate) fn first_come_first_served(client: &Client) -> Result<()> {
    println!("\n9. The fair lock lets in who came first.");
    let lock = client.fair_lock("tour:tickets");
    let entered = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let guard = lock.lock()?;
        let mut threads = Vec::new();
        for number in 1..=3 {
            threads.push(scope.spawn(|| {
                let guard = lock.lock()?;
                let mut entered = entered.lock().expect("nobody panicked");
                entered.push(guard.holder().to_owned());
                drop(entered);
                guard.unlock()
            }));
            // The next one comes when this one stands in the queue.
            let bound = Instant::now() + Duration::from_secs(10);
            while lock.inspect()?.queue.len() < number && Instant::now() < bound {
                thread::sleep(Duration::from_millis(1));
            }
        }
        let queue = lock.inspect()?.queue;
        for (place, waiter) in (1..).zip(&queue) {
            println!("   queue {place}: {}", waiter.holder);
        }
        println!("   we unlock");
        guard.unlock()?;
        for thread in threads {
            thread.join().expect("the thread ends")?;
        }
        let entered = entered.lock().expect("nobody panicked");
        for (place, holder) in (1..).zip(&*entered) {
            println!("   in {place}:    {holder}");
        }
        let in_order = queue.iter().map(|waiter| &waiter.holder).eq(&*entered);
        println!(
            "   in the order of the queue: {}",
            if in_order { "yes" } else { "no?!" }
        );
        Ok(())
    })
}
