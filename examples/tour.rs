//! A short walk through the crate, on a private redis-server or on the one that REDIS_URL names.

#[path = "tour/fair_queue.rs"]
mod fair_queue;
#[path = "tour/private_server.rs"]
mod private_server;
#[path = "tour/second_process.rs"]
mod second_process;

use std::{
    error::Error,
    thread,
    time::{Duration, Instant},
};

use lockson::{CancelToken, Client, ReentrantLock, Result, Ttl};

use second_process::SecondProcess;

fn main() -> std::result::Result<(), Box<dyn Error>> {
    second_process::unless_first();
    let server = private_server::PrivateServer::unless_given();
    let url = server.url();
    let client = Client::connect(&url)?;
    println!("connected as client {}\n", client.id());

    a_guard(&client)?;
    once_more(&client)?;
    refused(&client, &url)?;
    a_lease(&client)?;
    kept_alive(&url)?;
    lost(&client, &url)?;
    waiting(&client, &url)?;
    giving_up(&client)?;
    fair_queue::first_come_first_served(&client)?;
    Ok(())
}

fn a_guard(client: &Client) -> Result<()> {
    println!("1. A guard holds the lock, and releases it when it goes.");
    let lock = client.reentrant_lock("tour:orders:42");
    {
        let guard = lock.try_lock()?.expect("nobody has it");
        println!("   {} is held by {}", guard.name(), guard.holder());
        show(&lock)?;
    }
    show(&lock)?;
    println!();
    Ok(())
}

fn once_more(client: &Client) -> Result<()> {
    println!("2. The thread that has a lock may take it again; each guard counts once.");
    let lock = client.reentrant_lock("tour:orders:42");
    let first = lock.try_lock()?.expect("nobody has it");
    let second = lock.try_lock()?.expect("it is ours");
    show(&lock)?;
    second.unlock()?;
    show(&lock)?;
    first.unlock()?;
    show(&lock)?;
    println!();
    Ok(())
}

fn refused(client: &Client, url: &str) -> Result<()> {
    println!("3. Others are refused: another thread, another client, a Java service.");
    let lock = client.reentrant_lock("tour:orders:42");
    let guard = lock.try_lock()?.expect("nobody has it");
    let thread_refused = thread::scope(|scope| {
        let attempt = scope.spawn(|| lock.try_lock().map(|guard| guard.is_none()));
        attempt.join().expect("the thread ends")
    })?;
    println!("   another thread: {}", verdict(thread_refused));
    let other = Client::connect(url)?;
    let client_refused = other.reentrant_lock("tour:orders:42").try_lock()?.is_none();
    println!("   another client: {}", verdict(client_refused));
    println!("   and it can see who has it:");
    show(&other.reentrant_lock("tour:orders:42"))?;
    guard.unlock()?;
    println!();
    Ok(())
}

fn a_lease(client: &Client) -> Result<()> {
    println!("4. A lease ends by itself, and the guard knows without asking.");
    let lock = client.reentrant_lock("tour:orders:42");
    let guard = lock
        .try_lock_with_lease(Duration::from_millis(300))?
        .expect("nobody has it");
    println!(
        "   held: {}, for {:?} more",
        guard.is_held(),
        guard.remaining()
    );
    let end = guard.lost().wait(Duration::from_secs(5));
    println!("   {end:?}; held: {}", guard.is_held());
    // The clock of the guard began before Redis' did: it ends first, by about a round trip.
    while lock.is_locked()? {
        thread::sleep(Duration::from_millis(1));
    }
    if let Err(error) = guard.unlock() {
        println!("   unlock says: {error}");
    }
    Ok(())
}

fn kept_alive(url: &str) -> Result<()> {
    println!("\n5. Without a lease, the watchdog keeps the hold alive as long as its guard lives.");
    let timeout = Duration::from_millis(600);
    let client = Client::builder()
        .lock_watchdog_timeout(timeout)
        .connect(url)?;
    let lock = client.reentrant_lock("tour:orders:42");
    let began = Instant::now();
    let guard = lock.try_lock()?.expect("nobody has it");
    // Until its first time would have been over three times.
    while began.elapsed() < 3 * timeout {
        assert!(guard.is_held());
        thread::sleep(Duration::from_millis(20));
    }
    println!(
        "   watchdog timeout {timeout:?}, held after {:?}: {}",
        began.elapsed(),
        guard.is_held()
    );
    guard.unlock()
}

