//! The settings of a client, one method each.

use std::{error, fmt, sync::Arc, time::Duration};

use crate::{
    client::Client,
    engine::LONGEST_LEASE,
    error::{Error, Result},
    event::Event,
    settings::{Identity, Settings},
};

/// Builds a [`Client`] with other than the default settings.
///
/// Settings that Redisson has too keep its names in Rust's spelling.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
///
/// let client = lockson::Client::builder()
///     .lock_watchdog_timeout(Duration::from_secs(10))
///     .pool_size(16)
///     .connect("redis://127.0.0.1/")?;
/// # Ok::<(), lockson::Error>(())
/// ```
#[derive(Clone, Default)]
#[must_use = "a builder does nothing until it connects"]
pub struct ClientBuilder {
    settings: Settings,
}

impl ClientBuilder {
    /// Sets how long a hold without a lease lives unless renewed (Redisson's
    /// `lockWatchdogTimeout`).
    ///
    /// The watchdog renews at a third of it. Defaults to 30 seconds. Less than a millisecond or
    /// more than ten years is refused when the client is built.
    pub fn lock_watchdog_timeout(mut self, timeout: Duration) -> Self {
        self.settings.lock_watchdog_timeout = timeout;
        self
    }

    /// Sets how many holds are renewed by one script (Redisson's `lockWatchdogBatchSize`).
    ///
    /// Defaults to 100. Zero or more than 10,000 is refused when the client is built.
    pub fn lock_watchdog_batch_size(mut self, size: usize) -> Self {
        self.settings.lock_watchdog_batch_size = size;
        self
    }

    /// Sets how long a waiter of a fair lock may be silent before others pass it (Redisson's
    /// `fairLockWaitTimeout`).
    ///
    /// A waiter that died keeps those behind it out for so long after its turn came, and for five
    /// minutes more for each waiter that was before it when it last showed itself. Where Java
    /// services on the same lock have set more than 5 minutes, set as much here: each of them that
    /// enters takes its own timeout from the times of all who wait.
    ///
    /// Defaults to 5 minutes. Zero is refused when the client is built.
    pub fn fair_lock_wait_timeout(mut self, timeout: Duration) -> Self {
        self.settings.fair_lock_wait_timeout = timeout;
        self
    }

