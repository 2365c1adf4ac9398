//! A token by which another thread ends a wait.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;

use crate::engine::Bell;

/// Ends waiting calls from another thread; given to a call by
/// [`Options::cancel`](crate::Options::cancel).
///
/// Clones are one token. Once cancelled it stays so: every call that has it, now or later, answers
/// [`Cancelled`](crate::ErrorKind::Cancelled) instead of waiting, and leaves nothing behind.
///
/// A thread that waits for the lock answers at once. One that waits for Redis at that moment, which
/// is slow or does not answer, waits for that one answer: for the
/// [`response_timeout`](crate::ClientBuilder::response_timeout) at most, twice that if it still has to wait
/// for a connection. It asks nothing more after that, but to leave the queue of a fair lock, for which
/// it waits 200 ms at most.
///
/// # Examples
///
/// ```no_run
/// use lockson::CancelToken;
///
/// # let client = lockson::Client::connect("redis://127.0.0.1/")?;
/// let token = CancelToken::new();
/// let stop = token.clone();
/// std::thread::spawn(move || stop.cancel());
/// match client.reentrant_lock("orders:42").options().cancel(&token).acquire() {
///     Ok(Some(_guard)) => println!("it was free in time"),
///     Ok(None) => println!("only with a limited wait: others had it all the time"),
///     Err(error) => println!("cancelled, or Redis failed: {error}"),
/// }
/// # Ok::<(), lockson::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct CancelToken {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    cancelled: bool,
    next: u64,
    bells: Vec<(u64, Bell)>,
}

impl CancelToken {
    /// A token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the waiting calls that have this token.
    pub fn cancel(&self) {
        let bells = {
            let mut state = self.state.lock();
            state.cancelled = true;
            std::mem::take(&mut state.bells)
        };
        for (_, bell) in bells {
            bell.ring();
        }
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.state.lock().cancelled
    }

    /// Rings the bell when the token is cancelled, at once if it is.
    pub(crate) fn attach(&self, bell: Bell) -> Attached<'_> {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        if state.cancelled {
            drop(state);
            bell.ring();
        } else {
            state.bells.push((number, bell));
        }
        Attached {
            token: self,
            number,
        }
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken")
            .field("cancelled", &self.is_cancelled())
            .finish()
    }
}

/// A bell on a token, until dropped.
pub(crate) struct Attached<'a> {
    token: &'a CancelToken,
    number: u64,
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        let mut state = self.token.state.lock();
        state.bells.retain(|(number, _)| *number != self.number);
    }
}
