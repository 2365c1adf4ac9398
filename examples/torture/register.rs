//! A counter in Redis that whoever has the lock reads and writes: what the lock is there for.
//!
//! It has a connection of its own, straight to the server, and no hurry: a write that is not answered
//! may run at any time.

use std::time::Duration;

use redis::{Connection, RedisResult};

use crate::history::event::UNWRITTEN;

/// The counters of one thread.
pub(crate) struct Register {
    url: String,
    connection: Option<Connection>,
}

impl Register {
    pub(crate) fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            connection: None,
        }
    }

    /// What it holds; `None` if nobody answers.
    pub(crate) fn read(&mut self, name: &str) -> Option<String> {
        let value = self.ask(redis::cmd("GET").arg(key(name)))?;
        Some(value.unwrap_or_else(|| UNWRITTEN.to_owned()))
    }

    /// Whether it is known to be written.
    pub(crate) fn write(&mut self, name: &str, value: &str) -> bool {
        self.ask(redis::cmd("SET").arg(key(name)).arg(value)) == Some(Some("OK".to_owned()))
    }

    fn ask(&mut self, command: &redis::Cmd) -> Option<Option<String>> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(&self.url).ok()?,
        };
        let answer = command.query(&mut connection).ok()?;
        self.connection = Some(connection);
        Some(answer)
    }
}

/// What the counters of all locks begin with.
pub(crate) const PREFIX: &str = "counter:";

fn key(name: &str) -> String {
    format!("{PREFIX}{name}")
}

fn connect(url: &str) -> RedisResult<Connection> {
    let connection = redis::Client::open(url)?.get_connection_with_timeout(PATIENCE)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    Ok(connection)
}

const PATIENCE: Duration = Duration::from_millis(500);
