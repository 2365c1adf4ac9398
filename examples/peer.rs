//! A process that takes lock commands by line, for tests that need more than one process.
//!
//! One request a line on standard input, one answer a line on standard output, in any order: a
//! call that blocks answers late. Words are separated by one space, times are in milliseconds.
//!
//! ```text
//! ID client NAME single URL WATCHDOG_MS [key=value …]   ID OK <client uuid>
//! ID CLIENT THREAD info                                 ID OK <client uuid> 0
//! ID CLIENT THREAD OP TYPE LOCK [ARG …]                 ID OK <value>
//! ID cancel THREAD                                      ID OK null
//! ID clock                                              ID OK <milliseconds since 1970>
//! ID shutdown CLIENT                                    ID OK null
//! ID exit                                               ID OK bye
//! ```
//!
//! What fails answers `ID ERR <kind> <message>`. The end of the input ends the process as a crash
//! would: nothing is released. Operations are those of [`OPS`], types those of [`Target::of`], keys
//! of a client those of [`settings`]. Each THREAD is one thread, shared by all clients, that lives
//! as long as the process and keeps the guards of what it holds.

use std::{
    collections::{HashMap, VecDeque},
    fmt::Display,
    io::{self, BufRead, Write},
    panic, process,
    sync::{Arc, Mutex, mpsc},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use lockson::{
    AnyGuard, AnyLock, CancelToken, Client, ClientBuilder, Ended, Error, FairLock, Inspection,
    MultiLock, ReadLock, RedLock, ReentrantLock, Ttl, WriteLock,
};

fn main() {
    crash_on_panic();
    let mut peer = Peer::default();
    for line in io::stdin().lock().split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        if !line.trim().is_empty() {
            peer.handle(line.trim());
        }
    }
    // Not a return: that would drop the clients, and wait for their threads.
    process::exit(0);
}

#[derive(Default)]
struct Peer {
    clients: HashMap<String, Client>,
    threads: HashMap<String, Worker>,
}

/// One thread: what it shall do, and how what it does now can be cancelled.
struct Worker {
    queue: mpsc::Sender<(String, Work)>,
    unanswered: Unanswered,
}

/// The tokens of the calls that were not answered yet, the present one first; none for a call that
/// cannot be cancelled.
type Unanswered = Arc<Mutex<VecDeque<Option<CancelToken>>>>;

/// What a thread is asked to do, with the guards that it has.
type Work = Box<dyn FnOnce(&mut Guards) -> Outcome + Send>;

/// By client, type and lock; the newest last. A guard must not leave its thread, so each has its
/// own.
type Guards = HashMap<[String; 3], Vec<AnyGuard>>;

type Outcome<T = String> = Result<T, Refusal>;

