//! A TCP proxy between client and server that does on order what networks do by chance.
//!
//! Each fault is counted where it happens, so that a test can show that it did. A fault that is
//! ordered for `n` requests meets the next `n` that match; of several that match, the oldest.

use std::{
    io,
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, atomic::Ordering},
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{
    faults::{Action, Faults},
    link::Link,
    locked, resp,
};

/// As the number of requests to meet: all that come.
pub const ALWAYS: usize = usize::MAX;

/// The proxy; its threads and sockets are gone when it is dropped.
///
/// A connection that begins with a TLS handshake is passed on unread: what looks at requests does
/// not apply to it, all else does.
pub struct Proxy {
    port: u16,
    faults: Arc<Faults>,
    connections: Arc<Mutex<Vec<Connection>>>,
    acceptor: Option<JoinHandle<()>>,
}

impl Proxy {
    /// A proxy to `host:port`; the server need not be there yet.
    pub fn to(target: impl Into<String>) -> Self {
        let target = target.into();
        let listener = TcpListener::bind("127.0.0.1:0").expect("the system has a free port");
        let port = listener
            .local_addr()
            .expect("a bound socket has an address")
            .port();
        let faults = Arc::new(Faults::default());
        let connections = Arc::new(Mutex::default());
        let acceptor = {
            let faults = Arc::clone(&faults);
            let connections = Arc::clone(&connections);
            start_thread(move || accept(&listener, &target, &faults, &connections))
        };
        Self {
            port,
            faults,
            connections,
            acceptor: Some(acceptor),
        }
    }

    pub fn url(&self) -> String {
        format!("redis://{}/", self.addr())
    }

    pub fn addr(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server runs the request and its reply is lost; later replies of the connection arrive.
    pub fn swallow_replies(&self, matcher: impl Matcher, n: usize) {
        self.faults.order(matcher, n, Action::Swallow);
    }

    /// As [`swallow_replies`](Self::swallow_replies), and the connection stays silent from there on.
    pub fn swallow_replies_from(&self, matcher: impl Matcher, n: usize) {
        self.faults.order(matcher, n, Action::Mute);
    }

    /// The request never reaches the server; the connection stays open.
    pub fn drop_requests(&self, matcher: impl Matcher, n: usize) {
        self.faults.order(matcher, n, Action::Drop);
    }

    /// The connection closes and the request never reaches the server.
    pub fn cut_before(&self, matcher: impl Matcher, n: usize) {
        self.faults.order(matcher, n, Action::CutBefore);
    }

    /// The server runs the request; the connection closes instead of its reply.
    pub fn cut_after(&self, matcher: impl Matcher, n: usize) {
        self.cut_reply_at(matcher, 0, n);
    }

    /// The server runs the request; of its reply so many bytes arrive, then the connection closes.
    pub fn cut_reply_at(&self, matcher: impl Matcher, bytes: usize, n: usize) {
        self.faults.order(matcher, n, Action::CutReply(bytes));
    }

    /// The request, and what follows it on its connection, waits for
    /// [`release_held`](Self::release_held), even if the client hangs up meanwhile.
    pub fn hold(&self, matcher: impl Matcher, n: usize) {
        self.faults.order(matcher, n, Action::Hold);
    }

    /// Sends on what is held and returns how many requests that were, when they are sent.
    pub fn release_held(&self) -> usize {
        self.faults.release()
    }

    /// Forgets the orders that are still open; what is held stays held.
    pub fn clear(&self) {
        self.faults.forget_orders();
    }

    /// From now on each message of a server is late by so much, one after the other.
    pub fn delay(&self, delay: Duration) {
        self.faults.set_delay(delay);
    }

    /// While on, nothing arrives either way and nothing closes. A connection made meanwhile never
    /// gets through, not even afterwards; an older one goes on without what was lost.
    pub fn black_hole(&self, on: bool) {
        self.faults.black_hole.store(on, Ordering::SeqCst);
    }

    /// While on, new connections are closed at once.
    pub fn refuse(&self, on: bool) {
        self.faults.refuse.store(on, Ordering::SeqCst);
    }

    /// Closes all connections of the moment.
    pub fn cut_all(&self) {
        for connection in locked(&self.connections).iter() {
            connection.link.cut();
        }
    }

    /// Replies swallowed by order.
    pub fn swallowed(&self) -> usize {
        self.faults.swallowed.load(Ordering::SeqCst)
    }

    /// Requests dropped by order.
    pub fn dropped(&self) -> usize {
        self.faults.dropped.load(Ordering::SeqCst)
    }

    /// Connections cut at a request or its reply.
    pub fn cuts(&self) -> usize {
        self.faults.cuts.load(Ordering::SeqCst)
    }

    /// Requests that were held, those released since included.
    pub fn held(&self) -> usize {
        self.faults.held()
    }

    /// Messages that were delivered late.
    pub fn delayed(&self) -> usize {
        self.faults.delayed.load(Ordering::SeqCst)
    }

    /// Messages, either way, that fell into the black hole.
    pub fn lost(&self) -> usize {
        self.faults.lost.load(Ordering::SeqCst)
    }

    /// Connections closed at once.
    pub fn refused(&self) -> usize {
        self.faults.refused.load(Ordering::SeqCst)
    }

    /// Connections accepted so far, those refused not counted.
    pub fn accepted(&self) -> usize {
        self.faults.accepted.load(Ordering::SeqCst)
    }

    /// Connections that neither side has closed. That a client has hung up behind a held request is
    /// not seen before its release.
    pub fn open(&self) -> usize {
        let connections = locked(&self.connections);
        connections.iter().filter(|one| one.link.is_open()).count()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.faults.stop();
        // The acceptor looks at the flag when it has accepted; should nobody be able to connect, it
        // is better left alone than waited for.
        if TcpStream::connect(self.addr()).is_ok()
            && let Some(acceptor) = self.acceptor.take()
        {
            let _ = acceptor.join();
        }
        for connection in locked(&self.connections).drain(..) {
            connection.link.cut();
            for thread in connection.threads {
                let _ = thread.join();
            }
        }
    }
}

/// Picks requests by their bytes on the wire.
pub trait Matcher: Fn(&[u8]) -> bool + Send + 'static {}

impl<F: Fn(&[u8]) -> bool + Send + 'static> Matcher for F {}

/// Requests that contain the text anywhere, in any case. The text of a script counts too: in an
/// EVAL, `publish` may be one of its lines.
pub fn containing(text: impl AsRef<[u8]>) -> impl Matcher {
    let text = text.as_ref().to_vec();
    move |request: &[u8]| {
        request
            .windows(text.len())
            .any(|window| window.eq_ignore_ascii_case(&text))
    }
}

/// Requests whose first word this is, in any case.
pub fn command(name: &str) -> impl Matcher {
    let name = name.to_owned();
    move |request: &[u8]| {
        resp::words(request)
            .first()
            .is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()))
    }
}

