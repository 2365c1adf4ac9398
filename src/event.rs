//! What a client tells of by itself: events, and the ways in which a hold ends.

use std::{fmt, sync::Arc};

use crate::error::Error;

/// Something that happened while nobody was asking.
///
/// Handlers are set by [`ClientBuilder::on_event`](crate::ClientBuilder::on_event).
///
/// # Examples
///
/// ```no_run
/// use lockson::{Client, Event};
///
/// let client = Client::builder()
///     .on_event(|event| match event {
///         Event::Lost { name, reason, .. } => eprintln!("{name} was lost: {reason:?}"),
///         other => eprintln!("{other:?}"),
///     })
///     .connect("redis://127.0.0.1/")?;
/// # Ok::<(), lockson::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A hold was lost: its guards are not held any more.
    #[non_exhaustive]
    Lost {
        /// The name of the lock, as the user gave it.
        name: Arc<str>,
        /// The holder, as it stood in Redis.
        holder: Arc<str>,
        /// How it was lost.
        reason: LostReason,
    },
    /// Holds could not be renewed; it is tried again until their time is over.
    #[non_exhaustive]
    RenewalFailed {
        /// The names of the locks, as the user gave them.
        names: Vec<Arc<str>>,
        /// What went wrong.
        error: Error,
    },
    /// The connection that tells waiting threads of releases failed; they ask by themselves every
    /// few seconds until it is back.
    #[non_exhaustive]
    NotifierDisconnected {
        /// What went wrong.
        error: Error,
    },
    /// The connection that tells waiting threads of releases is back.
    NotifierReconnected,
    /// A guard was dropped and its hold could not be released; it ends with its time. Not raised for
    /// a hold that was found to be lost.
    #[non_exhaustive]
    ReleaseFailed {
        /// The name of the lock, as the user gave it.
        name: Arc<str>,
        /// What went wrong.
        error: Error,
    },
}

/// How a hold was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// The client was shut down.
    Closed,
    /// Its time was over by the clock of this process.
    Expired,
    /// Redis does not have it any more: deleted, unlocked by force, or lost with the server.
    Gone,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "the client was shut down",
            Self::Expired => "its time was over",
            Self::Gone => "Redis does not have it any more",
        })
    }
}

/// How a wait for the end of a hold ended; see [`LostSignal::wait`](crate::LostSignal::wait).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ended {
    /// The hold was lost.
    Lost(LostReason),
    /// The guard was released.
    Released,
    /// Neither, in the time allowed.
    TimedOut,
}