impl Peer {
    // Never blocks, except for `exit`: the end of the input must be seen at once.
    fn handle(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let (id, request) = (words[0], &words[1..]);
        let done = match request {
            _ if words.contains(&"") => Err(usage("words are separated by one space")),
            ["client", name, "single", url, words @ ..] if !words.is_empty() => {
                self.create(id, name, url, words)
            }
            ["client", _, topology, _, _, ..] => {
                Err(unsupported(format!("no topology {topology}")))
            }
            ["cancel" | "interrupt", thread] => {
                self.cancel(thread);
                answer(id, null());
                Ok(())
            }
            ["clock"] => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                answer(id, value(now.map_or(0, |now| now.as_millis())));
                Ok(())
            }
            ["shutdown", client] => self.shut_down(id, client),
            ["exit"] => self.exit(id),
            [
                "client" | "cancel" | "clock" | "interrupt" | "shutdown" | "exit",
                ..,
            ]
            | [_, _, "info", _, ..] => Err(usage("too few or too many words")),
            [client, thread, "info"] => self.client(client).cloned().map(|client| {
                // 0 stands where Java has the number of the thread: here each hold has its own.
                let work = move |_: &mut Guards| value(format!("{} 0", client.id()));
                self.on_thread(id, thread, None, Box::new(work));
            }),
            [client, thread, op, words @ ..] => Call::parse(self, client, op, words).map(|call| {
                let token = call.cancel.clone();
                self.on_thread(id, thread, token, Box::new(|guards| call.run(guards)));
            }),
            _ => Err(usage("expected: ID CLIENT THREAD OP TYPE LOCK [ARG …]")),
        };
        if let Err(refusal) = done {
            answer(id, Err(refusal));
        }
    }

    fn create(&mut self, id: &str, name: &str, url: &str, words: &[&str]) -> Outcome<()> {
        let settings = settings(words[0], &words[1..])?;
        if self.clients.contains_key(name) {
            return Err(usage(format!("client {name} exists")));
        }
        let client = settings.connect_lazy(url)?;
        answer(id, value(client.id()));
        self.clients.insert(name.to_owned(), client);
        Ok(())
    }

    fn shut_down(&self, id: &str, client: &str) -> Outcome<()> {
        let (id, client) = (id.to_owned(), self.client(client)?.clone());
        thread::spawn(move || {
            client.shutdown();
            answer(&id, null());
        });
        Ok(())
    }

    fn exit(&self, id: &str) -> ! {
        thread::scope(|scope| {
            for client in self.clients.values() {
                scope.spawn(|| client.shutdown());
            }
        });
        answer(id, value("bye"));
        process::exit(0);
    }

    fn on_thread(&mut self, id: &str, thread: &str, token: Option<CancelToken>, work: Work) {
        let worker = self
            .threads
            .entry(thread.to_owned())
            .or_insert_with(start_thread);
        worker
            .unanswered
            .lock()
            .expect("no panics")
            .push_back(token);
        let sent = worker.queue.send((id.to_owned(), work));
        sent.expect("a thread lives as long as the process");
    }

    fn cancel(&self, thread: &str) {
        let Some(worker) = self.threads.get(thread) else {
            return;
        };
        if let Some(Some(token)) = worker.unanswered.lock().expect("no panics").front() {
            token.cancel();
        }
    }

    fn client(&self, name: &str) -> Outcome<&Client> {
        self.clients
            .get(name)
            .ok_or_else(|| usage(format!("no client {name}")))
    }
}

fn start_thread() -> Worker {
    let (queue, inbox) = mpsc::channel::<(String, Work)>();
    let unanswered = Unanswered::default();
    let done = Arc::clone(&unanswered);
    thread::spawn(move || {
        let mut guards = Guards::new();
        for (id, work) in inbox {
            let outcome = work(&mut guards);
            done.lock().expect("no panics").pop_front();
            answer(&id, outcome);
        }
    });
    Worker { queue, unanswered }
}

fn settings(watchdog: &str, options: &[&str]) -> Outcome<ClientBuilder> {
    let mut settings = Client::builder().lock_watchdog_timeout(millis(watchdog)?);
    for option in options {
        let Some((key, value)) = option.split_once('=') else {
            return Err(usage(format!("not key=value: {option}")));
        };
        settings = match key {
            "batch" => settings.lock_watchdog_batch_size(number(value)?.max(0) as usize),
            "fairWait" => settings.fair_lock_wait_timeout(millis(value)?),
            "member" => settings.red_lock_member_timeout(millis(value)?),
            "pool" => settings.pool_size(number(value)?.max(0) as usize),
            "timeout" => settings.response_timeout(millis(value)?),
            _ => settings,
        };
    }
    Ok(settings)
}

/// Asks about the key of a lock, which an [`AnyLock`] cannot.
macro_rules! ask {
    ($target:expr, $question:ident) => {
        match &$target {
            Target::Fair(lock) => lock.$question()?,
            Target::Lock(lock) => lock.$question()?,
            Target::Read(lock) => lock.$question()?,
            Target::Write(lock) => lock.$question()?,
            Target::Multi(_) | Target::Red(_) => {
                return Err(unsupported("several locks have no key to ask about"));
            }
        }
    };
}

/// One operation on one lock.
struct Call {
    op: String,
    target: Target,
    /// Where its guards are.
    place: [String; 3],
    /// WAIT or MAX_MS; none is for ever.
    wait: Option<Duration>,
    /// None: the watchdog keeps it.
    lease: Option<Duration>,
    cancel: Option<CancelToken>,
}

