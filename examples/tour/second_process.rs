//! A second process for the tour: its own program once more, which waits for one lock.

use std::{
    env,
    io::{self, BufRead, BufReader},
    process::{self, Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use lockson::{Client, Result};

/// The other process; stopped when this is dropped.
pub(crate) struct SecondProcess {
    child: Child,
    said: Receiver<(String, Instant)>,
}

impl SecondProcess {
    /// Starts it, and returns when it waits for the lock.
    pub(crate) fn waiting_for(url: &str, name: &str) -> io::Result<Self> {
        let mut child = Command::new(env::current_exe()?)
            .args([WAIT, url, name])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = BufReader::new(child.stdout.take().expect("a pipe was asked for")).lines();
        let (sender, said) = mpsc::channel();
        thread::spawn(move || {
            for line in lines.map_while(io::Result::ok) {
                let _ = sender.send((line, Instant::now()));
            }
        });
        let other = Self { child, said };
        other.hears("waiting")?;
        Ok(other)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// When we heard that it has the lock. Clocks of two processes cannot be compared, so the way
    /// of this message counts too.
    pub(crate) fn entered(mut self) -> io::Result<Instant> {
        let at = self.hears("entered")?;
        self.child.wait()?;
        Ok(at)
    }

    fn hears(&self, word: &str) -> io::Result<Instant> {
        match self.said.recv_timeout(2 * PATIENCE) {
            Ok((said, at)) if said == word => Ok(at),
            other => Err(io::Error::other(format!(
                "the second process should say {word:?}: {other:?}"
            ))),
        }
    }
}

impl Drop for SecondProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Does the part of the second process and ends, if this is the second process.
pub(crate) fn unless_first() {
    let words: Vec<String> = env::args().skip(1).collect();
    if let [what, url, name] = &*words
        && what == WAIT
    {
        match wait(url, name) {
            Ok(()) => process::exit(0),
            Err(error) => {
                eprintln!("the second process: {error}");
                process::exit(1);
            }
        }
    }
}

fn wait(url: &str, name: &str) -> Result<()> {
    let client = Client::connect(url)?;
    let lock = client.reentrant_lock(name);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            lock.try_lock_for(PATIENCE).map(|guard| {
                println!(
                    "{}",
                    if guard.is_some() {
                        "entered"
                    } else {
                        "too late"
                    }
                );
            })
        });
        while client.state().waiters == 0 && !waiting.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        // Time to subscribe.
        thread::sleep(Duration::from_millis(200));
        println!("waiting");
        waiting.join().expect("the thread ends")
    })
}

const WAIT: &str = "wait-for";
const PATIENCE: Duration = Duration::from_secs(10);
