//! Histories as text, in milliseconds, as the tests of the checkers write them.

use super::history::{
    History, Violation,
    event::{Event, Kind, Names, Nanos, Record},
};

/// A history in the making.
#[derive(Default)]
pub(super) struct Script {
    processes: Vec<Vec<Record>>,
    driver: Vec<Record>,
}

pub(super) const MS: Nanos = 1_000_000;

impl Script {
    /// Adds an event of a process, the first of which is 1.
    pub(super) fn note(mut self, process: usize, ms: u64, event: Event) -> Self {
        if self.processes.len() < process {
            self.processes.resize(process, Vec::new());
        }
        let at = ms * MS;
        self.processes[process - 1].push(Record { at, event });
        self
    }

    pub(super) fn driver(mut self, ms: u64, event: Event) -> Self {
        let at = ms * MS;
        self.driver.push(Record { at, event });
        self
    }

    /// A call that gets its guard; the holder is `process:call`.
    pub(super) fn enter(
        self,
        process: usize,
        call: u64,
        lock: (Kind, &str),
        when: [u64; 3],
    ) -> Self {
        self.enter_as((process, call, call), lock, when)
    }

    /// As [`enter`](Self::enter), of a session. `when` it asks, when it is in, and how long it may stay.
    pub(super) fn enter_as(
        self,
        (process, call, session): (usize, u64, u64),
        lock: (Kind, &str),
        [since, at, left]: [u64; 3],
    ) -> Self {
        let entered = Event::Entered {
            call,
            holder: format!("{process}:{session}"),
            left: left * MS,
        };
        self.ask_as((process, call, session), lock, since)
            .note(process, at, entered)
    }

    pub(super) fn ask(self, process: usize, call: u64, lock: (Kind, &str), since: u64) -> Self {
        self.ask_as((process, call, call), lock, since)
    }

    fn ask_as(
        self,
        (process, call, session): (usize, u64, u64),
        (kind, names): (Kind, &str),
        since: u64,
    ) -> Self {
        let wait = Event::Wait {
            call,
            session,
            kind,
            names: names.parse().expect("names are words"),
            wait: Nanos::MAX,
            lease: 0,
        };
        self.note(process, since, wait)
    }

    pub(super) fn see(self, process: usize, call: u64, at: u64, left: u64) -> Self {
        let left = left * MS;
        self.note(process, at, Event::Seen { call, left })
    }

    pub(super) fn lose(self, process: usize, call: u64, at: u64, why: &str) -> Self {
        let why = why.to_owned();
        self.note(process, at, Event::Lost { call, why })
    }

    /// Begins to release and has done so a millisecond later.
    pub(super) fn release(self, process: usize, call: u64, at: u64, result: &str) -> Self {
        let releasing = Event::Releasing {
            call,
            how: "unlock".to_owned(),
        };
        let released = Event::Released {
            call,
            result: result.to_owned(),
        };
        self.note(process, at, releasing)
            .note(process, at + 1, released)
    }

    pub(super) fn read(self, process: usize, call: u64, at: u64, value: &str) -> Self {
        let read = Event::Read {
            call,
            name: "a".to_owned(),
            began: at * MS - MS / 2,
            value: value.to_owned(),
        };
        self.note(process, at, read)
    }

    /// Begins to write and knows so a millisecond later; or never.
    pub(super) fn write(
        self,
        process: usize,
        call: u64,
        at: u64,
        value: &str,
        known: bool,
    ) -> Self {
        let (name, value) = ("a".to_owned(), value.to_owned());
        let writing = Event::Writing {
            call,
            name: name.clone(),
            value: value.clone(),
        };
        let wrote = Event::Wrote {
            call,
            name,
            value,
            known,
        };
        self.note(process, at, writing).note(process, at + 1, wrote)
    }

    pub(super) fn kill(self, process: u64, at: u64) -> Self {
        self.driver(at, Event::Killing { process })
    }

    pub(super) fn destroy(self, at: u64) -> Self {
        self.driver(at, Event::Destroying { server: 0 })
            .driver(at + 1, Event::Destroyed { server: 0 })
    }

    pub(super) fn queue(self, at: u64, name: &str, holders: &str) -> Self {
        let queue = Event::Queue {
            name: name.to_owned(),
            began: at * MS - MS / 2,
            holders: holders.parse().expect("holders are words"),
        };
        self.driver(at, queue)
    }

    /// As if it were read from files: each line is written and read once.
    pub(super) fn history(self) -> History {
        let again = |record: Record| -> Record {
            let line = record.to_string();
            line.parse()
                .unwrap_or_else(|()| panic!("it reads {line:?}"))
        };
        let mut history = History::default();
        for (number, records) in self.processes.into_iter().enumerate() {
            history.add(number as u64 + 1, records.into_iter().map(again).collect());
        }
        history.driver = self.driver.into_iter().map(again).collect();
        history.bury();
        history
    }
}

/// Those violations are all of this checker, and so many.
#[track_caller]
pub(super) fn assert_found(found: &[Violation], checker: &str, number: usize) {
    let rightly = found.iter().all(|one| one.checker == checker);
    assert!(
        rightly && found.len() == number,
        "{number} × {checker}: {found:#?}"
    );
}

#[test]
fn an_empty_list_of_names_is_no_names() {
    let record = Record {
        at: 7,
        event: Event::Queue {
            name: "a".to_owned(),
            began: 5,
            holders: Names::default(),
        },
    };
    assert_eq!(record.to_string().parse(), Ok(record));
}
