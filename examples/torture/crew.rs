//! The workers: started, told, killed and replaced.

use std::{
    env,
    io::Write,
    path::PathBuf,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    time::Duration,
};

use crate::{
    history::event::Event,
    pen::Pen,
    support::{spawn_tied, within},
    worker::ORDERS,
};

/// All workers, each on the seat of one who was killed before it or on its own.
pub(crate) struct Crew {
    seats: Vec<Seat>,
    orders: String,
    next: u64,
    deaths: u64,
}

/// Where a worker sits: what it connects to.
struct Seat {
    url: String,
    worker: Option<Worker>,
}

struct Worker {
    number: u64,
    child: Child,
    input: ChildStdin,
}

/// What all workers are told alike.
pub(crate) struct Orders<'a> {
    pub(crate) dir: &'a PathBuf,
    pub(crate) counters: String,
    pub(crate) members: Vec<String>,
    pub(crate) seed: u64,
    pub(crate) threads: u64,
}

impl Crew {
    /// One worker for each URL.
    pub(crate) fn new(orders: &Orders<'_>, urls: Vec<String>) -> Self {
        let seats: Vec<Seat> = urls
            .into_iter()
            .map(|url| Seat { url, worker: None })
            .collect();
        let mut crew = Self {
            orders: format!(
                "dir={}\ncounters={}\nmembers={}\nseed={}\nthreads={}",
                orders.dir.display(),
                orders.counters,
                orders.members.join(" "),
                orders.seed,
                orders.threads,
            ),
            next: 1,
            deaths: 0,
            seats,
        };
        for seat in 0..crew.seats.len() {
            crew.start(seat);
        }
        crew
    }

    pub(crate) fn start(&mut self, seat: usize) {
        let number = self.next;
        self.next += 1;
        let url = &self.seats[seat].url;
        let orders = format!(
            "{}\nnumber={number}\nurl={url}\ndeaths={}",
            self.orders, self.deaths
        );
        let this = env::current_exe().expect("a program knows itself");
        let mut command = Command::new(this);
        command.env(ORDERS, orders).stdin(Stdio::piped());
        let mut child = spawn_tied(command).expect("a worker can be started");
        let input = child.stdin.take().expect("a pipe was asked for");
        self.seats[seat].worker = Some(Worker {
            number,
            child,
            input,
        });
    }

    pub(crate) fn pid(&self, seat: usize) -> u32 {
        self.worker(seat).child.id()
    }

    /// Kills a worker, and has the others take a new fair lock: the dead keep their places.
    pub(crate) fn kill(&mut self, seat: usize, pen: &Pen) {
        let process = self.worker(seat).number;
        pen.note(Event::Killing { process });
        let mut worker = self.seats[seat].worker.take().expect("it sits there");
        worker.child.kill().expect("it can be killed");
        worker.child.wait().expect("it is ours");
        self.deaths += 1;
        for worker in self
            .seats
            .iter_mut()
            .filter_map(|seat| seat.worker.as_mut())
        {
            // Who has died by itself is found out soon.
            let _ = writeln!(worker.input, "{}", self.deaths);
        }
    }

    /// Those who have ended by themselves, which none should.
    pub(crate) fn fallen(&mut self) -> Vec<String> {
        let mut fallen = Vec::new();
        for worker in self
            .seats
            .iter_mut()
            .filter_map(|seat| seat.worker.as_mut())
        {
            if let Ok(Some(status)) = worker.child.try_wait() {
                fallen.push(format!("process {} ended: {status}", worker.number));
            }
        }
        fallen
    }

    /// Sends all home, and says who did not go well.
    pub(crate) fn end(self, bound: Duration) -> Vec<String> {
        let mut workers: Vec<(u64, Child)> = Vec::new();
        for worker in self.seats.into_iter().filter_map(|seat| seat.worker) {
            drop(worker.input);
            workers.push((worker.number, worker.child));
        }
        let mut trouble = Vec::new();
        for (number, child) in &mut workers {
            let status: Option<ExitStatus> = within(bound, || child.try_wait().ok().flatten());
            match status {
                Some(status) if status.success() => {}
                Some(status) => trouble.push(format!("process {number} ended: {status}")),
                None => {
                    trouble.push(format!("process {number} did not end within {bound:?}"));
                    let _ = child.kill();
                    let _ = child.wait();
                }
            }
        }
        trouble
    }

    fn worker(&self, seat: usize) -> &Worker {
        let worker = self.seats[seat].worker.as_ref();
        worker.expect("a seat is empty only until its fault is over")
    }
}
