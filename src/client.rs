//! The client: one holder's identity, its connections and its threads.

use std::{fmt, sync::Arc};

use crate::{
    builder::ClientBuilder,
    engine::Core,
    error::Result,
    fair::FairLock,
    handle::Handle,
    protocol::{Fair, Kind, Read, Reentrant, Subject, Write},
    read_write::ReadWriteLock,
    reentrant::ReentrantLock,
    settings::Settings,
    transport::Endpoint,
};

/// A connection to one Redis server, and one identity among its lock holders.
///
/// Cheap to clone: clones share everything. Two clients are two holders, also in one process.
///
/// # Lifetime
///
/// The client, the handles made from it and their guards keep its threads alive; the last one gone
/// stops and joins them. [`shutdown`](Self::shutdown) ends it at once. In a process made by `fork`
/// the client is closed: every call answers [`Closed`](crate::ErrorKind::Closed), and the holds
/// stay with the parent. Such a process can make no client of its own either before it has called
/// `exec`: the locks that threads of the parent waited for do not survive a fork.
///
/// A guard that is never dropped (`mem::forget`, `process::exit`, `panic = "abort"`, a guard in a
/// thread-local of a thread that never ends) is not released: it lives as long as the process
/// renews it, and ends in Redis with its time after that.
///
/// # Examples
///
/// ```no_run
/// use lockson::Client;
///
/// let client = Client::connect("redis://127.0.0.1/")?;
/// let lock = client.reentrant_lock("orders:42");
/// if let Some(_guard) = lock.try_lock()? {
///     println!("{} works on order 42", client.id());
/// }
/// # Ok::<(), lockson::Error>(())
/// ```
#[derive(Clone)]
pub struct Client {
    core: Arc<Core>,
}

/// A glance at a client's inside, from [`Client::state`]. No I/O.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientState {
    /// Connections open for acquiring, asking and releasing.
    pub connections: usize,
    /// Holds that this client believes to have.
    pub holds: usize,
    /// Those of them that the watchdog renews.
    pub renewals: usize,
    /// Threads that wait for a lock.
    pub waiters: usize,
    /// Requests given up without an answer, of which the watchdog still has to undo what they may
    /// have done. More than a few for longer than a moment: Redis cannot be reached.
    pub in_doubt: usize,
    /// How often the connection that tells waiting threads of releases was opened again.
    pub reconnects: u64,
    /// Events that were dropped because the handler did not keep up.
    pub dropped_events: u64,
}

impl Client {
    /// Connects with the default settings and checks the server.
    ///
    /// The URL is `redis://[user:password@]host[:port][/db][?protocol=resp3]`, `rediss://…` for
    /// TLS (feature `tls`), or `unix:///path[?db=…&user=…&pass=…]`.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::ErrorKind::Config) for a URL that cannot be used and for a server that is a
    /// replica, [`NoPermission`](crate::ErrorKind::NoPermission) for a wrong password,
    /// [`Connection`](crate::ErrorKind::Connection) or [`Timeout`](crate::ErrorKind::Timeout) for a server that
    /// cannot be reached.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// let client = lockson::Client::connect("redis://127.0.0.1/")?;
    /// # Ok::<(), lockson::Error>(())
    /// ```
    pub fn connect(url: &str) -> Result<Self> {
        Self::builder().connect(url)
    }

    /// A builder, to change the settings first.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// The reentrant lock of this name. No I/O.
    ///
    /// Not named `lock`: `let _guard = client.lock("x");` would compile and hold nothing.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # let client = lockson::Client::connect("redis://127.0.0.1/")?;
    /// let lock = client.reentrant_lock("orders:42");
    /// assert!(!lock.is_locked()?);
    /// # Ok::<(), lockson::Error>(())
    /// ```
    pub fn reentrant_lock(&self, name: impl AsRef<str>) -> ReentrantLock {
        ReentrantLock::new(self.handle(&Reentrant, name.as_ref()))
    }

    /// The fair lock of this name: who asks first gets it first. No I/O.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # let client = lockson::Client::connect("redis://127.0.0.1/")?;
    /// let guard = client.fair_lock("tickets").lock()?;
    /// # Ok::<(), lockson::Error>(())
    /// ```
    pub fn fair_lock(&self, name: impl AsRef<str>) -> FairLock {
        FairLock::new(self.handle(&Fair, name.as_ref()))
    }

    /// The read-write lock of this name: many may read, or one may write. No I/O.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # let client = lockson::Client::connect("redis://127.0.0.1/")?;
    /// let prices = client.read_write_lock("prices");
    /// let reading = prices.read()?;
    /// assert!(prices.try_write()?.is_none());
    /// # Ok::<(), lockson::Error>(())
    /// ```
    pub fn read_write_lock(&self, name: impl AsRef<str>) -> ReadWriteLock {
        let name = name.as_ref();
        ReadWriteLock::new(self.handle(&Read, name), self.handle(&Write, name))
    }

    /// The id of this client: the part before the colon in the names of its holders.
    pub fn id(&self) -> &str {
        self.core.id()
    }

    /// Counts of what this client has open just now. No I/O.
    pub fn state(&self) -> ClientState {
        if !self.core.is_at_home() {
            return ClientState {
                connections: 0,
                holds: 0,
                renewals: 0,
                waiters: 0,
                in_doubt: 0,
                reconnects: 0,
                dropped_events: 0,
            };
        }
        ClientState {
            connections: self.core.transport().open_connections(),
            holds: self.core.held(),
            renewals: self.core.renewed(),
            waiters: self.core.waiting(),
            in_doubt: self.core.in_doubt(),
            reconnects: self.core.transport().notifier().reconnects(),
            dropped_events: self.core.dropped_events(),
        }
    }

    /// Ends this client for all its clones, handles and guards, within one
    /// [response timeout](ClientBuilder::response_timeout).
    ///
    /// Guards are lost at once. Nothing is released in Redis: what this client holds ends there
    /// with its time. Calling it again does nothing; it may be called by an event handler.
    pub fn shutdown(&self) {
        self.core.shut_down();
    }

    pub(crate) fn start(url: &str, settings: Settings, check: bool) -> Result<Self> {
        let id: Arc<str> = uuid::Uuid::new_v4().hyphenated().to_string().into();
        let settings = Arc::new(settings);
        let endpoint = Endpoint::parse(url, format!("lockson-{id}"), Arc::clone(&settings))?;
        let core = Core::start(id, endpoint, settings)?;
        if check {
            core.transport().probe()?;
        }
        Ok(Self { core })
    }

    fn handle(&self, kind: &'static dyn Kind, name: &str) -> Handle {
        let key = match &self.core.settings().name_mapper {
            Some(mapper) => mapper(name).into(),
            None => name.into(),
        };
        let subject = Subject::new(kind, name.into(), key);
        Handle::new(Arc::clone(&self.core), Arc::new(subject))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}
