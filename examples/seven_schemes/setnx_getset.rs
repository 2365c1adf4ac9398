//! Scheme 2: SETNX with the time of its end as the value, GETSET when that is over, and waiting in steps.
//!
//! The recipe takes the time as an argument: two machines whose clocks differ are two different times.

use std::{
    thread,
    time::{Duration, Instant, SystemTime},
};

use redis::Connection;

use crate::{
    Outcome, client,
    report::{Report, Row, heading, lockson, recipe},
    servers::{Server, wait_until},
};

const FIVE_MINUTES: u64 = 300_000;

/// The recipe; answers the end that this holder wrote.
fn try_lock(redis: &mut Connection, key: &str, now: u64) -> Outcome<Option<u64>> {
    let end = now + FIVE_MINUTES;
    if redis::cmd("SETNX").arg(key).arg(end).query(redis)? {
        return Ok(Some(end));
    }
    let old = look(redis, key)?;
    if old > now {
        return Ok(None);
    }
    Ok((overwrite(redis, key, end)? == old).then_some(end))
}

/// Its first half: whose time is it?
fn look(redis: &mut Connection, key: &str) -> Outcome<u64> {
    let end: Option<u64> = redis::cmd("GET").arg(key).query(redis)?;
    Ok(end.unwrap_or(0))
}

/// Its second half: who gets the old time back has won.
fn overwrite(redis: &mut Connection, key: &str, end: u64) -> Outcome<u64> {
    let old: Option<u64> = redis::cmd("GETSET").arg(key).arg(end).query(redis)?;
    Ok(old.unwrap_or(0))
}

