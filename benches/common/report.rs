//! What is printed: a line of JSON for each workload as soon as it is known, a table at the end.

use std::time::Duration;

use serde_json::json;

use super::{
    contend::Contest,
    samples::{Samples, Summary},
};

/// One workload's numbers.
pub(crate) struct Row {
    pub(crate) workload: String,
    pub(crate) waits: Summary,
    pub(crate) time: Duration,
    /// Scripts that all clients sent, for each acquisition of them all.
    pub(crate) scripts: f64,
    /// The least and the most that one thread got, in parts of an equal share.
    pub(crate) shares: Option<[f64; 2]>,
}

impl Row {
    pub(crate) fn of(workload: String, contest: Contest, scripts: f64) -> Self {
        let counts = || contest.threads.iter().map(Samples::count);
        let equal = counts().sum::<usize>() as f64 / contest.threads.len() as f64;
        let least = counts().min().unwrap_or(0) as f64 / equal;
        let most = counts().max().unwrap_or(0) as f64 / equal;
        Self {
            workload,
            time: contest.time,
            scripts,
            shares: Some([least, most]),
            waits: Samples::all_of(contest.threads).summary(),
        }
    }

    fn rate(&self) -> f64 {
        self.waits.count as f64 / self.time.as_secs_f64()
    }
}

#[derive(Default)]
pub(crate) struct Report(Vec<Row>);

impl Report {
    pub(crate) fn add(&mut self, row: Row) {
        let Summary {
            count,
            p50,
            p99,
            max,
        } = row.waits;
        let line = json!({
            "workload": row.workload,
            "seconds": row.time.as_secs_f64(),
            "acquisitions": count,
            "per_second": row.rate(),
            "p50_us": micros(p50),
            "p99_us": micros(p99),
            "max_us": micros(max),
            "scripts_per_acquisition": row.scripts,
            "least_share": row.shares.map(|[least, _]| least),
            "most_share": row.shares.map(|[_, most]| most),
        });
        println!("{line}");
        self.0.push(row);
    }

    /// In Markdown, so that it can be put into a document as it is.
    pub(crate) fn table(&self) {
        println!(
            "\n| workload | acquisitions/s | p50 ms | p99 ms | max ms | scripts each | least share | most share |"
        );
        println!("|---|---:|---:|---:|---:|---:|---:|---:|");
        for row in &self.0 {
            let millis = |wait: Duration| format!("{:.2}", micros(wait) / 1000.0);
            let shares = match row.shares {
                Some([least, most]) => format!("{least:.2} | {most:.2}"),
                None => "- | -".to_owned(),
            };
            println!(
                "| {} | {:.0} | {} | {} | {} | {:.2} | {shares} |",
                row.workload,
                row.rate(),
                millis(row.waits.p50),
                millis(row.waits.p99),
                millis(row.waits.max),
                row.scripts,
            );
        }
    }
}

fn micros(wait: Duration) -> f64 {
    (wait.as_secs_f64() * 1e7).round() / 10.0
}
