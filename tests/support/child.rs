//! A peer: another process that takes commands by line, for tests across processes.
//!
//! A request is `ID words…` on its standard input; the answer is `ID OK value` or
//! `ID ERR Kind message…` on its standard output, in any order.

use std::{
    collections::HashMap,
    fmt,
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    locked,
    process::{self, spawn_tied},
    within,
};

/// What a peer answers.
pub type Answer = Result<String, Refusal>;

/// An `ERR` of a peer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    pub kind: String,
    pub message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)
    }
}

impl std::error::Error for Refusal {}

/// A running peer, killed on drop.
pub struct Peer {
    child: Mutex<Child>,
    stdin: Mutex<Option<ChildStdin>>,
    talk: Arc<Talk>,
    next: AtomicUsize,
}

impl Peer {
    #[track_caller]
    pub fn start(mut command: Command) -> Self {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let shown = format!("{command:?}");
        let mut child =
            spawn_tied(command).unwrap_or_else(|error| panic!("{shown} can be run: {error}"));
        let talk = Arc::new(Talk::default());
        let answers = child.stdout.take().expect("the output is piped");
        listen(answers, &talk, Said::take_answer, |said| said.ended = true);
        let logs = child.stderr.take().expect("the errors are piped");
        listen(
            logs,
            &talk,
            |said, line| said.log.push(line),
            |said| said.log_ended = true,
        );
        Self {
            stdin: Mutex::new(child.stdin.take()),
            child: Mutex::new(child),
            talk,
            next: AtomicUsize::new(1),
        }
    }

    /// Asks, without waiting. A peer that is gone never answers.
    pub fn send(&self, words: &str) -> Pending {
        let id = format!("q{}", self.next.fetch_add(1, Ordering::Relaxed));
        let line = format!("{id} {words}");
        {
            let mut said = locked(&self.talk.said);
            said.asked.push(id.clone());
            said.transcript.push(format!("> {line}"));
        }
        if let Some(stdin) = locked(&self.stdin).as_mut() {
            // One write: a killed peer must not have read half a line.
            let _ = stdin.write_all(format!("{line}\n").as_bytes());
        }
        Pending {
            id,
            talk: Arc::clone(&self.talk),
        }
    }

    /// Asks and waits for the answer, 20 seconds at most.
    #[track_caller]
    pub fn call(&self, words: &str) -> Answer {
        self.send(words).wait(CALL_BOUND)
    }

    pub fn pid(&self) -> u32 {
        locked(&self.child).id()
    }

    /// Stops the process; what it was asked meanwhile it does after [`thaw`](Self::thaw).
    #[track_caller]
    pub fn freeze(&self) {
        process::freeze(self.pid());
    }

    #[track_caller]
    pub fn thaw(&self) {
        process::thaw(self.pid());
    }

    /// Kills the process and waits until it is gone; a frozen one too.
    pub fn kill(&self) {
        let mut child = locked(&self.child);
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Ends the peer's input.
    pub fn close_stdin(&self) {
        locked(&self.stdin).take();
    }

    #[track_caller]
    pub fn wait_exit(&self, bound: Duration) -> ExitStatus {
        let exit = within(bound, || locked(&self.child).try_wait().ok().flatten());
        match exit {
            Some(status) => status,
            None => self.talk.fail(&format!("does not end within {bound:?}")),
        }
    }

    /// What was said so far, both ways, and what the peer logged.
    pub fn transcript(&self) -> String {
        self.talk.transcript()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// An answer to come.
pub struct Pending {
    id: String,
    talk: Arc<Talk>,
}

impl Pending {
    pub fn is_done(&self) -> bool {
        locked(&self.talk.said).answers.contains_key(&self.id)
    }

    /// Waits for the answer and panics with all that was said if there is none in time.
    #[track_caller]
    pub fn wait(self, bound: Duration) -> Answer {
        match self.within(bound) {
            Some(answer) => answer,
            None => self.talk.fail(&format!("owes {} after {bound:?}", self.id)),
        }
    }

    /// Waits for the answer; `None` if there is none in time. Panics if there can be none: the peer
    /// is gone, or has said what nobody asked for.
    #[track_caller]
    pub fn within(&self, bound: Duration) -> Option<Answer> {
        let deadline = Instant::now() + bound;
        let mut said = locked(&self.talk.said);
        loop {
            if let Some(answer) = said.answers.get(&self.id) {
                return Some(answer.clone());
            }
            let trouble = match &said.stray {
                Some(line) => Some(format!("said {line:?}, which answers nothing")),
                None if said.ended => Some(format!("is gone and owes {}", self.id)),
                None => None,
            };
            if let Some(trouble) = trouble {
                drop(said);
                self.talk.fail(&trouble);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            said = self.talk.wait_for_more(said, left);
        }
    }
}

#[derive(Default)]
struct Talk {
    said: Mutex<Said>,
    more: Condvar,
}

impl Talk {
    fn wait_for_more<'a>(
        &self,
        said: MutexGuard<'a, Said>,
        bound: Duration,
    ) -> MutexGuard<'a, Said> {
        self.more
            .wait_timeout(said, bound)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }

    fn transcript(&self) -> String {
        let said = locked(&self.said);
        let lines = [&said.transcript[..], &["its log:".to_owned()], &said.log];
        lines.concat().join("\n  ")
    }

    #[track_caller]
    fn fail(&self, trouble: &str) -> ! {
        // The reason of a sudden end comes by the other pipe, perhaps a little later.
        let _ = within(LOG_BOUND, || {
            let said = locked(&self.said);
            !said.ended || said.log_ended
        });
        panic!("the peer {trouble}\n  {}", self.transcript());
    }
}

#[derive(Default)]
struct Said {
    asked: Vec<String>,
    answers: HashMap<String, Answer>,
    transcript: Vec<String>,
    log: Vec<String>,
    stray: Option<String>,
    ended: bool,
    log_ended: bool,
}

impl Said {
    fn take_answer(&mut self, line: String) {
        self.transcript.push(format!("< {line}"));
        let mut parts = line.splitn(3, ' ');
        let id = parts.next().unwrap_or_default().to_owned();
        let verdict = parts.next();
        let rest = parts.next().unwrap_or_default();
        let answer = match verdict {
            Some("OK") => Ok(rest.to_owned()),
            Some("ERR") => {
                let (kind, message) = rest.split_once(' ').unwrap_or((rest, ""));
                Err(Refusal {
                    kind: kind.to_owned(),
                    message: message.to_owned(),
                })
            }
            _ => {
                self.stray = Some(line);
                return;
            }
        };
        if !self.asked.contains(&id) || self.answers.insert(id, answer).is_some() {
            self.stray = Some(line);
        }
    }
}

/// Reads a pipe to its end on a thread of its own. Nobody joins it: a grandchild may keep the pipe
/// open.
fn listen(
    pipe: impl Read + Send + 'static,
    talk: &Arc<Talk>,
    take: fn(&mut Said, String),
    end: fn(&mut Said),
) {
    let talk = Arc::clone(talk);
    thread::Builder::new()
        .name("ground-peer".to_owned())
        .spawn(move || {
            for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line);
                take(&mut locked(&talk.said), line.trim_end().to_owned());
                talk.more.notify_all();
            }
            end(&mut locked(&talk.said));
            talk.more.notify_all();
        })
        .expect("a thread can be started");
}

const CALL_BOUND: Duration = Duration::from_secs(20);
const LOG_BOUND: Duration = Duration::from_millis(500);