/// The operations, by the arguments that they take after TYPE and LOCK.
const OPS: [(&str, &str); 5] = [
    (
        "",
        "lock lockInterruptibly tryLock unlock drop forceUnlock isLocked isHeld holdCount ttl \
         inspect holder guardHeld remaining verify validity",
    ),
    ("LEASE", "lockL"),
    ("WAIT", "tryLockW"),
    ("WAIT LEASE", "tryLockWL"),
    ("MAX_MS", "awaitLost"),
];

/// As with Java's interrupts: a plain `lock` goes on waiting.
const CANCELLABLE: [&str; 3] = ["lockInterruptibly", "tryLockW", "tryLockWL"];

impl Call {
    fn parse(peer: &Peer, client: &str, op: &str, words: &[&str]) -> Outcome<Self> {
        let known = |(_, ops): &&(_, &str)| ops.split(' ').any(|known| known == op);
        let Some((arguments, _)) = OPS.iter().find(known) else {
            return Err(unsupported(format!("no operation {op}")));
        };
        let form = || usage(format!("expected: {op} TYPE LOCK {arguments}"));
        let [kind, name, values @ ..] = words else {
            return Err(form());
        };
        let mut call = Self {
            op: op.to_owned(),
            target: Target::of(peer, client, kind, name)?,
            place: [client, kind, name].map(str::to_owned),
            wait: (op == "tryLock").then_some(Duration::ZERO),
            lease: None,
            cancel: CANCELLABLE.contains(&op).then(CancelToken::new),
        };
        if values.len() != arguments.split_whitespace().count() {
            return Err(form());
        }
        for (argument, value) in arguments.split_whitespace().zip(values) {
            match argument {
                "LEASE" => call.lease = lease_of(value)?,
                _ => call.wait = Some(millis(value)?),
            }
        }
        Ok(call)
    }

    fn run(self, guards: &mut Guards) -> Outcome {
        let lock = self.target.any();
        let mut options = lock.options();
        if let Some(wait) = self.wait {
            options = options.wait(wait);
        }
        if let Some(lease) = self.lease {
            options = options.lease(lease);
        }
        if let Some(token) = &self.cancel {
            options = options.cancel(token);
        }
        let held = guards.entry(self.place).or_default();
        let newest = || held.last().ok_or_else(not_held);
        match &*self.op {
            "lock" | "lockL" | "lockInterruptibly" => {
                let guard = options.acquire()?;
                held.push(guard.expect("a wait without end ends with the lock"));
                null()
            }
            "tryLock" | "tryLockW" | "tryLockWL" => {
                let guard = options.acquire()?;
                let got = guard.is_some();
                held.extend(guard);
                value(got)
            }
            "unlock" => {
                held.pop().ok_or_else(not_held)?.unlock()?;
                null()
            }
            "drop" => {
                drop(held.pop());
                null()
            }
            "forceUnlock" => value(ask!(self.target, force_unlock)),
            "isLocked" => value(ask!(self.target, is_locked)),
            "isHeld" => value(lock.is_held_by_current_thread()?),
            "holdCount" => value(ask!(self.target, hold_count)),
            "ttl" => value(ttl(ask!(self.target, remaining_ttl))),
            "inspect" => value(inspection(&ask!(self.target, inspect))),
            "holder" => value(newest()?.holder()),
            "guardHeld" => value(newest().is_ok_and(AnyGuard::is_held)),
            "remaining" => value(newest()?.remaining().as_millis()),
            "verify" => {
                newest()?.verify()?;
                null()
            }
            "awaitLost" => {
                let ended = newest()?.lost().wait(self.wait.unwrap_or_default());
                value(matches!(ended, Ended::Lost(_)))
            }
            "validity" => match self.target {
                Target::Red(_) => value(newest()?.remaining().as_millis()),
                _ => Err(unsupported("only a red lock has a validity")),
            },
            op => unreachable!("{op} stands in the list of operations"),
        }
    }
}

/// The lock that TYPE and LOCK name.
enum Target {
    Fair(FairLock),
    Lock(ReentrantLock),
    Multi(MultiLock),
    Read(ReadLock),
    Red(RedLock),
    Write(WriteLock),
}

