//! What the program says: line by line, and the table at the end.

use std::{fmt::Display, process::ExitCode};

/// The flaws that were shown.
#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

/// One flaw of one scheme.
pub(crate) struct Row {
    pub(crate) scheme: &'static str,
    pub(crate) flaw: &'static str,
    /// Whether it happened to the recipe.
    pub(crate) seen: bool,
    pub(crate) ours: &'static str,
    /// Whether this crate did what `ours` says.
    pub(crate) kept: bool,
}

pub(crate) fn heading(title: &str) {
    println!("\n{title}");
}

/// One line of what happens with the recipe.
pub(crate) fn recipe(line: impl Display) {
    println!("   recipe   {line}");
}

/// One line of what happens with this crate.
pub(crate) fn lockson(line: impl Display) {
    println!("   lockson  {line}");
}

impl Report {
    pub(crate) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Prints the table; a failure if a flaw did not happen, or this crate did not do what it says.
    pub(crate) fn table(&self) -> ExitCode {
        println!("\n| scheme | flaw | seen | what this crate does |");
        println!("|---|---|---|---|");
        for row in &self.rows {
            let seen = if row.seen { "yes" } else { "NO?!" };
            let kept = if row.kept { "" } else { "NOT?! " };
            println!(
                "| {} | {} | {seen} | {kept}{} |",
                row.scheme, row.flaw, row.ours
            );
        }
        if self.rows.iter().all(|row| row.seen && row.kept) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}
