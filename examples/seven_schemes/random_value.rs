//! Scheme 5: SET NX PX with a value of one's own, deleted only if it is still there.

use std::time::Duration;

use lockson::{Client, ErrorKind};
use redis::Connection;

use crate::{
    Outcome, client,
    report::{Report, Row, heading, lockson, recipe},
    servers::{Server, wait_until},
};

/// The recipe.
fn try_lock(redis: &mut Connection, key: &str, value: &str, lease: u64) -> Outcome<bool> {
    let mut set = redis::cmd("SET");
    let said: Option<String> = set
        .arg(key)
        .arg(value)
        .arg("NX")
        .arg("PX")
        .arg(lease)
        .query(redis)?;
    Ok(said.is_some())
}

/// Its release, as two commands: the first.
fn is_mine(redis: &mut Connection, key: &str, value: &str) -> Outcome<bool> {
    let stands: Option<String> = redis::cmd("GET").arg(key).query(redis)?;
    Ok(stands.as_deref() == Some(value))
}

/// And the second.
fn delete(redis: &mut Connection, key: &str) -> Outcome<bool> {
    Ok(redis::cmd("DEL").arg(key).query(redis)?)
}

/// Its release as one script.
const UNLOCK: &str = "
    if redis.call('get', KEYS[1]) == ARGV[1] then
        return redis.call('del', KEYS[1])
    end
    return 0";

fn unlock(redis: &mut Connection, key: &str, value: &str) -> Outcome<bool> {
    Ok(redis::cmd("EVAL")
        .arg(UNLOCK)
        .arg(1)
        .arg(key)
        .arg(value)
        .query(redis)?)
}

pub(crate) fn show(server: &Server, report: &mut Report) -> Outcome<()> {
    heading("5. SET NX PX with a random value");
    get_then_del(server, report)?;
    once_more(server, report)
}

fn get_then_del(server: &Server, report: &mut Report) -> Outcome<()> {
    let (redis, key) = (&mut server.connection()?, "five:release");
    let a = try_lock(redis, key, "a-6c1f", 200)?;
    let mine = is_mine(redis, key, "a-6c1f")?;
    recipe("A unlocks by GET and DEL: it GETs, and finds its own value");
    wait_until("B is in", || {
        try_lock(redis, key, "b-90e2", 60_000).unwrap_or(false)
    })?;
    recipe("before it sends DEL, its lease ends and B is in");
    let deleted = delete(redis, key)?;
    let c = try_lock(redis, key, "c-77ab", 60_000)?;
    recipe("A's DEL takes B's lock away: C is in, beside B");
    let by_script = unlock(redis, key, "a-6c1f")?;
    recipe(format!(
        "as one script, A's release would have deleted: {by_script}"
    ));
    delete(redis, key)?;

    let (a_client, b_client) = (client(server)?, client(server)?);
    let guard = a_client
        .reentrant_lock(key)
        .lock_with_lease(Duration::from_millis(500))?;
    guard.verify()?;
    let next = b_client.reentrant_lock(key).lock()?;
    let error = guard.unlock().expect_err("it is B's");
    lockson(format!(
        "A asks, and holds. Its lease ends, B is in, A unlocks: {error}"
    ));
    report.add(Row {
        scheme: "5 random value, GET then DEL",
        flaw: "between the two the lock becomes another's, and is deleted",
        seen: a && mine && deleted && c && !by_script,
        ours: "prevented, and told: comparing and deleting is one script",
        kept: next.verify().is_ok() && error.kind() == ErrorKind::NotHeld,
    });
    Ok(next.unlock()?)
}

fn once_more(server: &Server, report: &mut Report) -> Outcome<()> {
    let (redis, key) = (&mut server.connection()?, "five:again");
    let outer = try_lock(redis, key, "a-6c1f", 60_000)?;
    let inner = try_lock(redis, key, "a-5b03", 60_000)?;
    recipe(
        "A holds, and calls a function that locks the same name: it waits for A, hence for itself",
    );
    unlock(redis, key, "a-6c1f")?;

    let client = client(server)?;
    let again = booked_and_paid(&client, key)?;
    lockson(format!(
        "A holds, and so does the function that it calls: count {again}"
    ));
    report.add(Row {
        scheme: "5 random value, script",
        flaw: "who holds and asks again waits for itself",
        seen: outer && !inner,
        ours: "prevented: a thread may take again what it has",
        kept: again == 2 && !client.reentrant_lock(key).is_locked()?,
    });
    Ok(())
}

fn booked_and_paid(client: &Client, key: &str) -> lockson::Result<u64> {
    let booking = client.reentrant_lock(key).lock()?;
    let count = paid(client, key)?;
    booking.unlock()?;
    Ok(count)
}

fn paid(client: &Client, key: &str) -> lockson::Result<u64> {
    let lock = client.reentrant_lock(key);
    let paying = lock.lock()?;
    let count = lock.hold_count()?;
    paying.unlock()?;
    Ok(count)
}
