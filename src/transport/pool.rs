//! The pool of connections: r2d2 with a manager of our own, behind the gate.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, RwLock};

use super::{
    connection::Connection,
    endpoint::Endpoint,
    gate::{Gate, Lane, Permit},
};
use crate::error::{Error, ErrorKind, Result};

/// A connection idle for longer is asked whether it still lives before a request is trusted to it.
///
/// A release whose first attempt met a dead connection could not tell any more whether its hold
/// was still there.
const FRESH: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Pool {
    gate: Gate,
    /// None when closed: as long as there is one, r2d2 keeps its threads.
    connections: RwLock<Option<r2d2::Pool<Manager>>>,
    endpoint: Arc<Endpoint>,
    response_timeout: Duration,
    /// When a connection was last seen to fail: those not used since may have failed with it.
    suspected: Mutex<Option<Instant>>,
    shared: Arc<Shared>,
}

/// A connection on loan; goes back when dropped.
#[derive(Debug)]
pub(super) struct Loan<'a> {
    /// When it was lent; nothing was waited for since.
    since: Instant,
    // In this order: the place is free only when the connection is back.
    slot: r2d2::PooledConnection<Manager>,
    _permit: Permit<'a>,
}

#[derive(Debug)]
struct Manager {
    endpoint: Arc<Endpoint>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Connections of an earlier generation are closed instead of used.
    generation: AtomicU64,
    closed: AtomicBool,
}

impl Shared {
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

/// What r2d2 keeps: it would hide the reason of a failure and go on trying by itself, so failures
/// are handed out like connections.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "the large one is the usual one")]
enum Slot {
    Live(Connection, u64),
    /// Why there is no connection, and when it was begun.
    Failed(Error, Instant),
    /// Lent and kept by the borrower.
    Taken,
}

impl Pool {
    pub(super) fn new(endpoint: Arc<Endpoint>, size: usize, response_timeout: Duration) -> Self {
        let gate = Gate::new(size);
        let shared = Arc::new(Shared::default());
        let manager = Manager {
            endpoint: Arc::clone(&endpoint),
            shared: Arc::clone(&shared),
        };
        // No reaper: with one, r2d2's threads would outlive the pool by half a minute.
        let connections = r2d2::Pool::builder()
            .max_size(u32::try_from(gate.most()).unwrap_or(u32::MAX))
            .min_idle(Some(0))
            .test_on_check_out(false)
            .idle_timeout(None)
            .max_lifetime(None)
            .error_handler(Box::new(r2d2::NopErrorHandler))
            .build_unchecked(manager);
        Self {
            gate,
            connections: RwLock::new(Some(connections)),
            endpoint,
            response_timeout,
            suspected: Mutex::new(None),
            shared,
        }
    }

    /// Lends a connection that is believed to live, or says why there is none.
    pub(super) fn lend(&self, lane: Lane, deadline: Instant) -> Result<Loan<'_>> {
        let late = || {
            if self.shared.is_closed() {
                return Error::closed();
            }
            Error::new(
                ErrorKind::Timeout,
                format!("no connection to {} in time", self.endpoint.server()),
            )
        };
        let permit = self.gate.enter(lane, deadline).ok_or_else(late)?;
        let connections = self.connections.read().clone().ok_or_else(Error::closed)?;
        let came = Instant::now();
        let mut now = came;
        let (slot, since) = loop {
            // First one that lies there: to wait for one looks at the clock more often.
            let mut slot = match connections.try_get() {
                Some(slot) => slot,
                None => {
                    let left = deadline.saturating_duration_since(now);
                    let slot = connections.get_timeout(left).map_err(|_| late())?;
                    now = Instant::now();
                    slot
                }
            };
            match &mut *slot {
                Slot::Failed(error, began) if *began >= came => return Err(error.clone()),
                // Begun for somebody else, it may have met what is over by now: a server that was
                // down, a kill that also took the connections this caller has tried.
                Slot::Failed(..) | Slot::Taken => {}
                Slot::Live(connection, generation)
                    if *generation < self.shared.generation.load(Ordering::Acquire) =>
                {
                    connection.retire();
                }
                Slot::Live(connection, _) if self.trusts(connection, now) => break (slot, now),
                Slot::Live(connection, _) => {
                    let left = deadline.saturating_duration_since(now);
                    match connection.ping(left.min(self.response_timeout)) {
                        Ok(()) => break (slot, Instant::now()),
                        Err(error) => self.distrust(connection, &error),
                    }
                }
            }
            drop(slot);
            now = Instant::now();
        };
        Ok(Loan {
            since,
            slot,
            _permit: permit,
        })
    }