fn lost(client: &Client, url: &str) -> Result<()> {
    println!("\n6. A lock that is lost is told.");
    let holder = Client::builder()
        .lock_watchdog_timeout(Duration::from_millis(600))
        .on_event(|event| println!("   event:  {event:?}"))
        .connect(url)?;
    let lock = holder.reentrant_lock("tour:orders:42");
    let guard = lock.try_lock()?.expect("nobody has it");
    println!("   somebody else unlocks it by force");
    client.reentrant_lock("tour:orders:42").force_unlock()?;
    let began = Instant::now();
    let end = guard.lost().wait(Duration::from_secs(5));
    println!("   signal: {end:?}, after {:?}", began.elapsed());
    println!("   guard:  held: {}", guard.is_held());
    if let Err(error) = guard.unlock() {
        println!("   unlock: {error}");
    }
    Ok(())
}

fn waiting(client: &Client, url: &str) -> std::result::Result<(), Box<dyn Error>> {
    println!("\n7. Who waits is woken by the unlock, and does not ask Redis again and again.");
    let lock = client.reentrant_lock("tour:orders:42");

    let guard = lock.lock()?;
    let late = thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let guard = lock.try_lock_for(Duration::from_secs(10))?;
            let entered = Instant::now();
            guard.expect("woken").unlock()?;
            Ok::<_, lockson::Error>(entered)
        });
        while client.state().waiters == 0 && !waiting.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        println!("   a second thread waits; we unlock");
        let released = Instant::now();
        guard.unlock()?;
        let entered = waiting.join().expect("the thread ends")?;
        Ok::<_, lockson::Error>(entered.saturating_duration_since(released))
    })?;
    println!("   it was in after {late:.1?}");

    let guard = lock.lock()?;
    let other = SecondProcess::waiting_for(url, lock.name())?;
    println!("   a second process, {}, waits; we unlock", other.id());
    let released = Instant::now();
    guard.unlock()?;
    let late = other.entered()?.saturating_duration_since(released);
    println!("   it told us that it was in after {late:.1?}");
    Ok(())
}

fn giving_up(client: &Client) -> Result<()> {
    println!("\n8. Nobody has to wait for ever.");
    let lock = client.reentrant_lock("tour:orders:42");
    let guard = lock.lock()?;
    let token = CancelToken::new();
    thread::scope(|scope| {
        // In other threads: this one has the lock, and would get it again.
        let timed = scope.spawn(|| {
            let began = Instant::now();
            let got = lock.try_lock_for(Duration::from_millis(200))?;
            Ok::<_, lockson::Error>((got.is_none(), began.elapsed()))
        });
        let (refused, passed) = timed.join().expect("the thread ends")?;
        let answer = if refused { "None" } else { "let in?!" };
        println!("   try_lock_for(200ms): {answer}, after {passed:.1?}");

        let waiting = scope.spawn(|| lock.options().cancel(&token).acquire().map(drop));
        while client.state().waiters == 0 && !waiting.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        token.cancel();
        match waiting.join().expect("the thread ends") {
            Err(error) => println!("   token.cancel(): {error}"),
            Ok(()) => println!("   token.cancel(): let in?!"),
        }
        guard.unlock()
    })
}

fn show(lock: &ReentrantLock) -> Result<()> {
    let seen = lock.inspect()?;
    match seen.ttl {
        Ttl::Left(left) => {
            for holder in seen.holders {
                println!(
                    "   {}: {} × {}, for {:.1} s unless renewed",
                    lock.name(),
                    holder.holder,
                    holder.count,
                    left.as_secs_f64()
                );
            }
        }
        Ttl::Free => println!("   {}: free", lock.name()),
        other => println!("   {}: {other:?}", lock.name()),
    }
    Ok(())
}

fn verdict(refused: bool) -> &'static str {
    if refused { "refused" } else { "let in?!" }
}
