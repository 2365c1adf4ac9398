//! Counters read and written under a lock: who reads sees what the last holder wrote.
//!
//! A read or write counts as *sure* when it was answered within the belief of its guard. One that was
//! not may have run later, under somebody else's hold: its holder knew that its time was over, and what
//! it did is explained. Every value is written once only, so that each read tells whose write it saw.

use std::collections::HashMap;

use super::{
    History, Violation,
    event::{Event, Nanos, Record, UNWRITTEN},
    spans::{Hold, Spans},
};

/// What was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    pub(crate) violations: Vec<Violation>,
    /// Writes that were sure.
    pub(crate) sure: usize,
    /// Reads that saw what a holder wrote whose time was over, or might have been.
    pub(crate) explained: usize,
}

/// Finds updates that were lost although their holder was sure of its hold.
pub(crate) fn check(history: &History, spans: &Spans) -> Findings {
    let mut counters: HashMap<String, Counter> = HashMap::new();
    for process in &history.processes {
        let holds: HashMap<u64, &Hold> = spans
            .holds
            .iter()
            .filter(|hold| hold.process == process.number)
            .map(|hold| (hold.call, hold))
            .collect();
        for record in &process.records {
            note(&mut counters, &holds, process.number, record);
        }
    }
    let destructions = history.destructions();
    let mut findings = Findings::default();
    for (name, counter) in counters {
        counter.look(&name, &destructions, &mut findings);
    }
    findings
}

#[derive(Default)]
struct Counter {
    /// By value: when it was sure to be written, if it was.
    writes: HashMap<String, Option<Nanos>>,
    reads: Vec<Read>,
}

struct Read {
    began: Nanos,
    at: Nanos,
    who: (u64, u64),
    session: u64,
    value: String,
}

fn note(
    counters: &mut HashMap<String, Counter>,
    holds: &HashMap<u64, &Hold>,
    process: u64,
    record: &Record,
) {
    let at = record.at;
    let within = |call: &u64| {
        let hold = holds.get(call);
        hold.is_some_and(|hold| at <= hold.until)
    };
    match &record.event {
        Event::Read {
            call,
            name,
            began,
            value,
        } if within(call) => {
            let reads = &mut counters.entry(name.clone()).or_default().reads;
            reads.push(Read {
                began: *began,
                at,
                who: (process, *call),
                session: holds[call].session,
                value: value.clone(),
            });
        }
        Event::Writing { name, value, .. } => {
            let counter = counters.entry(name.clone()).or_default();
            counter.writes.entry(value.clone()).or_insert(None);
        }
        Event::Wrote {
            call,
            name,
            value,
            known: true,
        } if within(call) => {
            let counter = counters.entry(name.clone()).or_default();
            counter.writes.insert(value.clone(), Some(at));
        }
        _ => {}
    }
}

impl Counter {
    fn look(mut self, name: &str, destructions: &[(Nanos, Nanos)], findings: &mut Findings) {
        self.reads.sort_by_key(|read| read.began);
        let mut sure: Vec<(Nanos, &str)> = self
            .writes
            .iter()
            .filter_map(|(value, at)| Some(((*at)?, &**value)))
            .collect();
        sure.sort_unstable();
        findings.sure += sure.len();
        let mut seen: HashMap<(u64, u64), &str> = HashMap::new();
        for read in &self.reads {
            let before = sure.partition_point(|(at, _)| *at <= read.began);
            let (since, expected) = before
                .checked_sub(1)
                .map_or((0, UNWRITTEN), |last| sure[last]);
            let destroyed = destructions
                .iter()
                .any(|&(began, ended)| since <= ended && began <= read.at);
            let trouble = match self.writes.get(&read.value) {
                _ if read.value == expected => None,
                Some(None) => {
                    findings.explained += 1;
                    None
                }
                // Written while it was read: two who believed, which is the business of another checker.
                Some(Some(at)) if *at > since => None,
                None if read.value == UNWRITTEN && destroyed => None,
                _ => Some(format!(
                    "saw {} although {expected} was written",
                    read.value
                )),
            };
            let own = format!("{}.{}.", read.who.0, read.session);
            let last = seen.insert(read.who, &read.value);
            let changed = last.filter(|last| *last != read.value);
            let sure_change = matches!(self.writes.get(&read.value), Some(Some(_)));
            let changed = changed.filter(|_| sure_change && !read.value.starts_with(&own));
            let changed = changed.map(|last| format!("saw {last}, then {}", read.value));
            if let Some(what) = trouble.or(changed) {
                findings.violations.push(Violation {
                    checker: "counter",
                    at: read.at,
                    what: format!("{name}: process {}, call {} {what}", read.who.0, read.who.1),
                });
            }
        }
    }
}
