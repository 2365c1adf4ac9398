//! Scheme 1: SETNX, then EXPIRE. A worker that dies between the two leaves a lock for ever.

use std::time::{Duration, Instant};

use lockson::Ttl;
use redis::Connection;

use crate::{
    Outcome, client,
    report::{Report, Row, heading, lockson, recipe},
    servers::Server,
    worker::{AFTER_LOCK, AFTER_SETNX, Worker},
};

/// The recipe.
fn try_lock(redis: &mut Connection, key: &str, seconds: u32) -> Outcome<bool> {
    if !redis::cmd("SETNX").arg(key).arg(1).query::<bool>(redis)? {
        return Ok(false);
    }
    redis::cmd("EXPIRE")
        .arg(key)
        .arg(seconds)
        .query::<bool>(redis)?;
    Ok(true)
}

pub(crate) fn show(server: &Server, report: &mut Report) -> Outcome<()> {
    heading("1. SETNX, then EXPIRE");
    let redis = &mut server.connection()?;

    Worker::stopped_in(AFTER_SETNX, &server.url(), "one:recipe")?.kill()?;
    recipe("A: SETNX one:recipe 1, and A is killed before its EXPIRE");
    let ttl: i64 = redis::cmd("PTTL").arg("one:recipe").query(redis)?;
    let refused = !try_lock(redis, "one:recipe", 300)?;
    recipe(format!(
        "PTTL says {ttl}: no end. B is refused, today and in a year"
    ));

    let client = client(server)?;
    let lock = client.reentrant_lock("one:lockson");
    let worker = Worker::stopped_in(AFTER_LOCK, &server.url(), lock.name())?;
    worker.kill()?;
    let killed = Instant::now();
    lockson("A has the lock, and is killed");
    let ends = matches!(lock.remaining_ttl()?, Ttl::Left(_) | Ttl::Free);
    let entered = lock.try_lock_for(Duration::from_secs(10))?;
    lockson(format!(
        "B is in {:.1?} later: the lock came with its end, in one script",
        killed.elapsed()
    ));

    report.add(Row {
        scheme: "1 SETNX, then EXPIRE",
        flaw: "killed between the two: locked for ever",
        seen: ttl == -1 && refused,
        ours: "prevented: the lock and its end are one script",
        kept: ends && entered.is_some(),
    });
    let _: bool = redis::cmd("DEL").arg("one:recipe").query(redis)?;
    Ok(())
}
