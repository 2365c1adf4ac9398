//! One connection through the proxy: message by message, each with the fate that was ordered for it.

use std::{
    collections::VecDeque,
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    faults::{Action, Faults},
    locked,
    resp::{self, Message},
};

pub struct Link {
    client: TcpStream,
    /// None for a connection that was made inside the black hole.
    server: Option<TcpStream>,
    faults: Arc<Faults>,
    fates: Mutex<Fates>,
    open: AtomicBool,
    /// Begins with a TLS handshake, so that nothing in it can be told apart.
    sealed: AtomicBool,
}

impl Link {
    pub fn new(client: TcpStream, server: Option<TcpStream>, faults: Arc<Faults>) -> Self {
        Self {
            client,
            server,
            faults,
            fates: Mutex::default(),
            open: AtomicBool::new(true),
            sealed: AtomicBool::new(false),
        }
    }

    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::SeqCst)
    }

    /// Closes both sides. Neither socket is dropped here: a thread may be reading from it.
    pub fn cut(&self) {
        self.open.store(false, Ordering::SeqCst);
        let _ = self.client.shutdown(Shutdown::Both);
        if let Some(server) = &self.server {
            let _ = server.shutdown(Shutdown::Both);
        }
    }

    pub fn carry_requests(&self) {
        let mut bytes = Vec::new();
        while read_more(&self.client, &mut bytes) {
            if bytes.first() == Some(&TLS_HANDSHAKE) {
                self.sealed.store(true, Ordering::SeqCst);
            }
            while let Some(request) = self.split_off(&mut bytes) {
                if !self.carry_request(&request) {
                    return;
                }
            }
        }
        self.open.store(false, Ordering::SeqCst);
        match &self.server {
            // Only half: what was sent is still carried out, and the server closes the other half.
            Some(server) => {
                let _ = server.shutdown(Shutdown::Write);
            }
            None => self.cut(),
        }
    }

    pub fn carry_replies(&self) {
        let Some(server) = &self.server else { return };
        let mut bytes = Vec::new();
        while read_more(server, &mut bytes) {
            while let Some(message) = self.split_off(&mut bytes) {
                if !self.carry_reply(&message) {
                    return;
                }
            }
        }
        if !self.is_in_black_hole() && !locked(&self.fates).muted {
            self.give_client(&bytes);
        }
        self.cut();
    }

    /// Says whether the connection goes on.
    fn carry_request(&self, request: &[u8]) -> bool {
        if self.is_in_black_hole() {
            self.faults.lost.fetch_add(1, Ordering::SeqCst);
            return true;
        }
        let action = if self.sealed.load(Ordering::SeqCst) {
            Action::Deliver
        } else {
            self.faults.action_for(request)
        };
        match action {
            Action::CutBefore => {
                self.faults.cuts.fetch_add(1, Ordering::SeqCst);
                self.cut();
                return false;
            }
            Action::Drop => {
                self.faults.dropped.fetch_add(1, Ordering::SeqCst);
            }
            Action::Hold => {
                return self
                    .faults
                    .hold(|| self.give_server(request, Action::Deliver));
            }
            Action::CutReply(_) | Action::Deliver | Action::Mute | Action::Swallow => {
                self.give_server(request, action);
            }
        }
        true
    }

    fn give_server(&self, request: &[u8], fate: Action) {
        if !self.sealed.load(Ordering::SeqCst) {
            // Before it is sent: the reply may be back sooner than the next line runs.
            locked(&self.fates).expect(request, fate);
        }
        if let Some(mut server) = self.server.as_ref() {
            // If the server is gone, the other thread of this link learns it too and closes.
            let _ = server.write_all(request);
        }
    }

    /// Says whether the connection goes on.
    fn carry_reply(&self, message: &[u8]) -> bool {
        let (fate, muted) = {
            let mut fates = locked(&self.fates);
            let fate = if self.sealed.load(Ordering::SeqCst) {
                Action::Deliver
            } else {
                fates.fate_of(message)
            };
            (fate, fates.muted)
        };
        self.faults.sit_out_delay();
        if self.is_in_black_hole() {
            self.faults.lost.fetch_add(1, Ordering::SeqCst);
            return true;
        }
        match fate {
            Action::Mute | Action::Swallow => {
                self.faults.swallowed.fetch_add(1, Ordering::SeqCst);
            }
            Action::CutReply(bytes) => {
                self.faults.cuts.fetch_add(1, Ordering::SeqCst);
                self.give_client(&message[..bytes.min(message.len())]);
                self.cut();
                return false;
            }
            _ if muted => {}
            _ => self.give_client(message),
        }
        true
    }

    fn give_client(&self, bytes: &[u8]) {
        // A client that has hung up is no reason to close: a request of its may still be held here.
        let _ = (&self.client).write_all(bytes);
    }

    fn is_in_black_hole(&self) -> bool {
        self.server.is_none() || self.faults.black_hole.load(Ordering::SeqCst)
    }

    fn split_off(&self, bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
        let len = if self.sealed.load(Ordering::SeqCst) {
            bytes.len()
        } else {
            resp::message_len(bytes)?
        };
        (len > 0).then(|| bytes.drain(..len).collect())
    }
}

/// What will become of the replies that are still to come, in their order.
#[derive(Default)]
struct Fates {
    replies: VecDeque<Action>,
    /// Apart from the replies, since the number of those of an UNSUBSCRIBE from everything is not
    /// known.
    confirmations: VecDeque<Action>,
    subscriber: bool,
    muted: bool,
}

impl Fates {
    fn expect(&mut self, request: &[u8], fate: Action) {
        let words = resp::words(request);
        let name = words.first().map(|name| name.to_ascii_lowercase());
        if name.is_some_and(|name| name.ends_with(b"subscribe")) {
            self.subscriber = true;
            let channels = words.len() - 1;
            self.confirmations
                .extend(std::iter::repeat_n(fate, channels));
        } else {
            self.replies.push_back(fate);
        }
    }

    fn fate_of(&mut self, message: &[u8]) -> Action {
        let fate = match Message::of(message, self.subscriber) {
            Message::Confirmation => self.confirmations.pop_front(),
            Message::Push => None,
            Message::Reply => self.replies.pop_front(),
        };
        let fate = fate.unwrap_or(Action::Deliver);
        self.muted |= matches!(fate, Action::Mute);
        fate
    }
}

fn read_more(mut socket: &TcpStream, bytes: &mut Vec<u8>) -> bool {
    let mut chunk = [0; 16 * 1024];
    match socket.read(&mut chunk) {
        Ok(0) | Err(_) => false,
        Ok(len) => {
            bytes.extend_from_slice(&chunk[..len]);
            true
        }
    }
}

/// The first byte of a TLS connection; no request begins with it.
const TLS_HANDSHAKE: u8 = 0x16;
