//! A connection of one's own, opened when needed and opened again when it failed.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    call::Answer,
    connection::{Connection, Fence, Trouble},
    endpoint::Endpoint,
};
use crate::{
    error::{ErrorKind, Result},
    protocol::Request,
};

/// More doubtful copies than these are not remembered: each outlived its own timeout already.
const MOST_FENCES: usize = 16;

#[derive(Debug)]
pub(crate) struct Link {
    endpoint: Arc<Endpoint>,
    connection: Option<Connection>,
    /// Our own connections that failed with a request under way.
    fences: Vec<Fence>,
}

impl Link {
    pub(super) fn new(endpoint: Arc<Endpoint>) -> Self {
        Self {
            endpoint,
            connection: None,
            fences: Vec::new(),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.connection.is_some()
    }

    /// Opens the connection if there is none.
    pub(crate) fn open(&mut self, limit: Duration) -> Result<()> {
        if self.connection.is_none() {
            self.connection = Some(self.endpoint.open(limit)?);
        }
        Ok(())
    }

    /// Sends a request, behind the killing of `fences` and of our own doubtful connections.
    ///
    /// Sent once; once more only where a connection that had been idle turns out to be closed.
    pub(crate) fn call(
        &mut self,
        request: &Request,
        fences: &[Fence],
        timeout: Duration,
    ) -> Result<Answer> {
        if self.connection.is_some() {
            match self.attempt(request, fences, timeout) {
                Err(Trouble::Broken(error)) if error.kind() == ErrorKind::Connection => {}
                other => return other.map_err(Trouble::into_error),
            }
        }
        self.open(timeout)?;
        self.attempt(request, fences, timeout)
            .map_err(Trouble::into_error)
    }

    fn attempt(
        &mut self,
        request: &Request,
        fences: &[Fence],
        timeout: Duration,
    ) -> Result<Answer, Trouble> {
        let Some(connection) = &mut self.connection else {
            unreachable!("opened by the caller");
        };
        let sent = Instant::now();
        let all: Vec<Fence> = self.fences.iter().chain(fences).cloned().collect();
        let result = connection.call(request, &all, timeout);
        if matches!(result, Err(Trouble::Broken(_))) {
            self.fences.extend(connection.fence().cloned());
            let excess = self.fences.len().saturating_sub(MOST_FENCES);
            self.fences.drain(..excess);
        }
        if connection.is_broken() {
            self.connection = None;
        }
        let replied = result?;
        let repeated = !self.fences.is_empty();
        let loose = self.endpoint.loose(replied.unfenced, all);
        self.fences.clear();
        self.fences.extend(loose);
        Ok(Answer {
            reply: replied.reply,
            sent,
            repeated,
            loose: Vec::new(),
        })
    }
}