    /// Sets how long to wait for one reply of the server (Redisson's `timeout`).
    ///
    /// A call that does not wait for a lock tries twice, so that it may take twice as long.
    /// Defaults to 3 seconds. Zero is refused when the client is built.
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.settings.response_timeout = timeout;
        self
    }

    /// Sets how long it may take to open a connection, TLS and authentication included.
    ///
    /// Looking up the name of the server is not included: that is up to the system's resolver.
    ///
    /// Defaults to 2 seconds. Zero is refused when the client is built.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// Sets for how long an unbounded wait goes on while the server fails without a break.
    ///
    /// Each reply begins it anew. Waits with a bound have their own. Defaults to 30 seconds.
    pub fn retry_timeout(mut self, timeout: Duration) -> Self {
        self.settings.retry_timeout = timeout;
        self
    }

    /// Sets how many connections there may be for acquiring and asking.
    ///
    /// They are opened when needed, and closed after a minute without use. Two more are kept for
    /// releases, one for the watchdog and one, while threads wait, for messages. Defaults to 64. Zero or more than 10,000 is refused when the client is
    /// built.
    pub fn pool_size(mut self, size: usize) -> Self {
        self.settings.pool_size = size;
        self
    }

    /// Sets how long one server of a RedLock may take to answer.
    ///
    /// A [`RedLock`](crate::RedLock) waits no longer for one of its members, whether it takes it, asks
    /// about it or releases it. Defaults to 50 milliseconds. Zero is refused when the client is built.
    pub fn red_lock_member_timeout(mut self, timeout: Duration) -> Self {
        self.settings.red_lock_member_timeout = timeout;
        self
    }

    /// Sets a function from the names that the program uses to the names in Redis (Redisson's
    /// `nameMapper`).
    ///
    /// It must not own a clone of the client, which would then never end.
    /// `name()` of locks and guards gives the program's name, [`Error::name`] the one in Redis.
    /// Defaults to none: the names are equal.
    pub fn name_mapper(mut self, mapper: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.settings.name_mapper = Some(Arc::new(mapper));
        self
    }

    /// Sets a function that is asked for the password each time a connection is opened.
    ///
    /// It goes before a password in the URL. When it fails or panics, opening the connection fails
    /// with [`NoPermission`](crate::ErrorKind::NoPermission). It should answer soon: the watchdog
    /// asks it too, and renews nothing meanwhile. It must not own a clone of the client, which
    /// would then never end. Defaults to none.
    pub fn password_provider(
        mut self,
        provider: impl Fn() -> Result<String, Box<dyn error::Error + Send + Sync>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.settings.password_provider = Some(Arc::new(provider));
        self
    }

    /// Sets the root certificates (PEM) that the server's certificate must come from.
    ///
    /// Needs the feature `tls` and a URL that begins with `rediss://`; else it is refused when
    /// the client is built. Defaults to the system's.
    pub fn tls_root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.settings.tls_roots = Some(pem.into());
        self
    }

    /// Sets the certificate (PEM) and its key (PEM) by which this client shows who it is.
    ///
    /// Needs the feature `tls` and a URL that begins with `rediss://`; else it is refused when
    /// the client is built. Defaults to none.
    pub fn tls_client_certificate(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.settings.tls_identity = Some(Identity {
            certificate: certificate.into(),
            key: key.into(),
        });
        self
    }

    /// Sets a function that is told of [`Event`]s.
    ///
    /// It runs on a thread of its own, one event after the other: it may block or panic without
    /// harm to any hold. When more than a thousand events wait for it, further ones are dropped
    /// and counted in [`ClientState::dropped_events`](crate::ClientState::dropped_events).
    /// Defaults to none.
    ///
    /// A handler that owns a clone of the client keeps the client alive for ever, unless
    /// [`Client::shutdown`] is called.
    pub fn on_event(mut self, handler: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.settings.on_event = Some(Arc::new(handler));
        self
    }

    /// Connects and checks the server: see [`Client::connect`] for URLs and errors.
    ///
    /// # Errors
    ///
    /// Those of [`Client::connect`], and [`Config`](crate::ErrorKind::Config) for a setting that
    /// is refused.
    pub fn connect(self, url: &str) -> Result<Client> {
        self.checked()
            .and_then(|settings| Client::start(url, settings, true))
    }

    /// Makes the client without any I/O: connections are opened by the first call that needs one.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::ErrorKind::Config) for a URL or a setting that is refused.
    pub fn connect_lazy(self, url: &str) -> Result<Client> {
        self.checked()
            .and_then(|settings| Client::start(url, settings, false))
    }

    fn checked(self) -> Result<Settings> {
        /// More keys than these make a script too long for the others to wait for, and more
        /// connections no server has by default.
        const MOST: usize = 10_000;
        let settings = self.settings;
        let least = Duration::from_millis(1);
        for (name, value, least) in [
            (
                "lock_watchdog_timeout",
                settings.lock_watchdog_timeout,
                least,
            ),
            (
                "fair_lock_wait_timeout",
                settings.fair_lock_wait_timeout,
                least,
            ),
            ("response_timeout", settings.response_timeout, least),
            ("connect_timeout", settings.connect_timeout, least),
            ("retry_timeout", settings.retry_timeout, Duration::ZERO),
            (
                "red_lock_member_timeout",
                settings.red_lock_member_timeout,
                least,
            ),
        ] {
            if value < least {
                return Err(Error::config(format!("{name} must be at least {least:?}")));
            }
            if value > LONGEST_LEASE {
                return Err(Error::config(format!(
                    "{name} must not be longer than ten years"
                )));
            }
        }
        for (name, value) in [
            (
                "lock_watchdog_batch_size",
                settings.lock_watchdog_batch_size,
            ),
            ("pool_size", settings.pool_size),
        ] {
            if value == 0 {
                return Err(Error::config(format!("{name} must be at least 1")));
            }
            if value > MOST {
                return Err(Error::config(format!(
                    "{name} must not be more than {MOST}"
                )));
            }
        }
        Ok(settings)
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClientBuilder")
            .field(&self.settings)
            .finish()
    }
}
