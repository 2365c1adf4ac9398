//! Writes a history, so that a killed process has written all that it did.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
};

use crate::{
    clock,
    history::event::{Event, Nanos, Record},
};

/// A history that is being written, by any thread of a process.
pub(crate) struct Pen(File);

impl Pen {
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        File::options()
            .create(true)
            .append(true)
            .open(path)
            .map(Self)
    }

    /// Notes that it happens now.
    pub(crate) fn note(&self, event: Event) {
        self.note_at(clock::now(), event);
    }

    pub(crate) fn note_at(&self, at: Nanos, event: Event) {
        let line = format!("{}\n", Record { at, event });
        // One write: lines of several threads do not mix, and nothing is lost with the process.
        (&self.0)
            .write_all(line.as_bytes())
            .expect("the history can be written");
    }
}
