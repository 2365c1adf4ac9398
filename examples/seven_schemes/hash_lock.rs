//! Scheme 6: a hash of holder and count, with re-entry, a watchdog and messages.

use std::{
    thread,
    time::{Duration, Instant},
};

use lockson::{Client, Ended, LostReason};
use redis::Connection;

use crate::{
    Outcome, WATCHDOG, client,
    report::{Report, Row, heading, lockson, recipe},
    servers::{Server, wait_until},
};

/// Takes it, or counts one more.
const LOCK: &str = "
    if redis.call('exists', KEYS[1]) == 1 and redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
        return redis.call('pttl', KEYS[1])
    end
    redis.call('hincrby', KEYS[1], ARGV[1], 1)
    redis.call('pexpire', KEYS[1], ARGV[2])
    return nil";

/// Counts one less; at none, frees it and says so.
const UNLOCK: &str = "
    if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
        return nil
    end
    local left = redis.call('hincrby', KEYS[1], ARGV[1], -1)
    if left == 0 then
        redis.call('del', KEYS[1])
        redis.call('publish', 'unlocked:' .. KEYS[1], '0')
    end
    return left";

/// What its watchdog sends now and then.
const RENEW: &str = "
    if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
        return 0
    end
    return redis.call('pexpire', KEYS[1], ARGV[2])";

fn eval<T: redis::FromRedisValue>(
    redis: &mut Connection,
    script: &str,
    key: &str,
    holder: &str,
) -> redis::RedisResult<T> {
    let mut command = redis::cmd("EVAL");
    command
        .arg(script)
        .arg(1)
        .arg(key)
        .arg(holder)
        .arg(30_000)
        .query(redis)
}

fn try_lock(redis: &mut Connection, key: &str, holder: &str) -> redis::RedisResult<bool> {
    let ttl: Option<i64> = eval(redis, LOCK, key, holder)?;
    Ok(ttl.is_none())
}

pub(crate) fn show(server: &Server, report: &mut Report) -> Outcome<()> {
    heading("6. A hash with counts, a watchdog and messages");
    twice(server, report)?;
    untold(server, report)
}

/// The server hangs, and a request is sent a second time.
fn twice(server: &Server, report: &mut Report) -> Outcome<()> {
    const PATIENCE: Duration = Duration::from_millis(200);
    let key = "six:twice";
    let pool = [server.connection()?, server.connection()?];
    server.freeze()?;
    for mut connection in pool {
        connection.set_read_timeout(Some(PATIENCE))?;
        // No answer; the next one of the pool may have more luck.
        let _ = try_lock(&mut connection, key, "a:1");
    }
    server.thaw()?;
    recipe("the server hangs: A's request is not answered, and sent once more. Then both run");
    let redis = &mut server.connection()?;
    let mut count = 0;
    wait_until("both have run", || {
        count = redis::cmd("HGET")
            .arg(key)
            .arg("a:1")
            .query(redis)
            .unwrap_or(0);
        count == 2
    })?;
    let left: Option<i64> = eval(redis, UNLOCK, key, "a:1")?;
    let refused = !try_lock(redis, key, "b:1")?;
    recipe(format!(
        "A has it {count} times, and unlocks once: B is refused as long as A's watchdog lives"
    ));
    redis::cmd("DEL").arg(key).query::<()>(redis)?;

    let client = Client::builder()
        .response_timeout(PATIENCE)
        .connect(&server.url())?;
    let lock = client.reentrant_lock(key);
    // So that there is a connection that can hang.
    let free = !lock.is_locked()?;
    server.freeze()?;
    let began = Instant::now();
    let guard = thread::scope(|scope| {
        let thawing = scope.spawn(|| {
            // Longer than one request waits for its answer, and its repetition for its own.
            thread::sleep(3 * PATIENCE);
            server.thaw().map_err(|error| error.to_string())
        });
        let guard = lock.lock();
        thawing.join().expect("the thread ends").map(|()| guard)
    })??;
    let waited = began.elapsed();
    let held = lock.hold_count()?;
    guard.unlock()?;
    let unlocked = !lock.is_locked()?;
    lockson(format!(
        "the server hangs, requests are repeated for {waited:.1?}: A has it {held} time"
    ));
    lockson(format!("A unlocks once, and it is free: {unlocked}"));
    report.add(Row {
        scheme: "6 hash, watchdog, messages",
        flaw: "a request sent twice counts twice: one unlock leaves it locked",
        seen: count == 2 && left == Some(1) && refused,
        ours: "prevented: a request says which count to reach",
        kept: free && held == 1 && unlocked && waited >= 2 * PATIENCE,
    });
    Ok(())
}

/// Somebody deletes the key.
fn untold(server: &Server, report: &mut Report) -> Outcome<()> {
    let (redis, key) = (&mut server.connection()?, "six:untold");
    let a = try_lock(redis, key, "a:1")?;
    redis::cmd("DEL").arg(key).query::<()>(redis)?;
    recipe("A holds; somebody deletes the key, or the server restarts without it");
    let b = try_lock(redis, key, "b:1")?;
    let renewed: i64 = eval(redis, RENEW, key, "a:1")?;
    recipe(format!(
        "B is in. A's watchdog is answered {renewed}, and has nobody to tell it to"
    ));
    let unlocked: Option<i64> = eval(redis, UNLOCK, key, "a:1")?;
    recipe("A learns of it at its unlock, when all is done");
    redis::cmd("DEL").arg(key).query::<()>(redis)?;

    let client = client(server)?;
    let guard = client.reentrant_lock(key).lock()?;
    redis::cmd("DEL").arg(key).query::<()>(redis)?;
    let deleted = Instant::now();
    let told = guard.lost().wait(Duration::from_secs(10));
    lockson(format!(
        "A holds, the key is deleted. A is told {:.1?} later: {told:?} (a third of {WATCHDOG:?} at most)",
        deleted.elapsed(),
    ));
    report.add(Row {
        scheme: "6 hash, watchdog, messages",
        flaw: "the lock is gone, and its holder works on: two holders",
        seen: a && b && renewed == 0 && unlocked.is_none(),
        ours: "not prevented; told by the guard, a signal and an event at the next renewal",
        kept: told == Ended::Lost(LostReason::Gone) && !guard.is_held(),
    });
    Ok(())
}