/// EVAL and EVALSHA that have this among their keys and arguments, whole; the script is not read.
pub fn script(word: impl AsRef<[u8]>) -> impl Matcher {
    let word = word.as_ref().to_vec();
    move |request: &[u8]| {
        let words = resp::words(request);
        let name = words.first().map(|name| name.to_ascii_lowercase());
        matches!(name.as_deref(), Some(b"eval" | b"evalsha"))
            && words.iter().skip(3).any(|&each| each == word)
    }
}

struct Connection {
    link: Arc<Link>,
    threads: Vec<JoinHandle<()>>,
}

fn accept(
    listener: &TcpListener,
    target: &str,
    faults: &Arc<Faults>,
    connections: &Mutex<Vec<Connection>>,
) {
    for client in listener.incoming() {
        if faults.is_stopping() {
            return;
        }
        let Ok(client) = client else { continue };
        if faults.refuse.load(Ordering::SeqCst) {
            faults.refused.fetch_add(1, Ordering::SeqCst);
            continue;
        }
        faults.accepted.fetch_add(1, Ordering::SeqCst);
        let Ok(link) = connect(client, target, faults) else {
            continue;
        };
        let link = Arc::new(link);
        let requests = Arc::clone(&link);
        let replies = Arc::clone(&link);
        let threads = vec![
            start_thread(move || requests.carry_requests()),
            start_thread(move || replies.carry_replies()),
        ];
        let mut connections = locked(connections);
        connections.retain(|old| !old.threads.iter().all(JoinHandle::is_finished));
        connections.push(Connection { link, threads });
    }
}

fn connect(client: TcpStream, target: &str, faults: &Arc<Faults>) -> io::Result<Link> {
    client.set_nodelay(true)?;
    let server = if faults.black_hole.load(Ordering::SeqCst) {
        None
    } else {
        let server = TcpStream::connect(target)?;
        server.set_nodelay(true)?;
        Some(server)
    };
    Ok(Link::new(client, server, Arc::clone(faults)))
}

fn start_thread(body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::Builder::new()
        .name("ground-proxy".to_owned())
        .spawn(body)
        .expect("a thread can be started")
}
