//! What is written into a history: one line an event, with the moment in front of it.

use std::{
    fmt::{self, Display, Formatter},
    str::FromStr,
};

/// CLOCK_MONOTONIC, which all processes of a machine share.
pub(crate) type Nanos = u64;

/// As a wait: without end.
pub(crate) const FOR_EVER: Nanos = Nanos::MAX;

/// As the value of a counter: nobody has written it yet.
pub(crate) const UNWRITTEN: &str = "none";

/// One line of a history.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) at: Nanos,
    pub(crate) event: Event,
}

impl Display for Record {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.at, self.event)
    }
}

impl FromStr for Record {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let (at, event) = line.split_once(' ').ok_or(())?;
        Ok(Self {
            at: at.parse().map_err(|_| ())?,
            event: event.parse()?,
        })
    }
}

/// Events with their fields in the order in which they stand in a line.
macro_rules! events {
    ($($(#[$doc:meta])* $event:ident { $($field:ident: $type:ty),+ })+) => {
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) enum Event {
            $($(#[$doc])* $event { $($field: $type),+ },)+
        }

        impl Display for Event {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$event { $($field),+ } => {
                        f.write_str(stringify!($event))?;
                        $(write!(f, " {}", $field)?;)+
                        Ok(())
                    })+
                }
            }
        }

        impl FromStr for Event {
            type Err = ();

            fn from_str(line: &str) -> Result<Self, ()> {
                let mut words = line.split(' ');
                match words.next().ok_or(())? {
                    $(stringify!($event) => Ok(Self::$event {
                        $($field: words.next().ok_or(())?.parse().map_err(|_| ())?),+
                    }),)+
                    _ => Err(()),
                }
            }
        }
    };
}

events! {
    /// The id of a client of this process.
    Client { id: String }
    /// A call begins. It has a number, and its session is the number of the first call of a chain of
    /// nested ones.
    Wait { call: u64, session: u64, kind: Kind, names: Names, wait: Nanos, lease: Nanos }
    /// The call returned with a guard, which has the number of the call.
    Entered { call: u64, holder: String, left: Nanos }
    /// The call returned without one: none, or the kind of its error.
    Refused { call: u64, why: String }
    /// The guard says that it is held, and for how long still.
    Seen { call: u64, left: Nanos }
    /// The guard says that it is not held any more.
    Lost { call: u64, why: String }
    /// The counter was read; the moment is the end of it.
    Read { call: u64, name: String, began: Nanos, value: String }
    /// The counter is about to be written.
    Writing { call: u64, name: String, value: String }
    /// The counter was written, or nobody knows.
    Wrote { call: u64, name: String, value: String, known: bool }
    /// The guard is about to go: unlock, drop, forget.
    Releasing { call: u64, how: String }
    /// It went: ok, or the kind of the error.
    Released { call: u64, result: String }
    /// A figure of a process.
    Figure { what: String, number: u64 }

    /// The driver began to do something evil to somebody.
    Fault { number: u64, what: String, whom: String }
    /// It is over.
    Healed { number: u64 }
    /// The driver is about to kill a process.
    Killing { process: u64 }
    /// The driver is about to destroy all keys.
    Destroying { server: u64 }
    /// All keys are gone.
    Destroyed { server: u64 }
    /// Who held a lock in Redis, some time between the two moments.
    Holders { name: String, began: Nanos, holders: Names }
    /// What stood in the queue of a fair lock, some time between the two moments.
    Queue { name: String, began: Nanos, holders: Names }
}

/// The kind of a lock.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Kind {
    Fair,
    Lock,
    Multi,
    Read,
    Red,
    Write,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] = [
        Self::Fair,
        Self::Lock,
        Self::Multi,
        Self::Read,
        Self::Red,
        Self::Write,
    ];

    pub(crate) fn is_exclusive(self) -> bool {
        self != Self::Read
    }
}

impl Display for Kind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Fair => "fair",
            Self::Lock => "lock",
            Self::Multi => "multi",
            Self::Read => "read",
            Self::Red => "red",
            Self::Write => "write",
        })
    }
}

impl FromStr for Kind {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        let mut all = Self::ALL.into_iter();
        all.find(|kind| kind.to_string() == word).ok_or(())
    }
}

/// Several words in one, with commas between them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Names(pub Vec<String>);

impl Display for Names {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

impl FromStr for Names {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        let names = word.split(',').filter(|name| !name.is_empty());
        Ok(Self(names.map(str::to_owned).collect()))
    }
}