    /// Lends a connection if there is one that need not be waited for, opened or asked.
    pub(super) fn lend_ready(&self, lane: Lane) -> Option<Loan<'_>> {
        let permit = self.gate.try_enter(lane)?;
        let connections = self.connections.read().clone()?;
        let slot = connections.try_get()?;
        let since = Instant::now();
        match &*slot {
            Slot::Live(connection, generation)
                if *generation == self.shared.generation.load(Ordering::Acquire)
                    && self.trusts(connection, since) =>
            {
                Some(Loan {
                    since,
                    slot,
                    _permit: permit,
                })
            }
            _ => None,
        }
    }

    /// Notes that this connection failed, and what that says of the others.
    pub(super) fn distrust(&self, connection: &mut Connection, error: &Error) {
        connection.retire();
        *self.suspected.lock() = Some(Instant::now());
        if error.kind() == ErrorKind::Timeout {
            // The others would each cost a whole timeout to ask.
            self.shared.generation.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Closes connections that nobody used for `idle`.
    pub(super) fn trim(&self, idle: Duration) {
        let Some(connections) = self.connections.read().clone() else {
            return;
        };
        let mut unused = Vec::new();
        // With a place for each: who came meanwhile would wait inside the pool, for connections
        // that are about to be closed.
        while let Some(permit) = self.gate.try_enter(Lane::Release) {
            let Some(slot) = connections.try_get() else {
                break;
            };
            unused.push((slot, permit));
        }
        for (slot, _) in &mut unused {
            if let Slot::Live(connection, _) = &mut **slot
                && connection.last_used().elapsed() >= idle
            {
                connection.retire();
            }
        }
        // The pool lends the last one returned: the most recently used goes back last.
        while let Some((slot, permit)) = unused.pop() {
            drop(slot);
            drop(permit);
        }
    }

    /// Closes every connection, those on loan as soon as they are back.
    pub(super) fn close(&self) {
        self.shared.closed.store(true, Ordering::Release);
        self.gate.close();
        let connections = self.connections.write().take();
        drop(connections);
    }

    pub(super) fn open_connections(&self) -> usize {
        let connections = self.connections.read();
        let open = connections
            .as_ref()
            .map_or(0, |pool| pool.state().connections);
        open as usize
    }

    fn trusts(&self, connection: &Connection, now: Instant) -> bool {
        now.saturating_duration_since(connection.last_used()) < FRESH
            && self
                .suspected
                .lock()
                .is_none_or(|since| connection.last_used() > since)
    }
}

impl Loan<'_> {
    /// When it was lent; nothing was waited for since.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    /// Keeps the connection out of the pool and gives its place to others.
    pub(super) fn take(mut self) -> Connection {
        match std::mem::replace(&mut *self.slot, Slot::Taken) {
            Slot::Live(connection, _) => connection,
            Slot::Failed(..) | Slot::Taken => unreachable!("only connections are lent"),
        }
    }
}

impl std::ops::Deref for Loan<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        match &*self.slot {
            Slot::Live(connection, _) => connection,
            Slot::Failed(..) | Slot::Taken => unreachable!("only connections are lent"),
        }
    }
}

impl std::ops::DerefMut for Loan<'_> {
    fn deref_mut(&mut self) -> &mut Connection {
        match &mut *self.slot {
            Slot::Live(connection, _) => connection,
            Slot::Failed(..) | Slot::Taken => unreachable!("only connections are lent"),
        }
    }
}

impl r2d2::ManageConnection for Manager {
    type Connection = Slot;
    type Error = Infallible;

    fn connect(&self) -> std::result::Result<Slot, Infallible> {
        let generation = self.shared.generation.load(Ordering::Acquire);
        let began = Instant::now();
        Ok(match self.endpoint.open(Duration::MAX) {
            // It took its time: nobody will ever ask for this one.
            Ok(_) if self.shared.is_closed() => Slot::Failed(Error::closed(), began),
            Ok(connection) => Slot::Live(connection, generation),
            Err(error) => Slot::Failed(error, began),
        })
    }

    fn is_valid(&self, _: &mut Slot) -> std::result::Result<(), Infallible> {
        Ok(())
    }

