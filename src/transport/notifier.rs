//! The unlock notifier: one thread and one pub/sub connection for all the channels of a client.

mod reader;

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use self::reader::Reader;
#[cfg(test)]
pub(super) use self::reader::heard;
use super::{connection::Trouble, endpoint::Endpoint};
use crate::error::{Error, Result};

/// How often somebody has to publish on the private channel of a notifier that listens.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(600);

/// Silence for longer means that the link is dead. Three beats fit in.
const SILENCE: Duration = Duration::from_secs(2);

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Whoever wants to know of messages on a channel.
pub(crate) trait Listener: Send + Sync {
    /// A message came: look again.
    fn woken(&self);

    /// It is listened to from now on; messages may have been missed before: look again.
    fn listening(&self);

    /// The server does not let us listen.
    fn refused(&self, error: Error);
}

/// What the notifier tells its client.
#[derive(Debug)]
pub(crate) enum Notice {
    Connected,
    Disconnected(Error),
    Reconnected,
}

pub(crate) struct Notifier {
    endpoint: Arc<Endpoint>,
    client: Arc<str>,
    state: Mutex<State>,
    changed: Condvar,
    next_listener: AtomicU64,
    reconnects: AtomicU64,
}

/// A channel listened to, as long as this lives.
pub(crate) struct Subscription {
    notifier: Arc<Notifier>,
    channel: Arc<str>,
    number: u64,
}

#[derive(Default)]
struct State {
    channels: HashMap<Arc<str>, Channel>,
    /// Where the reader can be woken, while it is connected.
    private: Option<Arc<str>>,
    stopped: bool,
}

struct Channel {
    listeners: Vec<(u64, Arc<dyn Listener>)>,
    status: Status,
}

/// Where a channel stands on the present connection.
#[derive(Clone, Copy, PartialEq)]
enum Status {
    Wanted,
    Sent,
    Confirmed,
}

impl Notifier {
    pub(super) fn new(endpoint: Arc<Endpoint>, client: Arc<str>) -> Self {
        Self {
            endpoint,
            client,
            state: Mutex::default(),
            changed: Condvar::new(),
            next_listener: AtomicU64::new(0),
            reconnects: AtomicU64::new(0),
        }
    }

    /// Begins to listen. `listening` follows when the server has confirmed it.
    pub(super) fn subscribe(
        self: &Arc<Self>,
        channel: &Arc<str>,
        listener: Arc<dyn Listener>,
    ) -> Subscription {
        let number = self.next_listener.fetch_add(1, Ordering::Relaxed);
        let confirmed = {
            let mut state = self.state.lock();
            let entry = state
                .channels
                .entry(Arc::clone(channel))
                .or_insert_with(|| Channel {
                    listeners: Vec::with_capacity(1),
                    status: Status::Wanted,
                });
            entry.listeners.push((number, Arc::clone(&listener)));
            entry.status == Status::Confirmed
        };
        self.changed.notify_one();
        if confirmed {
            // Others listen already; but what came before now was not for this one.
            listener.listening();
        }
        Subscription {
            notifier: Arc::clone(self),
            channel: Arc::clone(channel),
            number,
        }
    }

    /// Whether a message on this channel reaches this client, as far as is known.
    pub(crate) fn listens_to(&self, channel: &str) -> bool {
        let state = self.state.lock();
        let channel = state.channels.get(channel);
        channel.is_some_and(|channel| channel.status != Status::Wanted)
    }

    /// The channel on which the reader can be woken, while it is connected.
    pub(crate) fn private_channel(&self) -> Option<Arc<str>> {
        self.state.lock().private.clone()
    }

    pub(crate) fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_one();
    }

    /// Serves until stopped.
    pub(crate) fn run(&self, tell: &dyn Fn(Notice)) {
        let mut pause = FIRST_PAUSE;
        let mut failed = false;
        while self.wait_for_work() {
            match self.serve(&mut failed, &mut pause, tell) {
                Ok(()) => {}
                Err(error) => {
                    let first = !std::mem::replace(&mut failed, true);
                    if first && !self.state.lock().stopped {
                        tell(Notice::Disconnected(error));
                    }
                    self.rest(pause);
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// Sleeps until somebody wants to listen; false when it is over.
    fn wait_for_work(&self) -> bool {
        let mut state = self.state.lock();
        while !state.stopped && state.channels.is_empty() {
            self.changed.wait(&mut state);
        }
        !state.stopped
    }

    fn rest(&self, pause: Duration) {
        let until = Instant::now() + pause;
        let mut state = self.state.lock();
        while !state.stopped && !self.changed.wait_until(&mut state, until).timed_out() {}
    }

    /// One connection, from its opening to its end: `Ok` when nobody needs it any more.
    fn serve(&self, failed: &mut bool, pause: &mut Duration, tell: &dyn Fn(Notice)) -> Result<()> {
        let mut connection = self.endpoint.open(SILENCE)?;
        connection.limit(SILENCE).map_err(Trouble::into_error)?;
        let Some(private) = self.begin() else {
            return Ok(());
        };
        let mut reader = Reader::new(self, &mut connection, Arc::clone(&private));
        let result = reader.run(&mut || {
            *pause = FIRST_PAUSE;
            self.state.lock().private = Some(Arc::clone(&private));
            if std::mem::replace(failed, false) {
                self.reconnects.fetch_add(1, Ordering::Relaxed);
                tell(Notice::Reconnected);
            }
            tell(Notice::Connected);
        });
        let mut state = self.state.lock();
        state.private = None;
        // With the connection went what nobody listens to any more.
        state
            .channels
            .retain(|_, channel| !channel.listeners.is_empty());
        for channel in state.channels.values_mut() {
            channel.status = Status::Wanted;
        }
        result
    }

    /// Names the private channel after a channel that is wanted anyway: a rule of an access list
    /// that allows the one then allows the other.
    fn begin(&self) -> Option<Arc<str>> {
        let state = self.state.lock();
        let first = state.channels.keys().next()?;
        Some(format!("{first}:{}:wake", self.client).into())
    }

    fn listeners(&self, channel: &str) -> Vec<Arc<dyn Listener>> {
        let state = self.state.lock();
        let Some(entry) = state.channels.get(channel) else {
            return Vec::new();
        };
        entry
            .listeners
            .iter()
            .map(|(_, one)| Arc::clone(one))
            .collect()
    }

    fn refuse_all(&self, error: &Error, private: &str) {
        // Only the one it was named after: others may be allowed, and are tried next.
        let suffix = format!(":{}:wake", self.client);
        let named = private.strip_suffix(&*suffix).unwrap_or(private);
        let channels: Vec<Arc<str>> = self
            .state
            .lock()
            .channels
            .keys()
            .filter(|one| &***one == named)
            .cloned()
            .collect();
        for channel in channels {
            for listener in self.listeners(&channel) {
                listener.refused(error.clone());
            }
        }
    }
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notifier")
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("channel", &self.channel)
            .finish_non_exhaustive()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // The reader sees the empty channel at its next beat and leaves it: nobody has to wake it
        // for that, and who comes back soon finds it still subscribed.
        let mut state = self.notifier.state.lock();
        let State {
            channels, private, ..
        } = &mut *state;
        if let Some(entry) = channels.get_mut(&self.channel) {
            entry.listeners.retain(|(number, _)| *number != self.number);
            if entry.listeners.is_empty() && private.is_none() && entry.status == Status::Wanted {
                channels.remove(&self.channel);
            }
        }
    }
}
