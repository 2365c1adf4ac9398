//! What the whole process logs, at every level.

use std::sync::{Mutex, Once, PoisonError};

/// From now on all is kept; called before what is to be read.
pub fn log_everything() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&LINES).expect("no other logger");
        log::set_max_level(log::LevelFilter::Trace);
    });
}

/// Reads the lines so far, those of other tests among them.
pub fn logged<T>(read: impl FnOnce(&[String]) -> T) -> T {
    read(&LINES.0.lock().unwrap_or_else(PoisonError::into_inner))
}

struct Lines(Mutex<Vec<String>>);

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = format!("{} {} {}", record.level(), record.target(), record.args());
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push(line);
    }

    fn flush(&self) {}
}

static LINES: Lines = Lines(Mutex::new(Vec::new()));
