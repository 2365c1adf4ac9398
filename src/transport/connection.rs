//! One connection: one request and its reply, and what the fence has to know.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use redis::{RedisError, Value};

use super::{
    failure,
    wire::{self, Form},
};
use crate::{
    error::{Error, ErrorKind, Shortened},
    protocol::{Call, Reply, Request},
};

/// Zero would mean no timeout at all.
const LEAST: Duration = Duration::from_millis(1);

pub(crate) struct Connection {
    redis: redis::Connection,
    server: Arc<str>,
    fence: Option<Fence>,
    timeout: Duration,
    last_used: Instant,
    broken: bool,
    /// Whether a reply is still to be read: whoever came next would take it for its own.
    unread: bool,
    buffer: Vec<u8>,
}

/// What the server calls a connection.
///
/// Killing it by this name makes sure that a request written to it has either run or never will.
/// Both parts are needed: ids begin anew when the server does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fence {
    pub(super) id: u64,
    pub(super) address: String,
    /// When the connection was asked for, and when it was known to be there.
    pub(super) made: (Instant, Instant),
}

/// Why a request has no proper reply.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The link failed: the request may have run, may run later, or never will.
    Broken(Error),
    /// The server answered by an error: the request had no effect.
    Refused(Error),
}

#[derive(Debug)]
pub(super) struct Replied {
    pub(super) reply: Reply,
    /// Why the connections named by the fences could not be killed, if they could not.
    pub(super) unfenced: Option<Error>,
}

impl Connection {
    pub(super) fn new(
        redis: redis::Connection,
        server: Arc<str>,
        timeout: Duration,
    ) -> Result<Self, Error> {
        let connection = Self {
            redis,
            server,
            fence: None,
            timeout: timeout.max(LEAST),
            last_used: Instant::now(),
            broken: false,
            unread: false,
            buffer: Vec::with_capacity(512),
        };
        connection.apply_timeout().map_err(Trouble::into_error)?;
        Ok(connection)
    }

    /// Sends a request, behind the killing of the connections in `fences`, and reads its reply.
    pub(super) fn call(
        &mut self,
        request: &Request,
        fences: &[Fence],
        timeout: Duration,
    ) -> Result<Replied, Trouble> {
        let started = Instant::now();
        let kills = self.write(request, fences, timeout)?;
        self.read(request, kills, started, timeout)
    }

    /// Sends a request, behind the killing of the connections in `fences`; answers how many.
    pub(super) fn write(
        &mut self,
        request: &Request,
        fences: &[Fence],
        timeout: Duration,
    ) -> Result<usize, Trouble> {
        self.limit(timeout)?;
        self.buffer.clear();
        let mut kills = 0;
        for fence in fences {
            if self.fence.as_ref().is_none_or(|own| own.may_kill(fence)) {
                let id = fence.id.to_string();
                let words = ["CLIENT", "KILL", "ID", &id, "ADDR", &fence.address];
                wire::pack_words(&mut self.buffer, &words);
                kills += 1;
            }
        }
        wire::pack(&mut self.buffer, request, Form::Digest);
        self.unread = true;
        self.send()?;
        Ok(kills)
    }

    /// Reads the reply of a request that was written behind so many kills; the time for it began
    /// then.
    pub(super) fn read(
        &mut self,
        request: &Request,
        kills: usize,
        started: Instant,
        timeout: Duration,
    ) -> Result<Replied, Trouble> {
        let left = || timeout.saturating_sub(started.elapsed());
        self.limit(timeout)?;
        let mut unfenced = None;
        for _ in 0..kills {
            match self.receive()? {
                Ok(Value::Int(_)) => {}
                Ok(other) => unfenced = Some(self.nonsense(&other)),
                Err(cause) => unfenced = Some(failure::error(&self.server, cause)),
            }
            self.limit(left())?;
        }
        let mut answer = self.receive()?;
        if matches!(&answer, Err(cause) if failure::is_unknown_script(cause)) {
            self.buffer.clear();
            wire::pack(&mut self.buffer, request, Form::Text);
            self.limit(left())?;
            self.send()?;
            answer = self.receive()?;
        }
        self.last_used = started;
        self.unread = false;
        match answer {
            Ok(value) => Ok(Replied {
                reply: wire::reply(value),
                unfenced,
            }),
            Err(cause) => {
                // A demoted server goes on refusing; only a new connection may find another.
                self.broken |= failure::is_read_only(&cause);
                Err(Trouble::Refused(failure::error(&self.server, cause)))
            }
        }
    }