impl Target {
    fn of(peer: &Peer, client: &str, kind: &str, name: &str) -> Outcome<Self> {
        // A comma list, each on this client or, by CLIENT/name, on another.
        let members = || {
            name.split(',').map(|member| {
                let (client, name) = member.split_once('/').unwrap_or((client, member));
                Ok(peer.client(client)?.reentrant_lock(name).into())
            })
        };
        let members = || members().collect::<Outcome<Vec<AnyLock>>>();
        let client = peer.client(client)?;
        Ok(match kind {
            "fair" => Self::Fair(client.fair_lock(name)),
            "lock" => Self::Lock(client.reentrant_lock(name)),
            "multi" => Self::Multi(MultiLock::new(members()?)?),
            "red" => Self::Red(RedLock::new(members()?)?),
            "read" => Self::Read(client.read_write_lock(name).read_lock()),
            "write" => Self::Write(client.read_write_lock(name).write_lock()),
            _ => return Err(unsupported(format!("no type {kind}"))),
        })
    }

    /// Its acquiring half.
    fn any(&self) -> AnyLock {
        match self {
            Self::Fair(lock) => lock.into(),
            Self::Lock(lock) => lock.into(),
            Self::Multi(lock) => lock.into(),
            Self::Red(lock) => lock.into(),
            Self::Read(lock) => lock.into(),
            Self::Write(lock) => lock.into(),
        }
    }
}

fn inspection(seen: &Inspection) -> String {
    let holders: Vec<String> = seen
        .holders
        .iter()
        .map(|holder| format!("{}×{}", holder.holder, holder.count))
        .collect();
    let queue: Vec<&str> = seen.queue.iter().map(|one| &*one.holder).collect();
    format!(
        "mode={} ttl={} holders={} queue={} waiters={}",
        seen.mode.as_deref().unwrap_or_default(),
        ttl(seen.ttl),
        holders.join(","),
        queue.join(","),
        seen.waiters,
    )
}

/// As `PTTL` says it.
fn ttl(ttl: Ttl) -> i128 {
    match ttl {
        Ttl::Free => -2,
        Ttl::NoExpiry => -1,
        Ttl::Left(left) => i128::try_from(left.as_millis()).unwrap_or(i128::MAX),
    }
}

/// -1 is none. 0 is left for the crate to refuse.
fn lease_of(word: &str) -> Outcome<Option<Duration>> {
    match number(word)? {
        -1 => Ok(None),
        lease if lease < 0 => Err(usage("a lease is -1 or a number of milliseconds")),
        _ => Ok(Some(millis(word)?)),
    }
}

fn millis(word: &str) -> Outcome<Duration> {
    let millis = u64::try_from(number(word)?).unwrap_or(0);
    Ok(Duration::from_millis(millis))
}

fn number(word: &str) -> Outcome<i64> {
    word.parse()
        .map_err(|_| usage(format!("not a whole number: {word}")))
}

fn value(value: impl Display) -> Outcome {
    Ok(value.to_string())
}

fn null() -> Outcome {
    value("null")
}

/// An answer that is not OK: its kind and what to say.
struct Refusal(String);

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self(format!("{:?} {error}", error.kind()))
    }
}

fn usage(message: impl Display) -> Refusal {
    Refusal(format!("Usage {message}"))
}

fn unsupported(message: impl Display) -> Refusal {
    Refusal(format!("Unsupported {message}"))
}

fn not_held() -> Refusal {
    Refusal("NotHeld this thread has no guard of this lock".to_owned())
}

fn answer(id: &str, outcome: Outcome) {
    let answer = match outcome {
        Ok(value) => format!("OK {value}"),
        Err(Refusal(text)) => format!("ERR {text}"),
    };
    let line = format!("{id} {}\n", answer.replace(['\n', '\r'], " "));
    let mut out = io::stdout().lock();
    // When nobody listens any more, the end of the input is near.
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// Else the guards of a thread that panics would be released, and its requests never answered.
fn crash_on_panic() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        report(panic);
        process::abort();
    }));
}
