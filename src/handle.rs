//! What every lock of one key is made of.

use std::sync::Arc;

use crate::{
    engine::{Core, Grip, Member, Terms},
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

    /// It as one of several locks.
    pub(crate) fn member(&self) -> Result<Member> {
        self.check()?;
        Ok(Member {
            core: Arc::clone(&self.core),
            subject: Arc::clone(&self.subject),
        })
    }

    /// Which server it is on: host and port, or socket.
    pub(crate) fn server(&self) -> &str {
        self.core.transport().server()
    }

    /// Whether both are one lock of one client.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.core, &other.core) && self.subject.key == other.subject.key
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
        self.core.is_held_by_current_thread(&self.subject, None)
    }

    /// As one of several, which is not waited for longer than such a one.
    pub(crate) fn is_held_as_member(&self) -> Result<bool> {
        self.check()?;
        let limit = self.core.settings().red_lock_member_timeout;
        self.core
            .is_held_by_current_thread(&self.subject, Some(limit))
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

/// The questions about one key, and the force, as methods of a lock.
macro_rules! key_methods {
    ($lock:ident) => {
        impl $lock {
            /// The name of the lock, as the program gave it. No I/O.
            pub fn name(&self) -> &str {
                self.handle.name()
            }

            /// Whether anybody holds the lock; asks Redis.
            ///
            /// # Errors
            ///
            /// When Redis cannot be asked, or refuses. A key of another type counts as locked.
            pub fn is_locked(&self) -> $crate::Result<bool> {
                self.handle.is_locked()
            }

            /// How often the current thread holds the lock; asks Redis.
            ///
            /// # Errors
            ///
            /// When Redis cannot be asked, or refuses.
            pub fn hold_count(&self) -> $crate::Result<u64> {
                self.handle.hold_count()
            }

            /// How long the lock lives on in Redis unless somebody renews or releases it; asks Redis.
            ///
            /// # Errors
            ///
            /// When Redis cannot be asked, or refuses.
            pub fn remaining_ttl(&self) -> $crate::Result<$crate::Ttl> {
                self.handle.remaining_ttl()
            }

            /// Frees the lock whoever holds it, and wakes a waiter; false if it was free.
            ///
            /// Guards of this client are lost at once, others find out by themselves. For people who
            /// mend things: the holder may be at work. It is sent once: when its reply is lost, the error
            /// leaves open whether it happened.
            ///
            /// # Errors
            ///
            /// When Redis cannot be asked, or refuses;
            /// [`NoPermission`](crate::ErrorKind::NoPermission) with
            /// [`released()`](crate::Error::released) when the lock was freed but the message for the
            /// waiters was refused.
            pub fn force_unlock(&self) -> $crate::Result<bool> {
                self.handle.force_unlock()
            }

            /// Who holds the lock, how often, and for how long; asks Redis. Also for locks that Java
            /// holds.
            ///
            /// # Errors
            ///
            /// When Redis cannot be asked, or refuses; [`WrongType`](crate::ErrorKind::WrongType) when
            /// the key is no lock.
            pub fn inspect(&self) -> $crate::Result<$crate::Inspection> {
                self.handle.inspect()
            }
        }
    };
}

pub(crate) use key_methods;
