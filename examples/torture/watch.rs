//! Looks all the time at who stands in Redis: as holders, and in the queues of fair locks.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use redis::{Connection, RedisResult};

use crate::{
    clock::now,
    history::event::{Event, Names, Nanos},
    pen::Pen,
    plan::QUIET,
    support::Server,
};

/// Watches until the end.
pub(crate) fn run(server: &Server, pen: &Pen, ended: &AtomicBool) {
    let mut connection = None;
    let mut watch = Watch {
        pen,
        last: HashMap::new(),
    };
    while !ended.load(Ordering::SeqCst) {
        thread::sleep(Duration::from_millis(4));
        let Some(mut redis) = connection.take().or_else(|| server.try_connection().ok()) else {
            continue;
        };
        if watch.look(&mut redis).is_ok() {
            connection = Some(redis);
        }
    }
    for (key, glance) in watch.last {
        glance.note(pen, &key);
    }
}

struct Watch<'a> {
    pen: &'a Pen,
    last: HashMap<String, Glance>,
}

/// What was seen, and between which moments the last time.
struct Glance {
    members: Vec<String>,
    began: Nanos,
    at: Nanos,
    is_noted: bool,
}

impl Watch<'_> {
    fn look(&mut self, redis: &mut Connection) -> RedisResult<()> {
        for key in redis::cmd("KEYS")
            .arg(format!("{QUEUE}fair-*}}"))
            .query::<Vec<String>>(redis)?
        {
            let name = key[QUEUE.len()..].trim_end_matches('}').to_owned();
            self.glance(redis, key, |key| {
                redis::cmd("LRANGE").arg(key).arg(0).arg(-1).take()
            })?;
            self.glance(redis, name, |key| redis::cmd("HKEYS").arg(key).take())?;
        }
        for name in HASHES.into_iter().chain(QUIET) {
            self.glance(redis, name.to_owned(), |key| {
                redis::cmd("HKEYS").arg(key).take()
            })?;
        }
        Ok(())
    }

    /// Notes a change, and before it when the old was seen last.
    fn glance(
        &mut self,
        redis: &mut Connection,
        key: String,
        ask: impl FnOnce(&str) -> redis::Cmd,
    ) -> RedisResult<()> {
        let began = now();
        let members: Vec<String> = ask(&key).query(redis)?;
        let at = now();
        match self.last.get_mut(&key) {
            Some(last) if last.members == members => {
                (last.began, last.at, last.is_noted) = (began, at, false);
            }
            last => {
                if let Some(last) = last {
                    last.note(self.pen, &key);
                }
                let mut glance = Glance {
                    members,
                    began,
                    at,
                    is_noted: false,
                };
                glance.note(self.pen, &key);
                glance.is_noted = true;
                self.last.insert(key, glance);
            }
        }
        Ok(())
    }
}

impl Glance {
    fn note(&self, pen: &Pen, key: &str) {
        if self.is_noted || self.members.is_empty() {
            return;
        }
        let (began, members) = (self.began, Names(self.members.clone()));
        let event = match key.strip_prefix(QUEUE) {
            Some(name) => Event::Queue {
                name: name.trim_end_matches('}').to_owned(),
                began,
                holders: members,
            },
            None => Event::Holders {
                name: key.to_owned(),
                began,
                holders: members,
            },
        };
        pen.note_at(self.at, event);
    }
}

/// The locks that are always there; the fair ones change.
const HASHES: [&str; 3] = ["a", "b", "page"];
const QUEUE: &str = "redisson_lock_queue:{";
