//! Scheme 4: SET with NX and PX. Work that takes longer than the lease goes on beside the next holder's.

use std::{
    thread,
    time::{Duration, Instant},
};

use lockson::{Ended, LostReason};
use redis::Connection;

use crate::{
    Outcome, WATCHDOG, client,
    report::{Report, Row, heading, lockson, recipe},
    servers::{Server, wait_until},
};

/// The recipe.
fn try_lock(redis: &mut Connection, key: &str, lease: u64) -> Outcome<bool> {
    let mut set = redis::cmd("SET");
    let said: Option<String> = set
        .arg(key)
        .arg(1)
        .arg("NX")
        .arg("PX")
        .arg(lease)
        .query(redis)?;
    Ok(said.is_some())
}

pub(crate) fn show(server: &Server, report: &mut Report) -> Outcome<()> {
    heading("4. SET NX PX");
    outlives(server, report)?;
    lease(server, report)
}

/// Work that lasts longer than anybody thought.
fn outlives(server: &Server, report: &mut Report) -> Outcome<()> {
    let (redis, key) = (&mut server.connection()?, "four:work");
    let a = try_lock(redis, key, 200)?;
    recipe("A locks for 200 ms, which has always been enough. Today its work takes longer");
    wait_until("B is in", || try_lock(redis, key, 60_000).unwrap_or(false))?;
    recipe("B is in, and A still works");
    redis::cmd("DEL").arg(key).query::<()>(redis)?;

    let (a_client, b_client) = (client(server)?, client(server)?);
    let guard = a_client.reentrant_lock(key).lock()?;
    let began = Instant::now();
    thread::sleep(2 * WATCHDOG);
    let refused = b_client.reentrant_lock(key).try_lock()?.is_none();
    lockson(format!(
        "A locks without a lease, its watchdog timeout is {WATCHDOG:?}; held after {:.1?}: {}. B is refused",
        began.elapsed(),
        guard.is_held(),
    ));
    report.add(Row {
        scheme: "4 SET NX PX",
        flaw: "work outlives its lease: two holders",
        seen: a,
        ours: "prevented: the watchdog renews a hold as long as its guard lives",
        kept: refused && guard.is_held(),
    });
    Ok(guard.unlock()?)
}

/// Whoever wants a lease all the same.
fn lease(server: &Server, report: &mut Report) -> Outcome<()> {
    let (redis, key) = (&mut server.connection()?, "four:lease");
    let a = try_lock(redis, key, 200)?;
    wait_until("the lease ends", || {
        redis::cmd("EXISTS")
            .arg(key)
            .query(redis)
            .is_ok_and(|there: bool| !there)
    })?;
    recipe("A's lease is over. Nothing and nobody tells A");

    let (a_client, b_client) = (client(server)?, client(server)?);
    let guard = a_client
        .reentrant_lock(key)
        .lock_with_lease(Duration::from_millis(200))?;
    let lost = guard.lost();
    let listener = thread::spawn(move || lost.wait(Duration::from_secs(10)));
    let next = b_client.reentrant_lock(key).lock()?;
    let believed = guard.is_held();
    let told = listener.join().expect("the thread ends");
    lockson(format!(
        "A has a lease of 200 ms, too. When B is in, A believes to hold: {believed}"
    ));
    lockson(format!("and a thread that watches was told: {told:?}"));
    report.add(Row {
        scheme: "4 SET NX PX",
        flaw: "nobody tells the holder that its lease is over",
        // There is nothing in the recipe that could.
        seen: a,
        ours: "told: by the guard and its signal, before the next is in",
        kept: !believed && told == Ended::Lost(LostReason::Expired),
    });
    Ok(next.unlock()?)
}
