//! Scheme 3: SETNX and EXPIRE in one script, and DEL. Who is late deletes the lock of another.

use std::time::Duration;

use lockson::ErrorKind;
use redis::Connection;

use crate::{
    Outcome, client,
    report::{Report, Row, heading, lockson, recipe},
    servers::{Server, wait_until},
};

const LOCK: &str = "
    if redis.call('setnx', KEYS[1], '1') == 0 then
        return 0
    end
    redis.call('pexpire', KEYS[1], ARGV[1])
    return 1";

/// The recipe.
fn try_lock(redis: &mut Connection, key: &str, lease: u64) -> Outcome<bool> {
    let words = redis::cmd("EVAL")
        .arg(LOCK)
        .arg(1)
        .arg(key)
        .arg(lease)
        .query(redis)?;
    Ok(words)
}

fn unlock(redis: &mut Connection, key: &str) -> Outcome<bool> {
    Ok(redis::cmd("DEL").arg(key).query(redis)?)
}

pub(crate) fn show(server: &Server, report: &mut Report) -> Outcome<()> {
    heading("3. SETNX and EXPIRE in one script, DEL at the end");
    let (redis, key) = (&mut server.connection()?, "three");

    let a = try_lock(redis, key, 200)?;
    recipe("A locks for 200 ms, and works for longer");
    wait_until("B is in", || try_lock(redis, key, 60_000).unwrap_or(false))?;
    let deleted = unlock(redis, key)?;
    recipe("B is in. A is done and deletes the key: it is that of B");
    let c = try_lock(redis, key, 60_000)?;
    recipe("C is in, beside B");
    unlock(redis, key)?;

    let [a_client, b_client, c_client] = [client(server)?, client(server)?, client(server)?];
    let late = a_client
        .reentrant_lock(key)
        .lock_with_lease(Duration::from_millis(200))?;
    let b_holds = b_client.reentrant_lock(key).lock()?;
    let told = late.unlock().err();
    if let Some(error) = &told {
        lockson(format!("B is in. A unlocks, and is told: {error}"));
    }
    let refused = c_client.reentrant_lock(key).try_lock()?.is_none();
    lockson(format!("C is refused; B holds: {}", b_holds.is_held()));
    report.add(Row {
        scheme: "3 SETNX + EXPIRE as a script, DEL",
        flaw: "who is late deletes the lock of another: two holders",
        seen: a && deleted && c,
        ours: "prevented, and told: a release names its hold, NotHeld",
        kept: refused
            && b_holds.verify().is_ok()
            && told.is_some_and(|error| error.kind() == ErrorKind::NotHeld),
    });
    Ok(b_holds.unlock()?)
}