/// The recipe waits 300 ms in steps of 100 ms.
fn lock(redis: &mut Connection, key: &str) -> Outcome<Option<u64>> {
    for _ in 0..3 {
        if let Some(end) = try_lock(redis, key, now()?)? {
            return Ok(Some(end));
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(None)
}

/// Who is careful deletes only what it wrote.
fn unlock(redis: &mut Connection, key: &str, end: u64) -> Outcome<bool> {
    let mine = look(redis, key)? == end;
    if mine {
        redis::cmd("DEL").arg(key).query::<()>(redis)?;
    }
    Ok(mine)
}

pub(crate) fn show(server: &Server, report: &mut Report) -> Outcome<()> {
    heading("2. SETNX with a time, GETSET, waiting 300 ms in steps of 100 ms");
    clocks(server, report)?;
    overwritten(server, report)?;
    polling(server, report)
}

fn clocks(server: &Server, report: &mut Report) -> Outcome<()> {
    let (redis, key) = (&mut server.connection()?, "two:clocks");
    let now = now()?;
    let first = try_lock(redis, key, now)?;
    recipe("the clocks of A and B are two arguments. A locks for five minutes");
    let second = try_lock(redis, key, now + 6 * 60_000)?;
    recipe("B's clock is six minutes ahead: the time of A is over for it, and B is in too");
    redis::cmd("DEL").arg(key).query::<()>(redis)?;

    let (a, b) = (client(server)?, client(server)?);
    let guard = a.reentrant_lock(key).lock()?;
    let mut monitor = server.connection()?;
    redis::cmd("MONITOR").query::<()>(&mut monitor)?;
    let refused = b.reentrant_lock(key).try_lock()?.is_none();
    let sent = loop {
        let line: String = redis::from_redis_value(monitor.recv_response()?)?;
        // The one from outside, not what the script calls itself.
        if line.contains(key) && !line.contains(" lua]") {
            break line;
        }
    };
    let words: Vec<&str> = sent.split('"').skip(1).step_by(2).collect();
    let lease = *words.get(4).unwrap_or(&"?");
    lockson(format!(
        "A holds; B sent a lease of {lease} ms and no time of day, and is refused"
    ));
    let no_clock = !words
        .iter()
        .any(|word| word.len() >= 13 && word.parse::<u64>().is_ok());
    report.add(Row {
        scheme: "2 SETNX + time + GETSET",
        flaw: "clocks that differ: two holders",
        seen: first.is_some() && second.is_some(),
        ours: "prevented: only the server's clock counts down",
        kept: refused && no_clock && guard.is_held(),
    });
    Ok(guard.unlock()?)
}

fn overwritten(server: &Server, report: &mut Report) -> Outcome<()> {
    let (redis, key) = (&mut server.connection()?, "two:getset");
    let now = now()?;
    overwrite(redis, key, now - 1)?;
    recipe("A died, its time is over. B and C both see that");
    let (old_b, old_c) = (look(redis, key)?, look(redis, key)?);
    let (end_b, end_c) = (now + FIVE_MINUTES, now + 5 + FIVE_MINUTES);
    let b_won = overwrite(redis, key, end_b)? == old_b;
    let c_lost = overwrite(redis, key, end_c)? != old_c;
    recipe("B's GETSET wins; C's GETSET loses, but C's time stands there now");
    let b_left = unlock(redis, key, end_b)?;
    let refused = try_lock(redis, key, now + 1000)?.is_none();
    recipe(
        "B unlocks, does not find its own time, and leaves it: locked for five minutes by nobody",
    );
    redis::cmd("DEL").arg(key).query::<()>(redis)?;

    let (b, c) = (client(server)?, client(server)?);
    let holder = b.reentrant_lock(key).lock()?;
    let before: Vec<String> = redis::cmd("HGETALL").arg(key).query(redis)?;
    let lost = c.reentrant_lock(key).try_lock()?.is_none();
    let after: Vec<String> = redis::cmd("HGETALL").arg(key).query(redis)?;
    lockson(format!(
        "B holds; C loses, and what stands there is the same: {}",
        after.join(" × ")
    ));
    let unlocked = holder.unlock().is_ok();
    let free = !b.reentrant_lock(key).is_locked()?;
    report.add(Row {
        scheme: "2 SETNX + time + GETSET",
        flaw: "who loses overwrites the winner's time: the winner cannot unlock",
        seen: b_won && c_lost && !b_left && refused,
        ours: "prevented: who is refused writes nothing",
        kept: lost && before == after && unlocked && free,
    });
    Ok(())
}

fn polling(server: &Server, report: &mut Report) -> Outcome<()> {
    const WAITERS: usize = 10;
    let (redis, key) = (&mut server.connection()?, "two:waiting");
    let holder = try_lock(redis, key, now()?)?;
    let asked = ["setnx", "get", "getset"];
    let before = server.calls(&asked)?;
    let gave_up = thread::scope(|scope| {
        let wait = || {
            let end = lock(&mut server.connection()?, key)?;
            Outcome::Ok(end.is_none())
        };
        let waiting =
            [(); WAITERS].map(|()| scope.spawn(move || wait().map_err(|error| error.to_string())));
        waiting
            .into_iter()
            .map(|thread| thread.join().expect("the thread ends"))
            .collect::<Result<Vec<bool>, String>>()
    })?;
    let polled = server.calls(&asked)? - before;
    recipe(format!(
        "{WAITERS} threads wait for 300 ms: {polled} commands, and none of them got in"
    ));
    redis::cmd("DEL").arg(key).query::<()>(redis)?;

    let (a, b) = (client(server)?, client(server)?);
    let guard = a
        .reentrant_lock(key)
        .lock_with_lease(Duration::from_secs(60))?;
    let scripts = || server.calls(&["eval", "evalsha"]);
    let begun = scripts()?;
    let (asked, entered, late) = thread::scope(|scope| -> Outcome<_> {
        let lock = b.reentrant_lock(key);
        let waiting = [(); WAITERS].map(|()| {
            let lock = lock.clone();
            scope.spawn(move || {
                let guard = lock.try_lock_for(Duration::from_secs(20))?;
                Ok::<_, lockson::Error>(guard.map(|_guard| Instant::now()))
            })
        });
        // The first of them asks, subscribes, and asks once more: the others stand behind it.
        wait_until("all wait", || {
            b.state().waiters == WAITERS && scripts().is_ok_and(|now| now >= begun + 2)
        })?;
        let asleep = scripts()?;
        thread::sleep(Duration::from_millis(300));
        let asked = scripts()? - asleep;
        let released = Instant::now();
        guard.unlock()?;
        let mut entered = Vec::new();
        for thread in waiting {
            entered.extend(thread.join().expect("the thread ends")?);
        }
        let first = entered.iter().min().copied().unwrap_or(released);
        Ok((asked, entered.len(), first - released))
    })?;
    lockson(format!(
        "{WAITERS} threads wait: {asked} scripts in 300 ms. A unlocks, the first is in {late:.1?} later"
    ));
    report.add(Row {
        scheme: "2 SETNX + time + GETSET",
        flaw: "who waits asks again and again, and gives up in vain",
        seen: holder.is_some()
            && gave_up.iter().all(|&gave_up| gave_up)
            && polled >= 2 * 3 * WAITERS as u64,
        ours: "prevented: who waits sleeps until a message comes",
        kept: asked == 0 && entered == WAITERS,
    });
    Ok(())
}

/// Milliseconds, by the clock of this machine.
fn now() -> Outcome<u64> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(u64::try_from(since.as_millis())?)
}
