//! The comparison: the same workloads by this crate and by others, in one run on one server, in turns.

#[path = "../common/mod.rs"]
mod common;
mod picture;
mod redis_benchmark;
mod results;
mod targets;
mod write;

use std::{
    env,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use common::{
    BOUND, Outcome,
    private_server::PrivateServer,
    report::Row,
    samples::Outturn,
    serve,
    server::Counters,
    side::Side,
    wake,
    workload::{self, SHORT_HOLD, What, Workload},
};
use results::Results;

pub(crate) const LOCKSON: &str = "lockson";
pub(crate) const REDISSON: &str = "Redisson 4.7.0";
pub(crate) use common::serve::PLAIN;
pub(crate) const REDIS_BENCHMARK: &str = "redis-benchmark";
pub(crate) const REDLOCK: &str = "redlock 2.0";
pub(crate) const REDISSON_RS: &str = "redisson 0.1.0 (Rust)";

fn main() -> Outcome {
    if serve::was_side()? {
        return Ok(());
    }
    let began = Instant::now();
    let time = common::time_of_a_workload()?;
    let rounds = match common::argument("--rounds")? {
        Some(rounds) => rounds.parse()?,
        None if common::is_bench() => 3,
        None => 1,
    };
    // Nobody else's: names are deleted on them.
    let servers: Vec<_> = (0..5).map(|_| PrivateServer::of_its_own()).collect();
    let urls = servers.iter().map(PrivateServer::url).collect();
    let mut comparison = Comparison::start(urls, time, rounds)?;
    comparison.all_workloads()?;
    comparison.beside()?;
    comparison.wake()?;
    comparison.crowds()?;
    let Comparison {
        results, server, ..
    } = comparison;
    let note = write::note(&server, time, rounds, began.elapsed());
    write::out(&results, &note)
}

struct Comparison {
    urls: Vec<String>,
    time: Duration,
    rounds: usize,
    counters: Vec<Counters>,
    server: String,
    sides: Vec<Side>,
    results: Results,
    began: Instant,
}

impl Comparison {
    fn start(urls: Vec<String>, time: Duration, rounds: usize) -> Outcome<Self> {
        let counters = urls.iter().map(|url| Counters::of(url));
        let mut counters = counters.collect::<Outcome<Vec<_>>>()?;
        let mut sides = vec![Side::of_ours(LOCKSON, &urls)?, Side::of_ours(PLAIN, &urls)?];
        if let Some(java) = java(&urls) {
            sides.push(Side::start(REDISSON, java)?);
        }
        if let Ok(peers) = env::var("LOCKSON_BENCH_PEERS") {
            for (name, peer) in [(REDLOCK, "redlock"), (REDISSON_RS, "redisson")] {
                let mut command = Command::new(&peers);
                command.arg(peer).arg(&urls[0]);
                sides.push(Side::start(name, command)?);
            }
        }
        Ok(Self {
            server: counters[0].version()?,
            urls,
            time,
            rounds,
            counters,
            sides,
            results: Results::default(),
            began: Instant::now(),
        })
    }

    fn all_workloads(&mut self) -> Outcome {
        let sides: Vec<String> = self
            .sides
            .iter()
            .map(|side| side.name().to_owned())
            .collect();
        for (number, workload) in workload::ALL.into_iter().enumerate() {
            let sides: Vec<_> = (0..sides.len())
                .filter(|side| does(&sides[*side], workload))
                .collect();
            for side in &sides {
                self.warm(*side, workload)?;
            }
            for round in 0..self.rounds {
                for side in &sides {
                    self.say(number, workload, round, *side);
                    self.run(*side, workload, round)?;
                }
                if workload.what == What::Distinct {
                    let outturn = redis_benchmark::run(
                        &self.urls[0],
                        self.counters[0].connection(),
                        workload.threads,
                        self.time / 2,
                    )?;
                    self.add(REDIS_BENCHMARK, workload.to_string(), round, outturn, None);
                }
            }
        }
        Ok(())
    }

    fn warm(&mut self, side: usize, workload: Workload) -> Outcome {
        let is_java = self.sides[side].name() == REDISSON;
        let warm = match is_java && common::is_bench() {
            // Before that, Java interprets what it runs.
            true => JAVA_WARMS_UP,
            false => self.time / 10,
        };
        let name = name(self.sides[side].name(), workload);
        self.sides[side].run(workload, &name, warm)?;
        Ok(())
    }

    fn run(&mut self, side: usize, workload: Workload, round: usize) -> Outcome {
        let before = self.scripts()?;
        let side = &mut self.sides[side];
        let outturn = side.run(workload, &name(side.name(), workload), self.time)?;
        let side = side.name().to_owned();
        let scripts = self.scripts()? - before;
        let each = scripts as f64 / outturn.count().max(1) as f64;
        self.add(&side, workload.to_string(), round, outturn, Some(each));
        Ok(())
    }

    /// Another process, with Redisson's own algorithm, against eight threads of ours.
    fn beside(&mut self) -> Outcome {
        let many = Workload::new(What::Hot, 8).holding(SHORT_HOLD);
        let one = Workload::new(What::Hot, 1).holding(SHORT_HOLD);
        let Some(java) = java(&self.urls) else {
            return Ok(());
        };
        let mut other = Side::start(REDISSON, java)?;
        let margin = self.time / 5;
        for round in 0..=self.rounds {
            let before = self.scripts()?;
            let ours = &mut self.sides[0];
            let time = self.time;
            ours.begin(many, "bench:beside", time + margin * 2)?;
            thread::sleep(margin);
            let theirs = other.run(one, "bench:beside", time)?;
            let ours = ours.outturn(time)?;
            let scripts = self.scripts()? - before;
            let each = Some(scripts as f64 / (ours.count() + theirs.count()) as f64);
            // The first one only warms up.
            if let Some(round) = round.checked_sub(1) {
                eprintln!("beside, round {}", round + 1);
                self.add(LOCKSON, "beside".to_owned(), round, ours, each);
                self.add(REDISSON, "beside".to_owned(), round, theirs, each);
            }
        }
        Ok(())
    }

    fn wake(&mut self) -> Outcome {
        let mut pairs = vec![[
            Side::of_ours(LOCKSON, &self.urls)?,
            Side::of_ours(LOCKSON, &self.urls)?,
        ]];
        if let (Some(first), Some(second)) = (java(&self.urls), java(&self.urls)) {
            pairs.push([
                Side::start(REDISSON, first)?,
                Side::start(REDISSON, second)?,
            ]);
        }
        for round in 0..=self.rounds {
            for [first, second] in &mut pairs {
                let is_java = first.name() == REDISSON && common::is_bench();
                let time = match round {
                    0 if is_java => JAVA_WARMS_UP,
                    0 => self.time / 10,
                    _ => self.time,
                };
                let (counters, name) = (&mut self.counters[0], "bench:wake");
                let outturn = wake::between(first, second, counters, name, time)?;
                if let Some(round) = round.checked_sub(1) {
                    eprintln!("woken up, {}, round {}", first.name(), round + 1);
                    let side = first.name().to_owned();
                    self.results.add(&side, "wake", outturn, None);
                }
            }
        }
        Ok(())
    }

    fn crowds(&mut self) -> Outcome {
        let (names, threads) = match common::is_bench() {
            true => (10_000, 1000),
            false => (200, 20),
        };
        for order in [format!("held {names} 5"), format!("waiting {threads}")] {
            if !common::is_bench() && order.starts_with("held") {
                continue;
            }
            eprintln!("{order}");
            // In a process of its own, so that its memory is of this alone.
            let mut side = Side::of_ours(LOCKSON, &self.urls)?;
            side.order(&order)?;
            let answer = side.answer(BOUND * 2)?;
            println!("{answer}");
            self.results.crowd(&answer);
        }
        Ok(())
    }

    fn add(
        &mut self,
        side: &str,
        workload: String,
        round: usize,
        outturn: Outturn,
        scripts: Option<f64>,
    ) {
        let row = Row {
            workload,
            outturn,
            scripts,
        };
        println!("{}", row.line(side, Some(round + 1)));
        self.results.add(side, &row.workload, row.outturn, scripts);
    }

    fn say(&self, number: usize, workload: Workload, round: usize, side: usize) {
        eprintln!(
            "{:4.0} s, workload {} of {}: {workload}, round {} of {}, {}",
            self.began.elapsed().as_secs_f64(),
            number + 1,
            workload::ALL.len(),
            round + 1,
            self.rounds,
            self.sides[side].name()
        );
    }

    fn scripts(&mut self) -> Outcome<u64> {
        self.counters.iter_mut().map(Counters::script_calls).sum()
    }
}

/// The Java side of the workloads, where it is built.
fn java(urls: &[String]) -> Option<Command> {
    let class_path = env::var("LOCKSON_BENCH_JAVA").ok()?;
    let mut command = Command::new("java");
    command.args(["-cp", &class_path, "lockson.interop.Bench"]);
    command.args(urls);
    Some(command)
}

/// Whether a side can do it, and it says something that it does.
fn does(side: &str, workload: Workload) -> bool {
    let is_hot = workload == Workload::new(What::Hot, 8);
    match side {
        PLAIN => workload.what == What::Distinct,
        REDLOCK | REDISSON_RS => workload.what == What::Distinct || is_hot,
        _ => true,
    }
}

fn name(side: &str, workload: Workload) -> String {
    format!("bench:{workload}:{}", side.replace(' ', "-"))
}

const JAVA_WARMS_UP: Duration = Duration::from_millis(2500);
