//! Every workload, done by this crate alone.

mod common;

use std::time::Duration;

use common::{
    BOUND, Outcome,
    private_server::PrivateServer,
    report::{Report, Row},
    serve,
    server::Counters,
    side::Side,
    wake,
    workload::{self, SHORT_HOLD, What, Workload},
};

fn main() -> Outcome {
    if serve::was_side()? {
        return Ok(());
    }
    let time = common::time_of_a_workload()?;
    let first = PrivateServer::unless_given();
    let others: Vec<_> = (1..5).map(|_| PrivateServer::of_its_own()).collect();
    let urls: Vec<_> = [&first].into_iter().chain(&others).collect();
    let mut bench = Bench::on(urls.into_iter().map(PrivateServer::url).collect(), time)?;
    for workload in workload::ALL {
        bench.run(workload)?;
    }
    bench.beside()?;
    bench.wake()?;
    bench.crowds()?;
    bench.report.table();
    Ok(())
}

struct Bench {
    urls: Vec<String>,
    time: Duration,
    counters: Vec<Counters>,
    report: Report,
}

impl Bench {
    fn on(urls: Vec<String>, time: Duration) -> Outcome<Self> {
        let counters = urls.iter().map(|url| Counters::of(url));
        let mut counters = counters.collect::<Outcome<Vec<_>>>()?;
        eprintln!("server {}, {time:?} a workload", counters[0].version()?);
        Ok(Self {
            urls,
            time,
            counters,
            report: Report::default(),
        })
    }

    fn run(&mut self, workload: Workload) -> Outcome {
        let ours = common::ours::Ours::on(&self.urls);
        // Connections, scripts and the first of everything.
        ours.run(workload, NAME, self.time / 10)?;
        let before = self.scripts()?;
        let outturn = ours.run(workload, NAME, self.time)?.outturn();
        let scripts = self.scripts()? - before;
        self.add(workload.title(), outturn, scripts)
    }

    fn beside(&mut self) -> Outcome {
        let mut other = Side::of_ours("lockson", &self.urls)?;
        let ours = common::ours::Ours::on(&self.urls);
        let before = self.scripts()?;
        let theirs = Workload::new(What::Hot, 1).holding(SHORT_HOLD);
        other.begin(theirs, NAME, self.time)?;
        let workload = Workload::new(What::Hot, 8).holding(SHORT_HOLD);
        let outturn = ours.run(workload, NAME, self.time)?.outturn();
        let theirs = other.outturn(self.time)?;
        let scripts = self.scripts()? - before;
        let each = Some(scripts as f64 / (outturn.count() + theirs.count()) as f64);
        for (whose, outturn) in [
            ("8 threads, a process beside", outturn),
            ("the process beside", theirs),
        ] {
            self.report.add(Row {
                workload: format!("one hot name, {whose}, held 200 µs"),
                outturn,
                scripts: each,
            });
        }
        Ok(())
    }

    fn wake(&mut self) -> Outcome {
        let mut first = Side::of_ours("lockson", &self.urls)?;
        let mut second = Side::of_ours("lockson", &self.urls)?;
        let before = self.scripts()?;
        let counters = &mut self.counters[0];
        let outturn = wake::between(&mut first, &mut second, counters, NAME, self.time)?;
        let scripts = self.scripts()? - before;
        self.add("woken up by another process".to_owned(), outturn, scripts)
    }

    fn crowds(&mut self) -> Outcome {
        let (names, threads) = match common::is_bench() {
            true => (10_000, 1000),
            false => (200, 20),
        };
        let seconds = self.time.as_secs_f64() * 2.0;
        for order in [
            format!("held {names} {seconds}"),
            format!("waiting {threads}"),
        ] {
            // In a process of its own, so that its memory is of this alone.
            let mut side = Side::of_ours("lockson", &self.urls)?;
            side.order(&order)?;
            println!("{}", side.answer(BOUND + self.time)?);
        }
        Ok(())
    }

    fn add(
        &mut self,
        workload: String,
        outturn: common::samples::Outturn,
        scripts: u64,
    ) -> Outcome {
        let scripts = Some(scripts as f64 / outturn.count() as f64);
        self.report.add(Row {
            workload,
            outturn,
            scripts,
        });
        Ok(())
    }

    fn scripts(&mut self) -> Outcome<u64> {
        self.counters.iter_mut().map(Counters::script_calls).sum()
    }
}

const NAME: &str = "bench:one";
