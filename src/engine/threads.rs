//! The threads of a client: named, and joined when the client ends.

use std::{
    sync::Arc,
    thread::{self, JoinHandle},
    time::Instant,
};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use parking_lot::Mutex;

use super::Shared;
use crate::error::{Error, ErrorKind, Result};

#[derive(Default)]
pub(crate) struct Threads {
    running: Mutex<Vec<Running>>,
}

struct Running {
    role: &'static str,
    thread: JoinHandle<()>,
    /// Disconnected when the thread has ended: a join has no timeout.
    ended: Receiver<()>,
}

impl Threads {
    /// Starts a thread; the first digits of the client's id in its name tell whose it is.
    pub(crate) fn spawn(
        &self,
        role: &'static str,
        shared: &Arc<Shared>,
        body: impl FnOnce(&Shared) + Send + 'static,
    ) -> Result<()> {
        // Linux cuts names after 15 bytes.
        let name = format!("lockson-{role}-{:.5}", shared.id());
        let (alive, ended) = bounded(0);
        let shared = Arc::clone(shared);
        let thread = thread::Builder::new()
            .name(name)
            .spawn(move || {
                let _alive = alive;
                body(&shared);
            })
            .map_err(|cause| {
                Error::caused_by(
                    ErrorKind::Connection,
                    "a thread could not be started",
                    cause,
                )
            })?;
        self.running.lock().push(Running {
            role,
            thread,
            ended,
        });
        Ok(())
    }

    /// Waits for the threads of some roles to end, at most until then, and never for the one that calls.
    pub(crate) fn join(&self, deadline: Instant, wanted: impl Fn(&str) -> bool) {
        let ending: Vec<Running> = {
            let mut running = self.running.lock();
            let (ending, rest) = running.drain(..).partition(|one| wanted(one.role));
            *running = rest;
            ending
        };
        for Running { thread, ended, .. } in ending {
            if thread.thread().id() == thread::current().id() {
                continue;
            }
            // An event handler may block for as long as it likes; it keeps its thread then.
            if ended.recv_deadline(deadline) == Err(RecvTimeoutError::Disconnected) {
                let _ = thread.join();
            }
        }
    }

    /// After a fork: these threads are not here.
    pub(crate) fn forget(&self) {
        if let Some(mut running) = self.running.try_lock() {
            std::mem::forget(std::mem::take(&mut *running));
        }
    }
}
