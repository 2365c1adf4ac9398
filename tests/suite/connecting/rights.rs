//! Each right of the documented access list, taken away: what fails then, how it is named, and that
//! nobody hangs.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use lockson::{AnyLock, Client, MultiLock, Result};

use super::{
    LONG,
    access::{rules, url},
};
use crate::support::{Ground, Server, connect_to, eventually, watched};

const KINDS: [&str; 5] = ["reentrant", "fair", "read", "write", "multi"];

/// Who cannot do all of its work without a right.
const NEEDED: [(&str, &str); 28] = [
    ("~app:*", "reentrant fair read write multi"),
    ("~redisson_lock_queue:{app:*", "fair"),
    ("~redisson_lock_timeout:{app:*", "fair"),
    ("~{app:*", "read write"),
    ("&redisson_lock__channel:{app:*", "reentrant fair multi"),
    ("&redisson_rwlock:{app:*", "read write"),
    ("+eval", "reentrant fair read write multi"),
    ("+evalsha", "reentrant fair read write multi"),
    ("+exists", "reentrant fair read write multi"),
    ("+hexists", "reentrant fair read write multi"),
    ("+hget", "reentrant fair read write"),
    ("+hset", "reentrant fair read write multi"),
    ("+hdel", "reentrant read write"),
    ("+hgetall", "reentrant fair read write"),
    ("+hlen", "write"),
    ("+del", "reentrant fair read write multi"),
    ("+set", "read write"),
    ("+pexpire", "reentrant fair read write multi"),
    ("+pttl", "reentrant fair read write multi"),
    ("+publish", "reentrant fair read write multi"),
    ("+subscribe", "reentrant fair read write multi"),
    ("+lindex", "fair"),
    ("+lpos", "fair"),
    ("+lrange", "fair"),
    ("+lrem", "fair"),
    ("+rpush", "fair"),
    ("+zadd", "fair"),
    ("+time", "fair"),
];

/// What is needed now and then only: where somebody died or was passed in a queue, to a connection
/// that was idle, another database, after a lost reply; or what is of use to people.
const RARE: [&str; 13] = [
    "+linsert",
    "+lpop",
    "+lpush",
    "+zincrby",
    "+zrem",
    "+zscore",
    "+unsubscribe",
    "+ping",
    "+select",
    "+role",
    "+client|setname",
    "+client|info",
    "+client|kill",
];

#[test]
fn each_missing_right_is_named_and_nobody_hangs() {
    let ground = Ground::alone();
    ground.expect_keys_left();
    let is_right = |word: &String| word.starts_with(['+', '~', '&']);
    let mut rights: Vec<String> = rules().into_iter().filter(is_right).collect();
    let told = NEEDED.iter().map(|(right, _)| *right).chain(RARE);
    let told: BTreeSet<&str> = told.collect();
    assert_eq!(
        told,
        rights.iter().map(String::as_str).collect(),
        "as on the page"
    );
    // Nothing fails that has them all.
    rights.push("+none".to_owned());
    let todo = Mutex::new(rights);
    thread::scope(|scope| {
        for _ in 0..4 {
            let server = ground.server_with(|plain| plain);
            let (ground, todo) = (&ground, &todo);
            scope.spawn(move || {
                let admin = connect_to(ground, &server.url(), |plain| plain);
                let next = || todo.lock().unwrap_or_else(PoisonError::into_inner).pop();
                while let Some(right) = next() {
                    let found = without(ground, &server, &admin, &right);
                    println!("{right}: {found:?}");
                    judge(&right, &found);
                }
            });
        }
    });
}

fn judge(right: &str, found: &BTreeSet<String>) {
    let needed = NEEDED.iter().find(|(one, _)| *one == right);
    let Some((_, kinds)) = needed else {
        let named = |one: &String| RARE.contains(&right) && one.ends_with("NoPermission");
        assert!(found.iter().all(named), "{right}: {found:?}");
        return;
    };
    for kind in KINDS {
        let named = format!("{kind} ");
        let mut ours = found.iter().filter(|one| one.starts_with(&named));
        let refused = ours.any(|one| one.ends_with("NoPermission"));
        assert_eq!(
            refused,
            kinds.split(' ').any(|one| one == kind),
            "{right}: {kind}: {found:?}"
        );
    }
    for one in found {
        // What follows: a hold that is not renewed ends, and who is not told looks by itself.
        let follows = [
            "renewed Lost",
            "unlocks NotHeld",
            "unlocks Lost",
            "enters late",
        ];
        let known = one.ends_with("NoPermission") || follows.iter().any(|what| one.ends_with(what));
        assert!(known, "{right}: {one}");
    }
}