    /// Writes a request without waiting for its reply: the connection is of no use afterwards.
    pub(super) fn call_and_leave(&mut self, request: &Request) {
        self.buffer.clear();
        // By its text: nobody will be here to hear that the digest is unknown.
        wire::pack(&mut self.buffer, request, Form::Text);
        let _ = self.send();
        self.broken = true;
    }

    pub(super) fn ping(&mut self, timeout: Duration) -> Result<(), Error> {
        let request = Request {
            call: Call::Command("PING"),
            keys: vec![],
            arguments: vec![],
        };
        match self.call(&request, &[], timeout) {
            Ok(_) => Ok(()),
            Err(trouble) => Err(trouble.into_error()),
        }
    }

    pub(super) fn fence(&self) -> Option<&Fence> {
        self.fence.as_ref()
    }

    pub(super) fn set_fence(&mut self, fence: Fence) {
        self.fence = Some(fence);
    }

    pub(super) fn last_used(&self) -> Instant {
        self.last_used
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken || self.unread
    }

    /// Has the connection closed instead of used again.
    pub(super) fn retire(&mut self) {
        self.broken = true;
    }

    pub(super) fn send_packed(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        let sent = self.redis.send_packed_command(bytes);
        sent.map_err(|cause| self.broken(cause))
    }

    /// Whatever the server says next.
    pub(super) fn next_value(&mut self) -> Result<Value, Trouble> {
        let value = self.redis.recv_response();
        value.map_err(|cause| self.broken(cause))
    }

    /// The next reply: a value, or the server's error.
    pub(super) fn receive(&mut self) -> Result<Result<Value, RedisError>, Trouble> {
        loop {
            match self.redis.recv_response() {
                Ok(Value::Push { .. }) => {}
                Ok(Value::ServerError(error)) => return Ok(Err(error.into())),
                Ok(value) => return Ok(Ok(value)),
                Err(cause) => return Err(self.broken(cause)),
            }
        }
    }

    pub(super) fn nonsense(&self, value: &Value) -> Error {
        Error::new(
            ErrorKind::Protocol,
            format!(
                "{} answered something unexpected: {}",
                self.server,
                Shortened(&format!("{value:?}"))
            ),
        )
    }

    fn send(&mut self) -> Result<(), Trouble> {
        let sent = self.redis.send_packed_command(&self.buffer);
        sent.map_err(|cause| self.broken(cause))
    }

    /// Sets how long each further reply may take.
    pub(super) fn limit(&mut self, timeout: Duration) -> Result<(), Trouble> {
        let timeout = timeout.max(LEAST);
        // Setting the same one again would be a system call for nothing.
        if timeout != self.timeout {
            self.timeout = timeout;
            self.apply_timeout()?;
        }
        Ok(())
    }

    fn apply_timeout(&self) -> Result<(), Trouble> {
        self.redis
            .set_read_timeout(Some(self.timeout))
            .and_then(|()| self.redis.set_write_timeout(Some(self.timeout)))
            .map_err(|cause| Trouble::Broken(failure::error(&self.server, cause)))
    }

    fn broken(&mut self, cause: RedisError) -> Trouble {
        self.broken = true;
        Trouble::Broken(failure::error(&self.server, cause))
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("server", &self.server)
            .field("fence", &self.fence)
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}

impl Fence {
    /// Whether `other` names a connection of the server process that made this one.
    ///
    /// Ids only grow: a connection made later with a lower one is from a restarted server, where
    /// nothing sent to the old process can run any more and the old id may be somebody else's.
    /// Either of the two may be the later one: the watchdog's connection is often the older.
    fn may_kill(&self, other: &Self) -> bool {
        let restarted = |old: &Self, new: &Self| new.made.0 > old.made.1 && new.id < old.id;
        !restarted(other, self) && !restarted(self, other)
    }
}

impl Trouble {
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::Broken(error) | Self::Refused(error) => error,
        }
    }
}
