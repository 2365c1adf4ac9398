//! Runs the code of docs/guide.md: each of its blocks is a file in examples/guide, word for word.
//!
//! On the servers that REDIS_URL names (the RedLock takes all of them), or on a private one.

#[path = "guide/any.rs"]
#[allow(unreachable_pub)]
mod any;
#[path = "guide/connecting.rs"]
#[allow(unreachable_pub)]
mod connecting;
#[path = "guide/errors.rs"]
#[allow(unreachable_pub)]
mod errors;
#[path = "guide/fair.rs"]
#[allow(unreachable_pub)]
mod fair;
#[path = "guide/guards.rs"]
#[allow(unreachable_pub)]
mod guards;
#[path = "guide/leases.rs"]
#[allow(unreachable_pub)]
mod leases;
#[path = "guide/loss.rs"]
#[allow(unreachable_pub)]
mod loss;
#[path = "guide/multi.rs"]
#[allow(unreachable_pub)]
mod multi;
#[path = "guide/owned.rs"]
#[allow(unreachable_pub)]
mod owned;
#[path = "tour/private_server.rs"]
mod private_server;
#[path = "guide/questions.rs"]
#[allow(unreachable_pub)]
mod questions;
#[path = "guide/read_write.rs"]
#[allow(unreachable_pub)]
mod read_write;
#[path = "guide/red.rs"]
#[allow(unreachable_pub)]
mod red;
#[path = "guide/waiting.rs"]
#[allow(unreachable_pub)]
mod waiting;

use std::error::Error;

use lockson::CancelToken;

fn main() -> Result<(), Box<dyn Error>> {
    let server = private_server::PrivateServer::unless_given();
    let given = server.url();
    let urls: Vec<&str> = given.split_whitespace().collect();
    let client = connecting::connect(urls[0])?;

    guards::one_order(&client)?;
    waiting::wait(&client, &CancelToken::new())?;
    leases::for_a_time(&client)?;
    loss::stop_in_time(&client, || false)?;
    owned::elsewhere(&client)?;
    fair::in_turn(&client)?;
    read_write::prices(&client)?;
    multi::transfer(&client)?;
    red::on_several(&urls)?;
    any::once(&client.fair_lock("guide:nightly").into(), || ())?;
    questions::look(&client)?;
    errors::what_now(&client)?;
    println!("all of the guide ran");
    Ok(())
}
