//! Histories as spans of time: who waited, and who believed to hold.
//!
//! A guard is believed in from the moment its call returned until the first of: its release begins, it
//! says that it is lost, its own deadline as it said last, its process is killed.

use std::collections::HashMap;

use super::{
    History, Process,
    event::{Event, Kind, Nanos, Record},
};

/// A call, from its beginning to its answer.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) process: u64,
    pub(crate) call: u64,
    pub(crate) session: u64,
    pub(crate) kind: Kind,
    pub(crate) names: Vec<String>,
    pub(crate) wait: Nanos,
    /// How long the hold lives at most, or 0.
    pub(crate) lease: Nanos,
    pub(crate) since: Nanos,
    pub(crate) until: Nanos,
    pub(crate) outcome: Outcome,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Entered,
    /// None, or an error.
    Refused(String),
    /// The process was killed, or the history ends.
    Unknown,
}

/// A guard.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) process: u64,
    pub(crate) call: u64,
    pub(crate) session: u64,
    pub(crate) kind: Kind,
    pub(crate) names: Vec<String>,
    pub(crate) holder: String,
    pub(crate) since: Nanos,
    /// The end of belief.
    pub(crate) until: Nanos,
    /// The last deadline that the guard told of, whatever came after.
    pub(crate) deadline: Nanos,
    /// The last moment at which it said that it is held.
    pub(crate) last_seen: Nanos,
    pub(crate) lost: Option<(Nanos, String)>,
    pub(crate) released: Option<(Nanos, String)>,
    /// The process or its interest in the guard ended here without an answer of Redis.
    pub(crate) abandoned: Option<Nanos>,
}

impl Hold {
    /// Whether it keeps others out who are not of its session.
    pub(crate) fn excludes(&self, other: &Self) -> bool {
        let same = self.process == other.process && self.session == other.session;
        !same && (self.kind.is_exclusive() || other.kind.is_exclusive())
    }
}

/// All spans of a history.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans {
    pub(crate) waits: Vec<Waiting>,
    pub(crate) holds: Vec<Hold>,
}

impl Spans {
    pub(crate) fn of(history: &History) -> Self {
        let mut spans = Self::default();
        let end = history.driver.last().map(|last| last.at);
        for process in &history.processes {
            let (waits, holds) = of_process(process, end);
            spans.waits.extend(waits);
            spans.holds.extend(holds);
        }
        spans.holds.sort_by_key(|hold| hold.since);
        spans
    }

    pub(crate) fn hold(&self, process: u64, call: u64) -> Option<&Hold> {
        let mut all = self.holds.iter();
        all.find(|hold| hold.process == process && hold.call == call)
    }
}

fn of_process(process: &Process, end: Option<Nanos>) -> (Vec<Waiting>, Vec<Hold>) {
    let last = || process.records.last().map(|last| last.at);
    let end = process.killed.or(end).or_else(last).unwrap_or(0);
    let mut waits: HashMap<u64, Waiting> = HashMap::new();
    let mut holds: HashMap<u64, Hold> = HashMap::new();
    let mut open: HashMap<u64, Vec<u64>> = HashMap::new();
    for Record { at, event } in &process.records {
        let at = *at;
        match event {
            Event::Wait {
                call,
                session,
                kind,
                names,
                wait,
                lease,
            } => {
                let waiting = Waiting {
                    process: process.number,
                    call: *call,
                    session: *session,
                    kind: *kind,
                    names: names.0.clone(),
                    wait: *wait,
                    lease: *lease,
                    since: at,
                    until: end.max(at),
                    outcome: Outcome::Unknown,
                };
                waits.insert(*call, waiting);
            }
            Event::Entered { call, holder, left } => {
                let Some(waiting) = waits.get_mut(call) else {
                    continue;
                };
                waiting.until = at;
                waiting.outcome = Outcome::Entered;
                open.entry(waiting.session).or_default().push(*call);
                holds.insert(*call, entered(waiting, holder, at, *left));
            }
            Event::Refused { call, why } => {
                if let Some(waiting) = waits.get_mut(call) {
                    waiting.until = at;
                    waiting.outcome = Outcome::Refused(why.clone());
                }
            }
            Event::Seen { call, left } => {
                if let Some(hold) = holds.get_mut(call) {
                    hold.deadline = at.saturating_add(*left);
                    hold.until = hold.deadline;
                    hold.last_seen = at;
                }
            }
            Event::Lost { call, why } => {
                if let Some(hold) = holds.get_mut(call) {
                    hold.until = hold.until.min(at);
                    hold.lost = Some((at, why.clone()));
                }
            }
            Event::Releasing { call, how } => {
                let Some(hold) = holds.get_mut(call) else {
                    continue;
                };
                hold.until = hold.until.min(at);
                if how == "forget" {
                    hold.abandoned = Some(at);
                }
                // A reader's deadline follows the guards that it still has: the others have to say
                // theirs anew.
                let (session, read) = (hold.session, hold.kind == Kind::Read);
                let siblings = open.entry(session).or_default();
                siblings.retain(|one| one != call);
                for sibling in siblings.iter().filter(|_| read) {
                    if let Some(sibling) = holds.get_mut(sibling) {
                        sibling.until = sibling.until.min(at);
                        sibling.deadline = sibling.deadline.min(at);
                    }
                }
            }
            Event::Released { call, result } => {
                if let Some(hold) = holds.get_mut(call) {
                    hold.released = Some((at, result.clone()));
                }
            }
            _ => {}
        }
    }
    let mut holds: Vec<Hold> = holds.into_values().collect();
    for hold in &mut holds {
        if let Some(killed) = process.killed {
            hold.until = hold.until.min(killed);
        }
        if hold.released.is_none() && hold.abandoned.is_none() {
            hold.abandoned = Some(end);
        }
        hold.until = hold.until.max(hold.since);
    }
    (waits.into_values().collect(), holds)
}

fn entered(waiting: &Waiting, holder: &str, at: Nanos, left: Nanos) -> Hold {
    Hold {
        process: waiting.process,
        call: waiting.call,
        session: waiting.session,
        kind: waiting.kind,
        names: waiting.names.clone(),
        holder: holder.to_owned(),
        since: at,
        until: at.saturating_add(left),
        deadline: at.saturating_add(left),
        last_seen: at,
        lost: None,
        released: None,
        abandoned: None,
    }
}
