//! Histories: what each process wrote down while it ran, and the checkers that read it afterwards.
//!
//! Pure code. A history is a directory with one file for each process and one for the driver.

// The program and the tests of the checkers use different parts.
#![allow(dead_code)]

pub(crate) mod counter;
pub(crate) mod event;
pub(crate) mod exclusion;
pub(crate) mod ghosts;
pub(crate) mod leftovers;
pub(crate) mod liveness;
pub(crate) mod order;
pub(crate) mod spans;
pub(crate) mod told;

use std::{fs, io, path::Path};

use self::event::{Event, Nanos, Record};

/// All that was written down in one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) processes: Vec<Process>,
    pub(crate) driver: Vec<Record>,
}

/// What one process wrote down.
#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    pub(crate) number: u64,
    /// It did nothing from this moment on.
    pub(crate) killed: Option<Nanos>,
    pub(crate) records: Vec<Record>,
}

/// Something that must not be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Violation {
    pub(crate) checker: &'static str,
    pub(crate) at: Nanos,
    pub(crate) what: String,
}

impl History {
    pub(crate) const DRIVER: &str = "driver";

    pub(crate) fn file_of(process: u64) -> String {
        format!("process-{process}")
    }

    pub(crate) fn load(dir: &Path) -> io::Result<Self> {
        let mut history = Self::default();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let number = name.strip_prefix("process-").map(str::parse);
            if let Some(Ok(number)) = number {
                let records = read(&entry.path())?;
                history.add(number, records);
            } else if name == Self::DRIVER {
                history.driver = read(&entry.path())?;
            }
        }
        history.bury();
        Ok(history)
    }

    pub(crate) fn add(&mut self, number: u64, mut records: Vec<Record>) {
        // Threads of one process write as they come.
        records.sort_by_key(|record| record.at);
        self.processes.push(Process {
            number,
            killed: None,
            records,
        });
    }

    /// Notes who was killed and when, as the driver says.
    pub(crate) fn bury(&mut self) {
        for record in &self.driver {
            if let Event::Killing { process } = record.event {
                let mut all = self.processes.iter_mut();
                if let Some(dead) = all.find(|one| one.number == process) {
                    dead.killed = Some(record.at);
                }
            }
        }
    }

    /// When keys were destroyed: from the order on, to the answer.
    pub(crate) fn destructions(&self) -> Vec<(Nanos, Nanos)> {
        let mut all = Vec::new();
        let mut began = 0;
        for record in &self.driver {
            match record.event {
                Event::Destroying { .. } => began = record.at,
                Event::Destroyed { .. } => all.push((began, record.at)),
                _ => {}
            }
        }
        all
    }
}

/// The last line of a process that was killed may be incomplete.
fn read(path: &Path) -> io::Result<Vec<Record>> {
    let text = fs::read_to_string(path)?;
    let mut records = Vec::new();
    for (number, line) in text.lines().enumerate() {
        match line.parse() {
            Ok(record) => records.push(record),
            Err(()) if number + 1 == text.lines().count() => {}
            Err(()) => {
                let shown = format!("{}, line {}: {line:?}", path.display(), number + 1);
                return Err(io::Error::new(io::ErrorKind::InvalidData, shown));
            }
        }
    }
    Ok(records)
}
