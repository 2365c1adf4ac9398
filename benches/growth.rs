//! How the cost of one acquisition grows with threads, with names held, and with waiters in a fair queue.

mod common;

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use common::{
    BOUND, Outcome,
    drawing::{Drawing, Lines},
    ours::Ours,
    page,
    private_server::PrivateServer,
    server::Counters,
    workload::{What, Workload},
};
use lockson::{Client, FairLock};
use serde_json::json;

fn main() -> Outcome {
    let time = common::time_of_a_workload()? / 2;
    let server = PrivateServer::unless_given();
    let mut growth = Growth {
        url: server.url(),
        time,
        counters: Counters::of(&server.url())?,
    };
    let is_bench = common::is_bench();
    let upto = |most: usize| STEPS.into_iter().filter(move |step| *step <= most);
    let threads: Vec<_> = upto(if is_bench { 1000 } else { 10 }).collect();
    let names: Vec<_> = upto(if is_bench { 100_000 } else { 100 }).collect();
    let mut curves = Vec::new();
    for (label, what) in [
        ("names of their own", What::Distinct),
        ("one name", What::Hot),
    ] {
        let mut curve = Curve::new(format!("{label}: threads"));
        for threads in &threads {
            curve.add(growth.threads(what, *threads)?);
        }
        curves.push(curve);
    }
    let mut curve = Curve::new("fair: waiting threads".to_owned());
    for waiters in &threads {
        curve.add(growth.fair(*waiters)?);
    }
    curves.push(curve);
    let mut curve = Curve::new("names held beside".to_owned());
    growth.held(&names, &mut curve)?;
    curves.push(curve);
    let table = table(&curves);
    println!("\n{table}");
    if let Some(folder) = common::argument("--write")? {
        let folder = Path::new(&folder);
        fs::write(folder.join("growth.svg"), draw(&curves))?;
        page::put(folder, "growth", &table)?;
    }
    Ok(())
}

const STEPS: [usize; 11] = [1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000];

struct Growth {
    url: String,
    time: Duration,
    counters: Counters,
}

/// What one acquisition costs with so many of what grows.
struct Point {
    size: usize,
    micros: f64,
    scripts: f64,
}

type Pick = fn(&Point) -> f64;

struct Curve {
    name: String,
    points: Vec<Point>,
}

impl Growth {
    fn threads(&mut self, what: What, threads: usize) -> Outcome<Point> {
        let ours = Ours::on(std::slice::from_ref(&self.url));
        let workload = Workload::new(what, threads);
        ours.run(workload, NAME, self.time / 5)?;
        let before = self.counters.script_calls()?;
        let outturn = ours.run(workload, NAME, self.time)?.outturn();
        let scripts = self.counters.script_calls()? - before;
        Ok(Point {
            size: threads,
            micros: 1e6 / outturn.rate(),
            scripts: scripts as f64 / outturn.count() as f64,
        })
    }

    /// They stand in the queue, and then each has the lock once.
    fn fair(&mut self, waiters: usize) -> Outcome<Point> {
        let client = Client::connect(&self.url)?;
        let lock = client.fair_lock(NAME);
        let rounds = (ENOUGH / waiters).max(1);
        let (mut took, mut scripts) = (Duration::ZERO, 0);
        for _ in 0..rounds {
            let (time, calls) = self.fair_once(&client, &lock, waiters)?;
            took += time;
            scripts += calls;
        }
        let taken = (waiters * rounds) as f64;
        Ok(Point {
            size: waiters,
            micros: took.as_secs_f64() * 1e6 / taken,
            scripts: scripts as f64 / taken,
        })
    }

    fn fair_once(
        &mut self,
        client: &Client,
        lock: &FairLock,
        waiters: usize,
    ) -> Outcome<(Duration, u64)> {
        let first = lock.lock()?;
        thread::scope(|scope| {
            for _ in 0..waiters {
                thread::Builder::new()
                    .stack_size(256 * 1024)
                    .spawn_scoped(scope, move || match lock.lock() {
                        Ok(guard) => drop(guard),
                        Err(error) => eprintln!("{error}"),
                    })?;
            }
            let began = Instant::now();
            while lock.inspect()?.queue.len() < waiters {
                if began.elapsed() > BOUND {
                    return Err("they do not come to stand in the queue".into());
                }
                thread::sleep(Duration::from_millis(5));
            }
            let before = self.counters.script_calls()?;
            let began = Instant::now();
            first.unlock()?;
            while client.state().waiters > 0 {
                if began.elapsed() > BOUND {
                    return Err("they do not all get it".into());
                }
                thread::sleep(Duration::from_micros(50));
            }
            let took = began.elapsed();
            Outcome::Ok((took, self.counters.script_calls()? - before))
        })
    }

    /// One thread takes and releases a name while so many others are held by its client.
    fn held(&mut self, sizes: &[usize], curve: &mut Curve) -> Outcome {
        let ours = Ours::on(std::slice::from_ref(&self.url));
        let client = ours.client(0)?;
        let mut guards = Vec::new();
        for size in sizes {
            while guards.len() < *size {
                let lock = client.reentrant_lock(format!("{NAME}:held:{}", guards.len()));
                guards.push(lock.lock()?);
            }
            let before = self.counters.script_calls()?;
            let workload = Workload::new(What::Distinct, 1);
            let outturn = ours.run(workload, NAME, self.time)?.outturn();
            let scripts = self.counters.script_calls()? - before;
            curve.add(Point {
                size: *size,
                micros: 1e6 / outturn.rate(),
                scripts: scripts as f64 / outturn.count() as f64,
            });
        }
        // Far quicker than to release each; the server is ours.
        client.shutdown();
        redis::cmd("FLUSHDB").query::<()>(self.counters.connection())?;
        Ok(())
    }
}

impl Curve {
    fn new(name: String) -> Self {
        Self {
            name,
            points: Vec::new(),
        }
    }

    fn add(&mut self, point: Point) {
        let line = json!({
            "growth": self.name,
            "size": point.size,
            "us_an_acquisition": point.micros,
            "scripts_an_acquisition": point.scripts,
        });
        println!("{line}");
        self.points.push(point);
    }
}

fn table(curves: &[Curve]) -> String {
    let mut table = String::from(
        "| what grows | from | µs, scripts | to | µs, scripts |\n|---|---:|---:|---:|---:|\n",
    );
    for curve in curves {
        if let [first, .., last] = &curve.points[..] {
            let _ = writeln!(
                table,
                "| {} | {} | {:.0}, {:.2} | {} | {:.0}, {:.2} |",
                curve.name,
                first.size,
                first.micros,
                first.scripts,
                last.size,
                last.micros,
                last.scripts
            );
        }
    }
    table
}

fn draw(curves: &[Curve]) -> String {
    let mut drawing = Drawing::new(760.0);
    let numbers: [(&str, Pick); 2] = [
        ("Microseconds for each acquisition of them all", |one| {
            one.micros
        }),
        ("Scripts for each acquisition", |one| one.scripts),
    ];
    for (title, number) in numbers {
        let series: Vec<(String, Vec<(f64, f64)>)> = curves
            .iter()
            .map(|curve| {
                let points = curve.points.iter();
                let points = points.map(|one| (one.size as f64, number(one)));
                (curve.name.clone(), points.collect())
            })
            .collect();
        drawing.lines(&Lines {
            title,
            across: "how many",
            series: &series,
        });
    }
    drawing.svg()
}

const NAME: &str = "bench:growth";

/// So many acquisitions give a number.
const ENOUGH: usize = 100;
