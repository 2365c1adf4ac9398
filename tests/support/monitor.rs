//! MONITOR: what a server was told, in order.

use std::{
    io::{BufRead, BufReader, Write},
    net::{Shutdown, TcpStream},
    process,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{Server, eventually, locked};

/// Collects the lines of MONITOR from the moment it is made.
pub struct Monitor {
    addr: String,
    password: Option<String>,
    socket: TcpStream,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Monitor {
    #[track_caller]
    pub fn of(server: &Server) -> Self {
        let addr = server.addr();
        let password = server.password().map(str::to_owned);
        let mut replies = greet(&addr, password.as_deref());
        ask(&mut replies, &["MONITOR"]);
        let socket = replies
            .get_ref()
            .try_clone()
            .expect("a socket can be shared");
        // From here on silence is no fault.
        socket
            .set_read_timeout(None)
            .expect("a read timeout can be lifted");

        let lines = Arc::new(Mutex::new(Vec::new()));
        let collected = Arc::clone(&lines);
        let reader = thread::Builder::new()
            .name("ground-monitor".to_owned())
            .spawn(move || {
                for line in replies.lines().map_while(Result::ok) {
                    locked(&collected).push(line.trim_start_matches('+').to_owned());
                }
            })
            .expect("a thread can be started");
        Self {
            addr,
            password,
            socket,
            lines,
            reader: Some(reader),
        }
    }

    /// What has arrived so far, without waiting.
    pub fn lines(&self) -> Vec<String> {
        locked(&self.lines).clone()
    }

    /// Everything the server was told before this call, each line given out once.
    ///
    /// A marker command is sent and waited for, so that nothing is still under way.
    #[track_caller]
    pub fn take(&self) -> Vec<String> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let marker = format!("marker-{}-{number}", process::id());
        ask(
            &mut greet(&self.addr, self.password.as_deref()),
            &["ECHO", &marker],
        );
        eventually(BOUND, "the marker appears in MONITOR", || {
            let mut lines = locked(&self.lines);
            let end = lines.iter().position(|line| line.contains(&marker))?;
            let mut taken: Vec<String> = lines.drain(..=end).collect();
            taken.pop();
            Some(taken)
        })
    }

    /// As [`take`](Self::take), without what scripts called.
    #[track_caller]
    pub fn take_commands(&self) -> Vec<String> {
        without_lua(self.take())
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// Drops the lines of commands that scripts called.
pub fn without_lua(mut lines: Vec<String>) -> Vec<String> {
    // `1700000000.123456 [0 lua] "get" "x"`: only the first bracket is the server's own.
    lines.retain(|line| {
        line.split_once(']')
            .is_none_or(|(origin, _)| !origin.ends_with(" lua"))
    });
    lines
}

/// A bare connection: a client library's greeting would stand among the lines.
#[track_caller]
fn greet(addr: &str, password: Option<&str>) -> BufReader<TcpStream> {
    let socket = TcpStream::connect(addr).expect("the server accepts a connection");
    socket
        .set_read_timeout(Some(BOUND))
        .expect("a read timeout can be set");
    let mut replies = BufReader::new(socket);
    if let Some(password) = password {
        ask(&mut replies, &["AUTH", password]);
    }
    replies
}

#[track_caller]
fn ask(replies: &mut BufReader<TcpStream>, words: &[&str]) {
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request += &format!("${}\r\n{word}\r\n", word.len());
    }
    let mut reply = String::new();
    replies
        .get_mut()
        .write_all(request.as_bytes())
        .and_then(|()| replies.read_line(&mut reply))
        .expect("the server answers");
    assert!(
        reply.starts_with(['+', '$']),
        "{} is answered by {reply:?}",
        words[0]
    );
}

const BOUND: Duration = Duration::from_secs(10);
