//! What a client can be told, with the one table of defaults.

use std::{error, fmt, sync::Arc, time::Duration};

use crate::event::Event;

pub(crate) type NameMapper = Arc<dyn Fn(&str) -> String + Send + Sync>;
pub(crate) type PasswordProvider =
    Arc<dyn Fn() -> Result<String, Box<dyn error::Error + Send + Sync>> + Send + Sync>;
pub(crate) type EventHandler = Arc<dyn Fn(&Event) + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) lock_watchdog_timeout: Duration,
    pub(crate) lock_watchdog_batch_size: usize,
    pub(crate) fair_lock_wait_timeout: Duration,
    pub(crate) response_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) retry_timeout: Duration,
    pub(crate) pool_size: usize,
    pub(crate) red_lock_member_timeout: Duration,
    pub(crate) name_mapper: Option<NameMapper>,
    pub(crate) password_provider: Option<PasswordProvider>,
    pub(crate) tls_roots: Option<Vec<u8>>,
    pub(crate) tls_identity: Option<Identity>,
    pub(crate) on_event: Option<EventHandler>,
}

/// A client certificate with its key, as PEM.
#[cfg_attr(not(feature = "tls"), allow(dead_code))]
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lock_watchdog_timeout: Duration::from_secs(30),
            lock_watchdog_batch_size: 100,
            fair_lock_wait_timeout: Duration::from_secs(300),
            response_timeout: Duration::from_secs(3),
            connect_timeout: Duration::from_secs(2),
            retry_timeout: Duration::from_secs(30),
            pool_size: 64,
            red_lock_member_timeout: Duration::from_millis(50),
            name_mapper: None,
            password_provider: None,
            tls_roots: None,
            tls_identity: None,
            on_event: None,
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // By hand: certificates, keys and what the user's functions captured stay out of it.
        f.debug_struct("Settings")
            .field("lock_watchdog_timeout", &self.lock_watchdog_timeout)
            .field("lock_watchdog_batch_size", &self.lock_watchdog_batch_size)
            .field("fair_lock_wait_timeout", &self.fair_lock_wait_timeout)
            .field("response_timeout", &self.response_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("retry_timeout", &self.retry_timeout)
            .field("pool_size", &self.pool_size)
            .field("red_lock_member_timeout", &self.red_lock_member_timeout)
            .field("name_mapper", &self.name_mapper.is_some())
            .field("password_provider", &self.password_provider.is_some())
            .field("tls_roots", &self.tls_roots.is_some())
            .field("tls_identity", &self.tls_identity.is_some())
            .field("on_event", &self.on_event.is_some())
            .finish()
    }
}
