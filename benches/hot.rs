//! One hot name: threads of one client, and a second process beside them.

mod common;

use std::time::Duration;

use common::{
    Outcome,
    beside::{self, Beside},
    contend,
    private_server::PrivateServer,
    report::{Report, Row},
    server::Counters,
};
use lockson::{Client, Lock};

fn main() -> Outcome {
    if beside::was_it()? {
        return Ok(());
    }
    let time = common::time_of_a_workload()?;
    let server = PrivateServer::unless_given();
    let mut bench = Bench::on(&server.url(), time)?;
    for threads in [2, 8, 32] {
        let lock = bench.client()?.reentrant_lock(NAME);
        bench.threads(&format!("{threads} threads"), &lock, threads)?;
    }
    for threads in [2, 8, 32] {
        let lock = bench.client()?.fair_lock(FAIR);
        // The server learns the scripts.
        lock.lock()?.unlock()?;
        bench.threads(&format!("{threads} threads, fair"), &lock, threads)?;
    }
    bench.with_a_process_beside(8)?;
    bench.report.table();
    Ok(())
}

struct Bench {
    url: String,
    time: Duration,
    counters: Counters,
    report: Report,
}

impl Bench {
    fn on(url: &str, time: Duration) -> Outcome<Self> {
        let mut counters = Counters::of(url)?;
        eprintln!("server {}, {time:?} a workload", counters.version()?);
        Ok(Self {
            url: url.to_owned(),
            time,
            counters,
            report: Report::default(),
        })
    }

    fn threads(&mut self, label: &str, lock: &(impl Lock + Sync), threads: usize) -> Outcome {
        let before = self.counters.script_calls()?;
        let contest = contend::run(label, lock, threads, self.time)?;
        let scripts = self.counters.script_calls()? - before;
        let all: usize = contest.threads.iter().map(|one| one.count()).sum();
        let row = Row::of(label.to_owned(), contest, scripts as f64 / all as f64);
        self.report.add(row);
        Ok(())
    }

    fn with_a_process_beside(&mut self, threads: usize) -> Outcome {
        let label = format!("{threads} threads, a process beside");
        let lock = self.client()?.reentrant_lock(NAME);
        let mut beside = Beside::start(&self.url, NAME)?;
        let before = self.counters.script_calls()?;
        beside.begin()?;
        let contest = contend::run(&label, &lock, threads, self.time)?;
        let waits = beside.finish()?;
        let scripts = self.counters.script_calls()? - before;
        let ours: usize = contest.threads.iter().map(|one| one.count()).sum();
        let scripts = scripts as f64 / (ours + waits.count) as f64;
        let time = contest.time;
        self.report.add(Row::of(label, contest, scripts));
        self.report.add(Row {
            workload: "the process beside, 1 thread".to_owned(),
            waits,
            time,
            scripts,
            shares: None,
        });
        Ok(())
    }

    /// A client whose scripts the server knows.
    fn client(&self) -> Outcome<Client> {
        let client = Client::connect(&self.url)?;
        client.reentrant_lock(NAME).lock()?.unlock()?;
        Ok(client)
    }
}

const NAME: &str = "bench:hot";
const FAIR: &str = "bench:hot:fair";
