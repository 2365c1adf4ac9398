//! The workloads by their names: what every side of a comparison does alike.

use std::{fmt, str::FromStr, time::Duration};

/// So many threads that take and release again and again, each holding for so long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Workload {
    pub(crate) what: What,
    pub(crate) threads: usize,
    pub(crate) hold: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum What {
    /// Each thread has a name of its own.
    Distinct,
    /// All want one name.
    Hot,
    /// All want one name, by the fair lock.
    Fair,
    /// All read one name.
    Read,
    /// Of ten acquisitions of one name nine read and one writes.
    Mixed,
    /// A MultiLock of three: one thread has names of its own, several want the same three.
    Multi,
    /// A RedLock on five servers, a name for each thread.
    Red,
}

impl Workload {
    pub(crate) const fn new(what: What, threads: usize) -> Self {
        Self {
            what,
            threads,
            hold: Duration::ZERO,
        }
    }

    pub(crate) const fn holding(self, hold: Duration) -> Self {
        Self { hold, ..self }
    }

    pub(crate) fn title(&self) -> String {
        let what = match self.what {
            What::Distinct => "uncontended",
            What::Hot => "one hot name",
            What::Fair => "fair, one hot name",
            What::Read => "reading one name",
            What::Mixed => "reading 90 %, writing 10 %",
            What::Multi if self.threads == 1 => "MultiLock of 3",
            What::Multi => "MultiLock of the same 3",
            What::Red => "RedLock on 5 servers",
        };
        let threads = match self.threads {
            1 => "1 thread".to_owned(),
            several => format!("{several} threads"),
        };
        match self.hold.is_zero() {
            true => format!("{what}, {threads}"),
            false => format!("{what}, {threads}, held {} µs", self.hold.as_micros()),
        }
    }
}

/// As it stands in an order: `hot/8`, or `hot/8/200` when it is held for 200 µs.
impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = WORDS.iter().find(|(what, _)| *what == self.what);
        let word = what.map_or("?", |(_, word)| word);
        write!(f, "{word}/{}", self.threads)?;
        match self.hold.is_zero() {
            true => Ok(()),
            false => write!(f, "/{}", self.hold.as_micros()),
        }
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let mut parts = text.split('/');
            let word = parts.next()?;
            let (what, _) = WORDS.iter().find(|(_, known)| *known == word)?;
            let threads = parts.next()?.parse().ok().filter(|threads| *threads > 0)?;
            let hold = parts.next().map_or(Some(0), |hold| hold.parse().ok())?;
            let workload = Self::new(*what, threads).holding(Duration::from_micros(hold));
            parts.next().is_none().then_some(workload)
        };
        parse().ok_or_else(|| format!("no workload: {text:?}"))
    }
}

const WORDS: [(What, &str); 7] = [
    (What::Distinct, "distinct"),
    (What::Hot, "hot"),
    (What::Fair, "fair"),
    (What::Read, "read"),
    (What::Mixed, "mixed"),
    (What::Multi, "multi"),
    (What::Red, "red"),
];

/// How long a name is held where it is held at all: short, but longer than a round trip.
pub(crate) const SHORT_HOLD: Duration = Duration::from_micros(200);

/// All of them.
pub(crate) const ALL: [Workload; 19] = [
    Workload::new(What::Distinct, 1),
    Workload::new(What::Distinct, 4),
    Workload::new(What::Distinct, 16),
    Workload::new(What::Distinct, 64),
    Workload::new(What::Hot, 2),
    Workload::new(What::Hot, 8),
    Workload::new(What::Hot, 32),
    Workload::new(What::Hot, 2).holding(SHORT_HOLD),
    Workload::new(What::Hot, 8).holding(SHORT_HOLD),
    Workload::new(What::Hot, 32).holding(SHORT_HOLD),
    Workload::new(What::Fair, 2),
    Workload::new(What::Fair, 8),
    Workload::new(What::Fair, 32),
    Workload::new(What::Read, 8),
    Workload::new(What::Mixed, 8),
    Workload::new(What::Multi, 1),
    Workload::new(What::Multi, 8),
    Workload::new(What::Red, 1),
    Workload::new(What::Red, 8),
];
