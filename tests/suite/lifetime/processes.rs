//! Processes: forked ones, and such that end while they hold.
//!
//! What happens to them is a program of its own: this very binary, started again to run one of the
//! functions below, so that the process of the tests is not the one that forks or exits.

use std::{
    collections::{HashMap, HashSet},
    env,
    io::Read,
    process::{self, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use lockson::{Client, Ended, LockGuard, LostReason, LostSignal, OwnedLockGuard, ReadWriteLock};
use redis::Commands;

use super::{
    BOUND, all_calls_are_closed, exists, is_closed, millis, nobody_connected, owned, taken,
};
use crate::{
    support::{Ground, Server, Told, eventually, spawn_tied, without_lua},
    watchdog::is_renewed,
};

#[test]
fn a_forked_child_is_closed_and_the_parent_goes_on() {
    let ground = Ground::new();
    let server = ground.server();
    let monitor = server.monitor();
    let name = ground.name("L");
    run("fork", &server, &name).ends_well();
    let heard = Heard::from(&without_lua(monitor.take()));
    assert_eq!(heard.windows, FORKS);
    // While the children asked everything that can be asked, of those who had been connected
    // before at most one went on, the parent's watchdog.
    assert!(heard.old.len() <= 1, "{:#?}", heard.old);
    assert!(!exists(&server, &name));
}

#[test]
fn a_forked_reader_is_closed_and_the_writer_of_the_parent_gets_in() {
    let ground = Ground::new();
    let server = ground.server();
    let name = ground.name("L");
    run("fork-reader", &server, &name).ends_well();
    nobody_connected(&server);
    let keys: Vec<String> = server.connection().keys("*").expect("KEYS");
    assert_eq!(keys, Vec::<String>::new());
}

#[test]
fn a_loss_that_is_found_while_the_client_ends_is_an_event() {
    let ground = Ground::new();
    let server = ground.server();
    run("last-event", &server, &ground.name("L")).ends_well();
}

#[test]
fn a_process_that_exits_leaves_its_holds_to_their_time() {
    let ground = Ground::new();
    let server = ground.server();
    let name = ground.name("L");
    run("exit", &server, &name).ends_with(7);
    assert!(exists(&server, &name), "nothing is released");
    eventually(BOUND, "it runs out", || !exists(&server, &name));
}

#[test]
fn a_process_that_panics_releases_what_it_held() {
    let ground = Ground::new();
    let server = ground.server();
    let name = ground.name("L");
    run("panic", &server, &name).ends_with(101);
    assert!(!exists(&server, &name), "released on the way");
}

#[test]
fn a_process_that_returns_from_main_ends_with_guards_in_thread_locals() {
    let ground = Ground::new();
    let server = ground.server();
    let name = ground.name("L");
    run("thread-local", &server, &name).ends_well();
    // Whether they are dropped is the system's choice; that the process ends is ours.
    eventually(BOUND, "it is released or runs out", || {
        !exists(&server, &name)
    });
}

/// Who spoke to the server while there was a forked child.
#[derive(Default)]
struct Heard {
    windows: usize,
    /// Those who were connected before, with what they said.
    old: HashMap<String, Vec<String>>,
}

impl Heard {
    fn from(lines: &[String]) -> Self {
        let (mut heard, mut known) = (Self::default(), HashSet::new());
        let mut forked: Option<HashSet<String>> = None;
        for line in lines {
            // `1700000000.123456 [0 127.0.0.1:40112] "ECHO" "x"`
            let speaker = line.split(['[', ']']).nth(1).unwrap_or_default().to_owned();
            if line.contains(FORKED) {
                forked = Some(known.clone());
                heard.windows += 1;
            } else if line.contains(JOINED) {
                forked = None;
            } else if let Some(old) = &forked {
                if old.contains(&speaker) {
                    heard.old.entry(speaker).or_default().push(line.clone());
                }
                continue;
            }
            known.insert(speaker);
        }
        heard
    }
}

/// Does nothing unless it is the program that another test has started.
#[test]
fn program() {
    let (Ok(what), Ok(url), Ok(name)) = (env::var(WHAT), env::var(URL), env::var(NAME)) else {
        return;
    };
    if what == "last-event" {
        return end_while_a_loss_is_told(&url, &name);
    }
    let client = Client::builder()
        .lock_watchdog_timeout(millis(900))
        .on_event(|_| {})
        .connect(&url)
        .expect("the server is there");
    let guard = taken(&client.reentrant_lock(&name));
    match what.as_str() {
        "fork" => fork_often(&client, guard, &url),
        "fork-reader" => {
            guard.unlock().expect("held");
            fork_while_a_writer_waits(&client.read_write_lock(&name), &client);
        }
        "exit" => {
            let _nested = taken(&client.reentrant_lock(&name));
            process::exit(7);
        }
        "panic" => {
            let _nested = taken(&client.reentrant_lock(&name));
            panic!("on purpose");
        }
        "thread-local" => {
            thread_local! {
                static KEPT: std::cell::RefCell<Option<LockGuard>> =
                    const { std::cell::RefCell::new(None) };
            }
            KEPT.set(Some(guard));
        }
        other => panic!("no program {other:?}"),
    }
}

/// The watchdog finds the hold gone; its guards are told, and then a slow logger keeps it from raising
/// the event until the client has gone.
fn end_while_a_loss_is_told(url: &str, name: &str) {
    log::set_logger(&SlowWatchdog).expect("no other logger");
    log::set_max_level(log::LevelFilter::Warn);
    let told = Told::default();
    let client = Client::builder()
        .lock_watchdog_timeout(millis(300))
        .on_event(told.handler())
        .connect(url)
        .expect("the server is there");
    let guard = taken(&client.reentrant_lock(name));
    let redis = redis::Client::open(url).expect("a good URL");
    let mut redis = redis.get_connection().expect("the server is there");
    redis.del::<_, ()>(name).expect("DEL");
    assert_eq!(guard.lost().wait(BOUND), Ended::Lost(LostReason::Gone));
    drop((guard, client));
    let lost: Vec<LostReason> = told.lost().into_iter().map(|(.., reason)| reason).collect();
    assert_eq!(lost, [LostReason::Gone]);
}

struct SlowWatchdog;

impl log::Log for SlowWatchdog {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, _: &log::Record<'_>) {
        let thread = thread::current();
        if thread
            .name()
            .is_some_and(|name| name.starts_with("lockson-w"))
        {
            thread::sleep(millis(300));
        }
    }

    fn flush(&self) {}
}

fn fork_often(client: &Client, guard: LockGuard, url: &str) {
    let redis = redis::Client::open(url).expect("a good URL");
    let mut redis = redis.get_connection().expect("the server is there");
    let mut say = |text: &str| {
        let said: redis::RedisResult<String> = redis::cmd("ECHO").arg(text).query(&mut redis);
        said.expect("answered");
    };
    for number in 0..FORKS {
        let lock = client.reentrant_lock(guard.name());
        let nested = taken(&lock);
        let other = owned(&client.reentrant_lock(format!("{}-{number}", guard.name())));
        let signal = nested.lost();
        say(FORKED);
        let mut both = Some((nested, other, signal));
        fork(|| be_the_child(client.clone(), both.take().expect("forked once")));
        say(JOINED);
        drop(both);
        is_renewed(&guard);
    }
    guard.verify().expect("the children did not touch it");
    assert_eq!(
        client
            .reentrant_lock(guard.name())
            .hold_count()
            .expect("answered"),
        1
    );
    guard.unlock().expect("held");
}

fn fork_while_a_writer_waits(lock: &ReadWriteLock, client: &Client) {
    let reading = lock.read().expect("free");
    let shared = lock.read_lock().lock_owned().expect("shared");
    thread::scope(|scope| {
        let writer = scope.spawn(|| lock.write().expect("let in").unlock());
        eventually(BOUND, "it waits", || client.state().waiters == 1);
        let mut both = Some((reading, shared));
        fork(|| {
            let (reading, shared) = both.take().expect("forked once");
            assert!(!reading.is_held() && reading.remaining().is_zero());
            is_closed(reading.verify());
            is_closed(reading.extend(BOUND));
            is_closed(lock.try_read());
            is_closed(lock.read());
            is_closed(lock.try_write());
            // In line behind a thread that is not there.
            is_closed(lock.write());
            is_closed(lock.inspect());
            drop(shared);
            is_closed(reading.unlock());
        });
        let (reading, shared) = both.expect("the child had its own");
        reading.verify().expect("the child did not touch it");
        shared.verify().expect("the child did not touch it");
        assert_eq!(client.state().waiters, 1);
        reading.unlock().expect("held");
        shared.unlock().expect("held");
        writer.join().expect("ends well").expect("held");
    });
}

/// Runs a part in a child process; it must come to its end.
#[allow(unsafe_code)]
fn fork(child: impl FnOnce()) {
    // SAFETY: the child runs on, with the one thread that called, until `_exit`. It allocates,
    // which the C library allows after a fork; what else it touches is the very thing under test.
    match unsafe { libc::fork() } {
        -1 => panic!("no process can be made"),
        0 => {
            // SAFETY: neither touches memory of ours. A child that hangs is ended by the alarm.
            unsafe {
                libc::alarm(20);
                let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
                libc::_exit(if ended.is_ok() { 0 } else { 1 });
            }
        }
        pid => {
            let mut status = 0;
            // SAFETY: `status` lives through the call.
            assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
            assert!(
                libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
                "the child ended by {status:#x}"
            );
        }
    }
}

fn be_the_child(client: Client, (guard, other, signal): (LockGuard, OwnedLockGuard, LostSignal)) {
    assert!(!guard.is_held());
    assert!(guard.remaining().is_zero());
    is_closed(guard.verify());
    is_closed(guard.extend(BOUND));
    assert_eq!(signal.reason(), Some(LostReason::Closed));
    assert_eq!(signal.wait(Duration::MAX), Ended::Lost(LostReason::Closed));
    all_calls_are_closed(&client, guard.name());
    assert_eq!((client.state().holds, client.state().connections), (0, 0));
    client.shutdown();

    drop(other);
    is_closed(guard.unlock());
    drop((signal, client));
}

/// How a program ended, and what it said.
struct Exit {
    status: ExitStatus,
    said: String,
}

impl Exit {
    #[track_caller]
    fn ends_well(&self) {
        self.ends_with(0);
    }

    #[track_caller]
    fn ends_with(&self, code: i32) {
        assert_eq!(self.status.code(), Some(code), "{}", self.said);
    }
}

/// Starts this binary again, to run [`program`] and nothing else, and waits for its end.
#[track_caller]
fn run(what: &str, server: &Server, name: &str) -> Exit {
    let this = format!("{}::program", module_path!());
    let (_, test) = this.split_once("::").expect("the crate comes first");
    let mut command = Command::new(env::current_exe().expect("this binary has a path"));
    command
        // On the main thread, as a program runs.
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(WHAT, what)
        .env(URL, server.url())
        .env(NAME, name)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = spawn_tied(command).expect("this binary can be started");
    let mut said = String::new();
    let status =
        crate::support::within(Duration::from_secs(60), || child.try_wait().ok().flatten());
    let _ = child.kill();
    if let Some(mut out) = child.stdout.take() {
        let _ = out.read_to_string(&mut said);
    }
    if let Some(mut err) = child.stderr.take() {
        let _ = err.read_to_string(&mut said);
    }
    let status = status.unwrap_or_else(|| panic!("it does not end; it said:\n{said}"));
    Exit { status, said }
}

const WHAT: &str = "LOCKSON_TEST_PROGRAM";
const URL: &str = "LOCKSON_TEST_URL";
const NAME: &str = "LOCKSON_TEST_NAME";
const FORKED: &str = "a child is forked";
const JOINED: &str = "the child is gone";
const FORKS: usize = 5;
