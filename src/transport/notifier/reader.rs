//! The reading end of a notifier's connection: what is asked for on it, and what comes.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use redis::Value;

use super::{Notifier, Status};
use crate::{
    error::{Error, ErrorKind, Result, Shortened},
    transport::{
        connection::{Connection, Trouble},
        failure, wire,
    },
};

/// How long the connection is kept when nobody waits any more.
const LINGER: Duration = Duration::from_secs(3);

/// The reading end of one connection.
pub(super) struct Reader<'a> {
    notifier: &'a Notifier,
    connection: &'a mut Connection,
    /// The answers still to come, in the order of their requests: an error names no channel.
    expected: VecDeque<Arc<str>>,
    private: Arc<str>,
    idle_since: Option<Instant>,
}

pub(in crate::transport) enum Heard {
    Confirmed(Vec<u8>),
    Left,
    Message(Vec<u8>),
    Other,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        notifier: &'a Notifier,
        connection: &'a mut Connection,
        private: Arc<str>,
    ) -> Self {
        Self {
            notifier,
            connection,
            expected: VecDeque::new(),
            private,
            idle_since: None,
        }
    }

    /// Reads until the link fails: `Ok` when nobody needs it any more.
    pub(super) fn run(&mut self, connected: &mut dyn FnMut()) -> Result<()> {
        let private = Arc::clone(&self.private);
        self.send("SUBSCRIBE", &[private])?;
        self.subscribe_wanted()?;
        loop {
            match self.connection.next_value().map_err(Trouble::into_error)? {
                Value::ServerError(error) => {
                    let channel = self.expected.pop_front();
                    let error = failure::error(self.notifier.endpoint.server(), error.into());
                    self.refused(channel, error)?;
                }
                value => match heard(value) {
                    Heard::Confirmed(channel) => {
                        self.expected.pop_front();
                        if channel == self.private.as_bytes() {
                            connected();
                            // Whoever came meanwhile found nobody to wake.
                        } else {
                            self.confirmed(&channel);
                        }
                    }
                    Heard::Left => {
                        self.expected.pop_front();
                    }
                    Heard::Message(channel) if channel == self.private.as_bytes() => {
                        if self.tidy()? {
                            return Ok(());
                        }
                    }
                    Heard::Message(channel) => self.wake(&channel),
                    Heard::Other => {}
                },
            }
            self.subscribe_wanted()?;
            if self.notifier.state.lock().stopped {
                return Ok(());
            }
        }
    }

    fn subscribe_wanted(&mut self) -> Result<()> {
        let mut wanted = Vec::new();
        for (channel, entry) in &mut self.notifier.state.lock().channels {
            if entry.status == Status::Wanted {
                entry.status = Status::Sent;
                wanted.push(Arc::clone(channel));
            }
        }
        self.send("SUBSCRIBE", &wanted)
    }

    /// At each beat: leaves the channels that nobody listens to; true when there are none left for
    /// long enough.
    fn tidy(&mut self) -> Result<bool> {
        let mut left = Vec::new();
        let empty = {
            let mut state = self.notifier.state.lock();
            state.channels.retain(|channel, entry| {
                let keep = !entry.listeners.is_empty() || entry.status == Status::Sent;
                if !keep {
                    left.push(Arc::clone(channel));
                }
                keep
            });
            state.channels.is_empty()
        };
        self.send("UNSUBSCRIBE", &left)?;
        if !empty {
            self.idle_since = None;
            return Ok(false);
        }
        Ok(self.idle_since.get_or_insert_with(Instant::now).elapsed() >= LINGER)
    }

    fn confirmed(&self, channel: &[u8]) {
        let Ok(channel) = std::str::from_utf8(channel) else {
            return;
        };
        if let Some(entry) = self.notifier.state.lock().channels.get_mut(channel) {
            entry.status = Status::Confirmed;
        }
        for listener in self.notifier.listeners(channel) {
            listener.listening();
        }
    }

    fn wake(&self, channel: &[u8]) {
        let Ok(channel) = std::str::from_utf8(channel) else {
            return;
        };
        for listener in self.notifier.listeners(channel) {
            listener.woken();
        }
    }

    fn refused(&self, channel: Option<Arc<str>>, error: Error) -> Result<()> {
        match channel {
            _ if error.kind() != ErrorKind::NoPermission => return Err(error),
            Some(channel) if channel != self.private => {
                let removed = self.notifier.state.lock().channels.remove(&channel);
                for (_, listener) in removed.into_iter().flat_map(|entry| entry.listeners) {
                    listener.refused(error.clone());
                }
            }
            // Without it nobody could wake the reader.
            _ => {
                let message = format!(
                    "{error}; asked for {}: a rule for the channel of a lock has to allow this one \
                     too, as one that ends in * does",
                    Shortened(&self.private)
                );
                let error = Error::caused_by(ErrorKind::NoPermission, message, error);
                self.notifier.refuse_all(&error, &self.private);
                return Err(error);
            }
        }
        Ok(())
    }

    /// One command a channel: an answer then belongs to one channel.
    fn send(&mut self, command: &str, channels: &[Arc<str>]) -> Result<()> {
        if channels.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::new();
        for channel in channels {
            wire::pack_words(&mut bytes, &[command, channel]);
            self.expected.push_back(Arc::clone(channel));
        }
        self.connection
            .send_packed(&bytes)
            .map_err(Trouble::into_error)
    }
}

/// Confirmations and messages, as RESP2 and RESP3 write them.
pub(in crate::transport) fn heard(value: Value) -> Heard {
    let (kind, mut parts) = match value {
        Value::Array(mut parts) if parts.len() >= 2 => {
            let Value::BulkString(kind) = parts.remove(0) else {
                return Heard::Other;
            };
            (kind, parts)
        }
        Value::Push { kind, data } => (kind.to_string().into_bytes(), data),
        _ => return Heard::Other,
    };
    if parts.is_empty() {
        return Heard::Other;
    }
    let Value::BulkString(channel) = parts.swap_remove(0) else {
        return Heard::Other;
    };
    match kind.as_slice() {
        b"subscribe" => Heard::Confirmed(channel),
        b"unsubscribe" => Heard::Left,
        b"message" => Heard::Message(channel),
        _ => Heard::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn tells_messages_from_confirmations_in_both_protocols() {
        let message = Value::Array(vec![bulk("message"), bulk("c"), bulk("0")]);
        assert!(matches!(heard(message), Heard::Message(c) if c == b"c"));
        let confirmed = Value::Array(vec![bulk("subscribe"), bulk("c"), Value::Int(1)]);
        assert!(matches!(heard(confirmed), Heard::Confirmed(c) if c == b"c"));
        let push = Value::Push {
            kind: redis::PushKind::Message,
            data: vec![bulk("c"), bulk("0")],
        };
        assert!(matches!(heard(push), Heard::Message(c) if c == b"c"));
        let push = Value::Push {
            kind: redis::PushKind::Unsubscribe,
            data: vec![bulk("c"), Value::Int(0)],
        };
        assert!(matches!(heard(push), Heard::Left));
    }

    #[test]
    fn nonsense_is_nothing() {
        for value in [
            Value::Nil,
            Value::Okay,
            Value::Array(vec![]),
            Value::Array(vec![Value::Int(1), Value::Int(2)]),
            Value::Array(vec![bulk("message"), Value::Nil, Value::Nil]),
            Value::Array(vec![bulk("pong"), bulk("")]),
            Value::Push {
                kind: redis::PushKind::Message,
                data: vec![],
            },
        ] {
            assert!(matches!(heard(value), Heard::Other));
        }
    }
}
