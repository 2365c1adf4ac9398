//! A second process that contends with one thread: this very program, started again.
//!
//! It says `ready` when it is connected, begins with the first line that it reads, and at the end of
//! its input stops and says what it measured. So it also stops when its parent is gone.

use std::{
    env,
    io::{self, BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, Command, Stdio},
    str::FromStr,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{self, Receiver},
    },
    thread,
    time::Duration,
};

use lockson::Client;

use super::{BOUND, Outcome, contend, samples::Summary};

/// The process beside; killed when this is dropped.
pub(crate) struct Beside {
    child: Child,
    orders: Option<ChildStdin>,
    answers: Receiver<io::Result<String>>,
}

impl Beside {
    /// Starts it, and returns when it is connected.
    pub(crate) fn start(url: &str, name: &str) -> Outcome<Self> {
        let mut child = Command::new(env::current_exe()?)
            .env(ORDER, format!("{url} {name}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let orders = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().ok_or("no pipe")?).lines();
        let (sender, answers) = mpsc::channel();
        thread::spawn(move || {
            lines
                .map_while(|line| sender.send(line).ok())
                .for_each(drop)
        });
        let beside = Self {
            child,
            orders,
            answers,
        };
        match &*beside.answer()? {
            "ready" => Ok(beside),
            other => Err(format!("the process beside says {other:?}").into()),
        }
    }

    pub(crate) fn begin(&mut self) -> Outcome {
        let orders = self.orders.as_mut().ok_or("it was stopped")?;
        Ok(writeln!(orders, "begin")?)
    }

    /// Stops it and says what it measured.
    pub(crate) fn finish(mut self) -> Outcome<Summary> {
        drop(self.orders.take());
        let answer = self.answer()?;
        let status = self.child.wait()?;
        if !status.success() {
            return Err(format!("the process beside ended with {status}").into());
        }
        let mut words = answer.split(' ');
        let count = number(words.next())?;
        let mut wait = || number(words.next()).map(Duration::from_nanos);
        Ok(Summary {
            count,
            p50: wait()?,
            p99: wait()?,
            max: wait()?,
        })
    }

    fn answer(&self) -> Outcome<String> {
        let line = self.answers.recv_timeout(BOUND + Duration::from_secs(5));
        Ok(line.map_err(|_| "the process beside does not answer")??)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether this process is the one beside; if so, it has done its part when this returns.
pub(crate) fn was_it() -> Outcome<bool> {
    let Ok(order) = env::var(ORDER) else {
        return Ok(false);
    };
    let (url, name) = order.split_once(' ').ok_or("URL and name expected")?;
    let client = Client::connect(url)?;
    let lock = client.reentrant_lock(name);
    println!("ready");
    io::stdin().lock().read_line(&mut String::new())?;
    static OVER: AtomicBool = AtomicBool::new(false);
    thread::spawn(|| {
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        OVER.store(true, Ordering::Relaxed);
    });
    let seen = contend::until(&OVER, &lock, &AtomicU64::new(0))?.summary();
    let waits = [seen.p50, seen.p99, seen.max].map(|wait| wait.as_nanos());
    println!("{} {} {} {}", seen.count, waits[0], waits[1], waits[2]);
    Ok(true)
}

fn number<T: FromStr>(word: Option<&str>) -> Outcome<T> {
    let number = word.and_then(|word| word.parse().ok());
    Ok(number.ok_or("the process beside says no number")?)
}

const ORDER: &str = "LOCKSON_BENCH_BESIDE";
