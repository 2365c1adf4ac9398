//! Whatever stands at our keys: a clear error or a sound answer, in time, and no busy loop.

mod names;
mod over;
mod random;
mod table;

use std::time::{Duration, Instant};

use lockson::{AnyLock, Client, ErrorKind, Inspection, MultiLock, Result, Ttl};
use redis::RedisResult;

use crate::support::Server;

/// The kinds, in the order of the tables.
const KINDS: [&str; 5] = ["reentrant", "fair", "read", "write", "multi"];

/// What waits here is given up after this.
const WAIT: Duration = millis(120);
/// More than a wait may be late on a busy machine.
const SLACK: Duration = Duration::from_secs(3);
/// For facts that are due at once, on a busy machine.
const SOON: Duration = Duration::from_secs(10);

/// One lock, as any and by the questions that not every lock answers.
struct Face {
    any: AnyLock,
    questions: Option<Questions>,
}

struct Questions {
    locked: Box<dyn Fn() -> Result<bool> + Send>,
    count: Box<dyn Fn() -> Result<u64> + Send>,
    ttl: Box<dyn Fn() -> Result<Ttl> + Send>,
    inspect: Box<dyn Fn() -> Result<Inspection> + Send>,
    force: Box<dyn Fn() -> Result<bool> + Send>,
}

macro_rules! face {
    ($lock:expr) => {{
        let lock = $lock;
        let questions = Questions {
            locked: Box::new({
                let lock = lock.clone();
                move || lock.is_locked()
            }),
            count: Box::new({
                let lock = lock.clone();
                move || lock.hold_count()
            }),
            ttl: Box::new({
                let lock = lock.clone();
                move || lock.remaining_ttl()
            }),
            inspect: Box::new({
                let lock = lock.clone();
                move || lock.inspect()
            }),
            force: Box::new({
                let lock = lock.clone();
                move || lock.force_unlock()
            }),
        };
        Face {
            any: lock.into(),
            questions: Some(questions),
        }
    }};
}

fn face(client: &Client, kind: &str, name: &str) -> Face {
    match kind {
        "reentrant" => face!(client.reentrant_lock(name)),
        "fair" => face!(client.fair_lock(name)),
        "read" => face!(client.read_write_lock(name).read_lock()),
        "write" => face!(client.read_write_lock(name).write_lock()),
        "multi" => {
            let members = [format!("{name}-beside"), name.to_owned()];
            let members = members.map(|name| client.reentrant_lock(name).into());
            Face {
                any: MultiLock::new(members).expect("two locks").into(),
                questions: None,
            }
        }
        other => panic!("no kind {other}"),
    }
}

/// Writes what a line of a table says: commands between bars, with the names of the lock's keys.
///
/// `{L}` the lock, `{Q}` and `{T}` its fair queue and times, `{S}` the stem of its slots; `MB` a
/// mebibyte, `EMPTY` nothing, `NOW+n` a time by the server's clock in so many ms, `{H}` the field of who
/// holds it now.
fn write(redis: &mut redis::Connection, name: &str, line: &str) -> RedisResult<()> {
    // At once: who waits must not enter between two of them.
    let mut all = redis::pipe();
    all.atomic();
    for command in line.split(" | ") {
        let mut words = redis::Cmd::new();
        for word in command.split_whitespace() {
            words.arg(meant(redis, name, word)?);
        }
        all.add_command(words);
    }
    all.query::<redis::Value>(redis).map(drop)
}

fn meant(redis: &mut redis::Connection, name: &str, word: &str) -> RedisResult<Vec<u8>> {
    if let Some(ahead) = word.strip_prefix("NOW+") {
        let (seconds, _): (u64, u64) = redis::cmd("TIME").query(redis)?;
        let ahead: u64 = ahead.parse().expect("a number");
        return Ok((seconds * 1000 + ahead).to_string().into());
    }
    let holder = match word.contains("{H}") {
        true => {
            let fields: RedisResult<Vec<String>> = redis::cmd("HKEYS").arg(name).query(redis);
            let mut fields = fields.unwrap_or_default().into_iter();
            fields.find(|field| field != "mode").unwrap_or_default()
        }
        false => String::new(),
    };
    Ok(match word {
        "MB" => vec![b'x'; 1 << 20],
        "EMPTY" => vec![],
        // What is no text at all.
        "BIN" => vec![0xff, 0, b'\r', b'\n', 0xc3],
        _ => word
            .replace("{L}", name)
            .replace("{Q}", &format!("redisson_lock_queue:{{{name}}}"))
            .replace("{T}", &format!("redisson_lock_timeout:{{{name}}}"))
            .replace("{H}", &holder)
            .replace("{S}", &format!("{{{name}}}"))
            .into(),
    })
}

/// What only bad data brings about, and what may be said of it.
#[track_caller]
fn fits(what: &str, kind: ErrorKind) {
    use ErrorKind::{Lost, NotHeld, Protocol, WrongType};
    let named = [WrongType, Protocol, NotHeld, Lost];
    assert!(named.contains(&kind), "{what}: {kind:?}");
}

#[track_caller]
fn in_time<T>(what: &str, limit: Duration, body: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let result = body();
    let took = began.elapsed();
    assert!(took < limit + SLACK, "{what}: {took:?}");
    result
}

/// The server is asked so often at most by one who waits so long: with a bit for connections.
fn most_calls(wait: Duration) -> u64 {
    20 + wait.as_millis() as u64 / 50
}

fn flush(server: &Server) {
    server.cli(&["FLUSHALL"]);
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
