//! What is printed: a line of JSON for each workload as soon as it is known, a table at the end.

use serde_json::json;

use super::samples::{Outturn, micros};

/// One workload's numbers.
pub(crate) struct Row {
    pub(crate) workload: String,
    pub(crate) outturn: Outturn,
    /// Scripts that all clients sent, for each acquisition of them all.
    pub(crate) scripts: Option<f64>,
}

#[derive(Default)]
pub(crate) struct Report(Vec<Row>);

impl Report {
    pub(crate) fn add(&mut self, row: Row) {
        println!("{}", row.line("lockson", None));
        self.0.push(row);
    }

    /// In Markdown, so that it can be put into a document as it is.
    pub(crate) fn table(&self) {
        println!();
        println!(
            "| workload | acquisitions/s | p50 ms | p99 ms | max ms | scripts each | least share | most share |"
        );
        println!("|---|---:|---:|---:|---:|---:|---:|---:|");
        for row in &self.0 {
            let millis = |wait| format!("{:.2}", micros(wait) / 1000.0);
            let [least, most] = row.outturn.shares();
            let waits = row.outturn.waits;
            println!(
                "| {} | {:.0} | {} | {} | {} | {} | {least:.2} | {most:.2} |",
                row.workload,
                row.outturn.rate(),
                millis(waits.p50),
                millis(waits.p99),
                millis(waits.max),
                row.scripts
                    .map_or_else(|| "-".to_owned(), |each| format!("{each:.2}")),
            );
        }
    }
}

impl Row {
    /// One line of JSON.
    pub(crate) fn line(&self, side: &str, round: Option<usize>) -> String {
        let [least, most] = self.outturn.shares();
        let Outturn { time, waits, .. } = self.outturn;
        json!({
            "side": side,
            "workload": self.workload,
            "round": round,
            "seconds": time.as_secs_f64(),
            "acquisitions": self.outturn.count(),
            "per_second": self.outturn.rate(),
            "p50_us": micros(waits.p50),
            "p99_us": micros(waits.p99),
            "max_us": micros(waits.max),
            "held_us": micros(self.outturn.held),
            "scripts_per_acquisition": self.scripts,
            "least_share": least,
            "most_share": most,
        })
        .to_string()
    }
}
