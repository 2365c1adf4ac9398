//! Prints who holds locks and who waits for them, whichever language took them.
//!
//! `REDIS_URL=redis://… cargo run --example who_holds -- orders:42 prices`. Without a URL it shows a
//! lock on a private server, written as a Java service writes it.

#[path = "tour/private_server.rs"]
mod private_server;

use std::{env, error::Error};

use lockson::{Client, Inspection, Ttl};

fn main() -> Result<(), Box<dyn Error>> {
    let server = private_server::PrivateServer::unless_given();
    let mut names: Vec<String> = env::args().skip(1).collect();
    if names.is_empty() {
        names.push("example:orders:42".into());
        as_java_would(&server.url(), &names[0])?;
    }
    let client = Client::connect(&server.url())?;
    for name in &names {
        // Its readers have times of their own, which only this kind looks at.
        let seen = client.fair_lock(name).inspect()?;
        let seen = match seen.mode {
            None => seen,
            Some(_) => client.read_write_lock(name).inspect()?,
        };
        print(name, &seen);
    }
    Ok(())
}

fn print(name: &str, seen: &Inspection) {
    match seen.ttl {
        Ttl::Free => println!("{name} is free"),
        Ttl::NoExpiry => println!("{name} has no end: no lock client wrote that"),
        Ttl::Left(left) => println!("{name} is held, for {left:.1?} unless renewed"),
    }
    for holder in &seen.holders {
        let (client, number) = holder
            .holder
            .rsplit_once(':')
            .unwrap_or(("?", &holder.holder));
        let does = match (&seen.mode, holder.writes) {
            (None, _) => "holds",
            (Some(_), false) => "reads",
            (Some(_), true) => "writes",
        };
        // In Java the number is the id of the thread.
        println!(
            "  client {client}, number {number}, {does} it {} ×",
            holder.count
        );
    }
    for (place, waiter) in (1..).zip(&seen.queue) {
        println!("  {place}. in its queue: {}", waiter.holder);
    }
}

/// What Redisson's `getLock(name).lock(10, SECONDS)` leaves in Redis.
fn as_java_would(url: &str, name: &str) -> redis::RedisResult<()> {
    let mut redis = redis::Client::open(url)?.get_connection()?;
    let holder = "f202c191-3c9d-442f-8bd8-39cea24f7f7a:25";
    redis::cmd("HSET")
        .arg(name)
        .arg(holder)
        .arg(1)
        .query::<()>(&mut redis)?;
    redis::cmd("PEXPIRE")
        .arg(name)
        .arg(10_000)
        .query(&mut redis)
}