    fn has_broken(&self, slot: &mut Slot) -> bool {
        match slot {
            Slot::Live(connection, _) => connection.is_broken() || self.shared.is_closed(),
            Slot::Failed(..) | Slot::Taken => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
        thread,
    };

    use super::*;
    use crate::{
        protocol::{Call, Request},
        settings::Settings,
    };

    /// A server of which the test plays every move.
    struct Server(TcpListener);

    impl Server {
        fn new() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").expect("the system has a free port");
            // An accept by itself has no bound.
            listener
                .set_nonblocking(true)
                .expect("a socket may not block");
            Self(listener)
        }

        fn pool(&self, size: usize) -> Pool {
            let addr = self.0.local_addr().expect("a bound socket has an address");
            let settings = Arc::new(Settings {
                connect_timeout: PATIENCE,
                ..Settings::default()
            });
            let endpoint = Endpoint::parse(&format!("redis://{addr}/"), "test".into(), settings);
            Pool::new(Arc::new(endpoint.expect("a URL")), size, PATIENCE)
        }

        /// The next who connects; not answered yet.
        fn next(&self) -> TcpStream {
            let deadline = Instant::now() + PATIENCE;
            let socket = loop {
                match self.0.accept() {
                    Ok((socket, _)) => break socket,
                    Err(_) => assert!(Instant::now() < deadline, "nobody connects"),
                }
                thread::sleep(Duration::from_millis(1));
            };
            socket.set_nonblocking(false).expect("a socket may block");
            socket
                .set_read_timeout(Some(PATIENCE))
                .expect("a socket has a timeout");
            socket
        }
    }

    fn greet(mut socket: &TcpStream) {
        let mut heard = Vec::new();
        while !heard.ends_with(b"ROLE\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte).expect("it greets");
            heard.extend(byte);
        }
        socket.write_all(b"+OK\r\n+OK\r\n+OK\r\n").expect("sent");
    }

    fn hangs_up(mut socket: &TcpStream) -> bool {
        socket.read(&mut [0]).expect("in time") == 0
    }

    #[test]
    fn a_connection_that_was_begun_for_another_fails_for_that_one_alone() {
        let server = Server::new();
        let pool = server.pool(4);
        let soon = Instant::now() + Duration::from_millis(20);
        pool.lend(Lane::Acquire, soon).expect_err("nobody answers");
        let abandoned = server.next();
        thread::scope(|scope| {
            let caller = scope.spawn(|| pool.lend(Lane::Acquire, Instant::now() + PATIENCE));
            let own = server.next();
            drop(abandoned);
            // One more is asked for when the failure has been put aside.
            let _another = server.next();
            greet(&own);
            let lent = caller.join().expect("no panic");
            assert!(!lent.expect("its own came well").is_broken());
        });
    }

    #[test]
    fn trimming_closes_what_nobody_used_for_so_long() {
        let server = Server::new();
        let pool = server.pool(4);
        let (mut lent, sockets) = thread::scope(|scope| {
            let lend = || pool.lend(Lane::Acquire, Instant::now() + PATIENCE);
            let callers: Vec<_> = (0..3).map(|_| scope.spawn(lend)).collect();
            let sockets: Vec<_> = (0..3).map(|_| server.next()).collect();
            sockets.iter().for_each(greet);
            let lent: Vec<_> = callers
                .into_iter()
                .map(|caller| caller.join().expect("no panic").expect("connected"))
                .collect();
            (lent, sockets)
        });
        let used = lent.pop();
        drop(lent);
        pool.trim(Duration::from_secs(3600));
        assert_eq!(pool.open_connections(), 3);
        pool.trim(Duration::ZERO);
        assert_eq!(pool.open_connections(), 1, "the one on loan");
        drop(used);
        pool.trim(Duration::ZERO);
        assert_eq!(pool.open_connections(), 0);
        assert!(sockets.iter().all(hangs_up));
    }

    /// Whoever came next would take the answer for its own.
    #[test]
    fn a_connection_with_an_unread_answer_is_not_lent_again() {
        let server = Server::new();
        let pool = server.pool(4);
        assert!(pool.lend_ready(Lane::Acquire).is_none(), "none is open");
        let lent = thread::scope(|scope| {
            let caller = scope.spawn(|| pool.lend(Lane::Acquire, Instant::now() + PATIENCE));
            greet(&server.next());
            caller.join().expect("no panic").expect("connected")
        });
        drop(lent);
        let mut ready = pool.lend_ready(Lane::Acquire).expect("used just now");
        let ping = Request {
            call: Call::Command("PING"),
            keys: vec![],
            arguments: vec![],
        };
        ready.write(&ping, &[], PATIENCE).expect("sent");
        drop(ready);
        assert_eq!(pool.open_connections(), 0);
        assert!(pool.lend_ready(Lane::Acquire).is_none());
    }

    const PATIENCE: Duration = Duration::from_secs(10);
}
