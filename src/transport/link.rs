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
use crate::{error::Result, protocol::Request};

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

    /// Sends a request once, behind the killing of `fences` and of our own doubtful connections.
    pub(crate) fn call(
        &mut self,
        request: &Request,
        fences: &[Fence],
        timeout: Duration,
    ) -> Result<Answer> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.endpoint.open()?,
        };
        let sent = Instant::now();
        let repeated = !self.fences.is_empty();
        let all: Vec<Fence> = self.fences.iter().chain(fences).cloned().collect();
        match connection.call(request, &all, timeout) {
            Ok(replied) => {
                if let Some(why) = replied.unfenced {
                    self.endpoint
                        .warn_once(&format!("CLIENT KILL failed ({why})"));
                }
                self.fences.clear();
                self.connection = Some(connection);
                Ok(Answer {
                    reply: replied.reply,
                    sent,
                    repeated,
                })
            }
            Err(Trouble::Refused(error)) => {
                if !connection.is_broken() {
                    self.connection = Some(connection);
                }
                Err(error)
            }
            Err(Trouble::Broken(error)) => {
                self.fences.extend(connection.fence().cloned());
                let excess = self.fences.len().saturating_sub(MOST_FENCES);
                self.fences.drain(..excess);
                Err(error)
            }
        }
    }
}
