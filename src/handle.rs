//! What every lock of one key is made of.

use std::sync::Arc;

use crate::{
    engine::{Core, Grip, Terms},
    error::{Error, Result},
    inspect::{Inspection, Ttl},
    protocol::Subject,
};

/// A lock of one key, whatever its kind.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    core: Arc<Core>,
    subject: Arc<Subject>,
}

impl Handle {
    pub(crate) fn new(core: Arc<Core>, subject: Arc<Subject>) -> Self {
        Self { core, subject }
    }

    pub(crate) fn name(&self) -> &str {
        &self.subject.name
    }

    pub(crate) fn acquire(&self, terms: &Terms) -> Result<Option<Grip>> {
        self.check()?;
        self.core.acquire(&self.subject, terms)
    }

    pub(crate) fn is_locked(&self) -> Result<bool> {
        self.check()?;
        self.core.is_locked(&self.subject)
    }

    pub(crate) fn is_held_by_current_thread(&self) -> Result<bool> {
        self.check()?;
        self.core.is_held_by_current_thread(&self.subject)
    }

    pub(crate) fn hold_count(&self) -> Result<u64> {
        self.check()?;
        self.core.hold_count(&self.subject)
    }

    pub(crate) fn remaining_ttl(&self) -> Result<Ttl> {
        self.check()?;
        Ok(Ttl::from_millis(self.core.ttl(&self.subject)?))
    }

    pub(crate) fn force_unlock(&self) -> Result<bool> {
        self.check()?;
        self.core.force_unlock(&self.subject)
    }

    pub(crate) fn inspect(&self) -> Result<Inspection> {
        self.check()?;
        let waiters = self.core.waiting_for(&self.subject.key);
        Ok(Inspection::new(self.core.inspect(&self.subject)?, waiters))
    }

    /// A handle is made without asking, so its name is looked at when it is used.
    fn check(&self) -> Result<()> {
        const LONGEST_NAME: usize = 1 << 20;
        let problem = match self.subject.key.len() {
            0 => "the name of a lock must not be empty",
            length if length > LONGEST_NAME => {
                "the name of a lock must not be longer than a mebibyte"
            }
            _ => return Ok(()),
        };
        Err(Error::config(problem).about(&self.subject.key))
    }
}