/// What a user cannot do who has all the documented rights but one.
fn without(ground: &Ground, server: &Server, admin: &Client, right: &str) -> BTreeSet<String> {
    let mut words = vec![
        "ACL".to_owned(),
        "SETUSER".into(),
        "locker".into(),
        "reset".into(),
    ];
    words.extend(rules().into_iter().filter(|word| word != right));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    server.cli(&words);
    let mut found = BTreeSet::new();
    let mut failed = |what: String, result: Result<()>| {
        if let Err(error) = result {
            found.insert(format!("{what} {:?}", error.kind()));
        }
    };
    let settings = Client::builder().response_timeout(Duration::from_secs(2));
    let client = match settings.connect(&url(server)) {
        Ok(client) => client,
        Err(error) => {
            failed("connect".into(), Err(error));
            return found;
        }
    };
    ground.watch_tag(&client.id()[..5]);
    let client = &client;
    let mut lates = Vec::new();
    for kind in KINDS {
        let began = Instant::now();
        // Else what others loaded would hide that a script may not be sent.
        server.cli(&["SCRIPT", "FLUSH"]);
        let lock = any(client, kind, &format!("app:{kind}"));
        let (mut kept, mut late) = (Vec::new(), false);
        failed(format!("{kind} holds"), holds(&lock));
        failed(format!("{kind} asks"), asks(client, kind));
        // Others have it, and release while we wait.
        let held = any(admin, kind_against(kind), &format!("app:{kind}"))
            .try_lock()
            .expect("answered");
        if let Some(held) = held {
            thread::scope(|scope| {
                let waiter = scope.spawn(|| lock.try_lock_owned_for(LONG));
                eventually(LONG, "it waits, or may not", || {
                    client.state().waiters > 0 || waiter.is_finished()
                });
                // By now it listens, or was refused.
                thread::sleep(Duration::from_millis(50));
                held.unlock().expect("the admin may");
                let released = Instant::now();
                match waiter.join().expect("no panic") {
                    Ok(Some(guard)) => {
                        late = released.elapsed() > Duration::from_secs(1);
                        kept.push(guard);
                    }
                    Ok(None) => panic!("{right}: {kind} waits in vain"),
                    Err(error) => failed(format!("{kind} waits"), Err(error)),
                }
            });
        }
        for guard in kept {
            failed(format!("{kind} unlocks"), guard.unlock());
        }
        failed(format!("{kind} hands over"), hand_over(&lock));
        server.cli(&["FLUSHALL"]);
        if late {
            lates.push(format!("{kind} enters late"));
        }
        let took = began.elapsed();
        assert!(took < Duration::from_secs(20), "{right}: {kind}: {took:?}");
    }
    server.cli(&["FLUSHALL"]);
    if RARE.contains(&right) {
        found.extend(lates);
        return found;
    }
    let quick = Client::builder().lock_watchdog_timeout(WATCHDOG);
    let client = &watched(ground, quick.connect(&url(server)));
    let guards: Vec<_> = KINDS
        .iter()
        .filter_map(|kind| {
            let lock = any(client, kind, &format!("app:{kind}-renewed"));
            Some((kind, lock.try_lock().ok()??))
        })
        .collect();
    // Longer than they live unless they are renewed.
    thread::sleep(WATCHDOG + WATCHDOG / 4);
    for (kind, guard) in guards {
        failed(format!("{kind} renewed"), guard.verify());
        failed(format!("{kind} unlocks"), guard.unlock());
    }
    server.cli(&["FLUSHALL"]);
    found.extend(lates);
    found
}

fn kind_against(kind: &str) -> &str {
    match kind {
        "read" => "write",
        other => other,
    }
}

fn any(client: &Client, kind: &str, name: &str) -> AnyLock {
    match kind {
        "fair" => client.fair_lock(name).into(),
        "read" => client.read_write_lock(name).read_lock().into(),
        "write" => client.read_write_lock(name).write_lock().into(),
        "multi" => {
            let members = [name.to_owned(), format!("{name}-beside")];
            let members = members.map(|name| client.reentrant_lock(name).into());
            MultiLock::new(members).expect("two").into()
        }
        _ => client.reentrant_lock(name).into(),
    }
}

fn holds(lock: &AnyLock) -> Result<()> {
    let Some(guard) = lock.try_lock()? else {
        return Ok(());
    };
    guard.verify()?;
    if let Some(again) = lock.try_lock()? {
        again.unlock()?;
    }
    guard.extend(Duration::from_secs(2))?;
    guard.unlock()
}

fn asks(client: &Client, kind: &str) -> Result<()> {
    let name = format!("app:{kind}");
    macro_rules! ask {
        ($lock:expr) => {{
            let lock = $lock;
            let _guard = lock.try_lock()?;
            lock.is_locked()?;
            lock.hold_count()?;
            lock.remaining_ttl()?;
            lock.inspect()?;
            lock.force_unlock().map(drop)
        }};
    }
    match kind {
        "fair" => ask!(client.fair_lock(&name)),
        "read" => ask!(client.read_write_lock(&name).read_lock()),
        "write" => {
            let lock = client.read_write_lock(&name);
            if let Some(writing) = lock.try_write()? {
                writing.downgrade().map_err(|(error, _)| error)?.unlock()?;
            }
            ask!(lock.write_lock())
        }
        "multi" => Ok(()),
        _ => ask!(client.reentrant_lock(&name)),
    }
}

/// Between two threads of the client.
fn hand_over(lock: &AnyLock) -> Result<()> {
    thread::scope(|scope| {
        let threads = [(); 2].map(|()| {
            scope.spawn(|| {
                for _ in 0..3 {
                    if let Some(guard) = lock.try_lock_for(Duration::from_secs(2))? {
                        thread::sleep(Duration::from_millis(5));
                        guard.unlock()?;
                    }
                }
                Ok(())
            })
        });
        threads
            .into_iter()
            .try_for_each(|one| one.join().expect("no panic"))
    })
}

/// Of what is kept to see it renewed. A busy machine may stand still for two thirds of it.
const WATCHDOG: Duration = Duration::from_millis(1800);
