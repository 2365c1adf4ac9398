//! Who takes part in a scenario, and what can be asked of them and of the server.

use std::{collections::BTreeMap, time::Duration};

use redis::{Commands, PubSub};

use super::Kind;
use crate::support::{Answer, Ground, Peer, Pending, child::Refusal};

/// What a client lives by unless it asks for a lease.
pub(super) const WATCHDOG: Duration = Duration::from_secs(3);

pub(super) const BOUND: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Side {
    Java,
    Rust,
}

/// One thread of one client, of either side.
#[derive(Clone, Copy)]
pub(super) struct Seat<'a> {
    peer: &'a Peer,
    pub(super) side: Side,
    client: &'a str,
    thread: &'a str,
    pub(super) kind: Kind,
}

impl<'a> Seat<'a> {
    pub(super) fn new(peer: &'a Peer, side: Side, client: &'a str, kind: Kind) -> Self {
        Self {
            peer,
            side,
            client,
            thread: "t1",
            kind,
        }
    }

    /// Another thread of the same client.
    pub(super) fn on(self, thread: &'a str) -> Self {
        Self { thread, ..self }
    }

    /// The same thread, with another kind of lock.
    pub(super) fn by(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// Asks for an operation, whose arguments stand behind it: `tryLockWL 0 800`.
    #[track_caller]
    pub(super) fn ask(&self, operation: &str, lock: &str) -> Answer {
        self.send(operation, lock).wait(BOUND)
    }

    /// As [`ask`](Self::ask), without waiting for the answer.
    pub(super) fn send(&self, operation: &str, lock: &str) -> Pending {
        let (op, arguments) = operation.split_once(' ').unwrap_or((operation, ""));
        let Self {
            client,
            thread,
            kind,
            ..
        } = self;
        let request = format!("{client} {thread} {op} {} {lock} {arguments}", kind.word);
        self.peer.send(request.trim_end())
    }

    /// Cancels what this thread does, as an interrupt in Java.
    #[track_caller]
    pub(super) fn cancel(&self) {
        let done = self.peer.call(&format!("cancel {}", self.thread));
        assert_eq!(done.as_deref(), Ok("null"));
    }

    #[track_caller]
    pub(super) fn says(&self, operation: &str, lock: &str, expected: &str) {
        let answer = self.ask(operation, lock);
        assert_eq!(answer.as_deref(), Ok(expected), "{}", self.told(operation));
    }

    #[track_caller]
    pub(super) fn refuses(&self, operation: &str, lock: &str, kind: &str) {
        match self.ask(operation, lock) {
            Err(Refusal { kind: told, .. }) if told == kind => {}
            answer => panic!("{}: {answer:?}, not {kind}", self.told(operation)),
        }
    }

    #[track_caller]
    pub(super) fn number(&self, operation: &str, lock: &str) -> i64 {
        let answer = self.ask(operation, lock);
        let number = answer.as_ref().ok().and_then(|value| value.parse().ok());
        number.unwrap_or_else(|| panic!("{}: {answer:?}", self.told(operation)))
    }

    /// The holder as it stands in Redis.
    #[track_caller]
    pub(super) fn holder(&self, lock: &str) -> String {
        self.ask("holder", lock)
            .unwrap_or_else(|refusal| panic!("{}: {refusal}", self.told("holder")))
    }

    fn told(&self, operation: &str) -> String {
        format!(
            "{operation} {} of {:?} {} {}",
            self.kind.word, self.side, self.client, self.thread
        )
    }
}

/// A scenario's two seats, on one server.
pub(super) struct Pair<'a> {
    pub(super) first: Seat<'a>,
    pub(super) second: Seat<'a>,
    pub(super) kind: Kind,
    pub(super) ground: &'a Ground,
}

impl Pair<'_> {
    /// A name of its own for each direction: what one that failed has left must not disturb the
    /// next.
    pub(super) fn name(&self) -> String {
        self.ground.name("L")
    }

    /// A plain connection, to see what is really there.
    #[track_caller]
    pub(super) fn redis(&self) -> redis::Connection {
        self.ground.server().connection()
    }

    /// The hash at that key; empty when there is none.
    #[track_caller]
    pub(super) fn hash(&self, key: &str) -> BTreeMap<String, String> {
        self.redis().hgetall(key).expect("the key is a hash")
    }

    /// As `PTTL` says it.
    #[track_caller]
    pub(super) fn pttl(&self, key: &str) -> i64 {
        self.redis().pttl(key).expect("PTTL")
    }

    /// How many channels of this lock somebody listens to: a fair waiter has one of its own.
    #[track_caller]
    pub(super) fn listeners(&self, lock: &str) -> usize {
        let wrapped = match lock.contains('{') {
            true => lock.to_owned(),
            false => format!("{{{lock}}}"),
        };
        let channels: Vec<String> = redis::cmd("PUBSUB")
            .arg("CHANNELS")
            .arg(format!("{}:{wrapped}*", self.kind.channel))
            .query(&mut self.redis())
            .expect("PUBSUB CHANNELS");
        let own_affair = |channel: &&String| channel.ends_with(":wake");
        channels.len() - channels.iter().filter(own_affair).count()
    }

    /// Hears that this seat has freed a lock that nobody waited for. Redisson's fair lock says
    /// nothing then.
    #[track_caller]
    pub(super) fn told(&self, channels: &mut PubSub<'_>, channel: &str, by: &Seat<'_>) {
        let expected = match (by.kind.word, by.side) {
            ("fair", Side::Java) => {
                self.publish(channel, "nothing so far");
                "nothing so far"
            }
            _ => by.kind.message,
        };
        assert_eq!(heard(channels), (channel.to_owned(), expected.to_owned()));
    }

    #[track_caller]
    pub(super) fn publish(&self, channel: &str, message: &str) {
        let _: i64 = self.redis().publish(channel, message).expect("PUBLISH");
    }
}

/// The next message, whichever channel it comes by.
#[track_caller]
pub(super) fn heard(channels: &mut PubSub<'_>) -> (String, String) {
    let message = channels.get_message().expect("a message arrives");
    let payload = message.get_payload().expect("the message is text");
    (message.get_channel_name().to_owned(), payload)
}
