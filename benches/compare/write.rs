//! The outcome as tables, printed and put into `docs/performance.md` with the picture beside it.

use std::{env, fmt::Write as _, fs, path::Path, thread, time::Duration};

use crate::{
    common::{self, Outcome, page, workload},
    picture::{self, SIDES},
    results::Results,
    targets::{self, Bound},
};

/// Prints the tables; with `--write FOLDER` puts them and the picture there too.
pub(crate) fn out(results: &Results, note: &str) -> Outcome {
    let text = format!(
        "{note}\n\n{}\n{}\n{}",
        of_targets(results),
        of_numbers(results),
        of_crowds(results)
    );
    println!("\n{text}");
    let Some(folder) = common::argument("--write")? else {
        return Ok(());
    };
    let folder = Path::new(&folder);
    fs::write(folder.join("comparison.svg"), picture::draw(results))?;
    page::put(folder, "comparison", &text)?;
    eprintln!("written to {}", folder.display());
    Ok(())
}

/// When, on what, and how it was measured.
pub(crate) fn note(server: &str, time: Duration, rounds: usize, took: Duration) -> String {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let date = env::var("LOCKSON_BENCH_DATE").unwrap_or_default();
    let load = match env::var("LOCKSON_BENCH_LOAD") {
        Ok(load) if load.parse::<f64>().is_ok_and(|load| load > 1.0) => format!(
            " **The machine was busy with other work (load average {load} when it began): these \
             figures are preliminary.**"
        ),
        Ok(load) => format!(" Load average {load} when it began."),
        Err(_) => String::new(),
    };
    format!(
        "{date}: `.ci/compare --seconds {} --rounds {rounds}` on {cores} cores, which the server and all \
         clients share, Redis {server} over the loopback interface; it took {:.0} s. Medians of \
         {rounds} rounds.{load}",
        time.as_secs_f64(),
        took.as_secs_f64()
    )
}

fn of_targets(results: &Results) -> String {
    let mut table = String::from("| target | wanted | measured | |\n|---|---:|---:|---|\n");
    for target in targets::all(results) {
        let wanted = match target.bound {
            Bound::AtLeast(bound) => format!("≥ {bound}"),
            Bound::AtMost(bound) => format!("≤ {bound}"),
        };
        let measured = target.measured.map_or_else(
            || "-".to_owned(),
            |number| match number.abs() {
                high if high >= 100.0 => format!("{number:.0}"),
                _ => format!("{number:.2}"),
            },
        );
        let verdict = match target.is_met() {
            Some(true) => "",
            Some(false) => "**missed**",
            None => "not measured",
        };
        let _ = writeln!(
            table,
            "| {} | {wanted} | {measured} | {verdict} |",
            target.what
        );
    }
    table
}

fn of_numbers(results: &Results) -> String {
    let mut table = String::from(
        "| workload | by | acquisitions/s | p50 ms | p99 ms | max ms | scripts each | least / most |\n\
         |---|---|---:|---:|---:|---:|---:|---:|\n",
    );
    let workloads = workload::ALL
        .iter()
        .map(|workload| (workload.to_string(), workload.title()));
    let others = [
        ("beside", "8 threads of ours, 1 of theirs, held 200 µs"),
        ("wake", "woken up by another process"),
    ];
    let others = others.map(|(name, title)| (name.to_owned(), title.to_owned()));
    for (name, title) in workloads.chain(others) {
        for side in SIDES {
            let Some(one) = results.median(side, &name) else {
                continue;
            };
            let millis = |wait: f64| match wait {
                0.0 => "-".to_owned(),
                _ => format!("{:.2}", wait / 1e3),
            };
            let scripts = one
                .scripts
                .map_or_else(|| "-".to_owned(), |each| format!("{each:.2}"));
            let _ = writeln!(
                table,
                "| {title} | {side} | {:.0} | {} | {} | {} | {scripts} | {:.2} |",
                one.rate,
                millis(one.p50),
                millis(one.p99),
                millis(one.max),
                one.evenness
            );
        }
    }
    table
}

fn of_crowds(results: &Results) -> String {
    let mut table = String::from("| crowd | what | |\n|---|---|---:|\n");
    for (workload, name, number) in results.crowds() {
        let what = name.replace('_', " ");
        let _ = match number {
            small if small.abs() < 10.0 => {
                writeln!(table, "| {workload} | {what} | {small:.3} |")
            }
            great => writeln!(table, "| {workload} | {what} | {great:.0} |"),
        };
    }
    table
}
