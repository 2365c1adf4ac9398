//! Fair locks: who was seen in the queue before somebody else asked is in before him.
//!
//! The driver looks at the queues now and then. Who stands there at one moment, and still at a later one,
//! was passed by whoever asked after the first moment and was in before the second.

use std::collections::{HashMap, HashSet};

use super::{
    History, Violation,
    event::{Event, Kind, Nanos},
    spans::{Outcome, Spans, Waiting},
};

/// What was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    pub(crate) violations: Vec<Violation>,
    /// Pairs of whom the order was known, and right.
    pub(crate) pairs: usize,
}

/// Finds live waiters that were passed.
///
/// Not looked at are those that may be passed: the dead; who would wait for less than `patience` and may
/// have been silent for so long; who had its turn, was not told so, and stands there anew when its short
/// lease is over.
pub(crate) fn check(history: &History, spans: &Spans, patience: Nanos) -> Findings {
    let mut stays = stays(history);
    let mut findings = Findings::default();
    let calls: HashMap<(u64, u64), &Waiting> = spans
        .waits
        .iter()
        .filter(|wait| wait.kind == Kind::Fair)
        .map(|wait| ((wait.process, wait.call), wait))
        .collect();
    let mut entries = Vec::new();
    let mut known = HashSet::new();
    for hold in spans.holds.iter().filter(|hold| hold.kind == Kind::Fair) {
        let Some(wait) = calls.get(&(hold.process, hold.call)) else {
            continue;
        };
        // Who has it already enters again without a place.
        if known.insert(&hold.holder) && wait.outcome == Outcome::Entered {
            entries.push((hold, *wait));
        }
    }
    for (hold, wait) in &entries {
        let place = (hold.names[0].clone(), hold.holder.clone());
        if let Some(stay) = stays.get_mut(&place) {
            stay.patient = wait.wait >= patience && wait.lease == 0;
        }
    }
    for ((name, holder), stay) in stays.iter().filter(|(_, stay)| stay.patient) {
        for (hold, wait) in &entries {
            if hold.names[0] != *name || hold.holder == *holder || wait.since < stay.first {
                continue;
            }
            if hold.since >= stay.last {
                findings.pairs += 1;
                continue;
            }
            findings.violations.push(Violation {
                checker: "order",
                at: hold.since,
                what: format!(
                    "{name}: {} (process {}, call {}) asked when {holder} was queued, and was in while it still was",
                    hold.holder, hold.process, hold.call,
                ),
            });
        }
    }
    findings
}

/// From when until when somebody was seen in a queue.
struct Stay {
    first: Nanos,
    last: Nanos,
    patient: bool,
    had_its_turn: bool,
}

fn stays(history: &History) -> HashMap<(String, String), Stay> {
    let mut stays: HashMap<(String, String), Stay> = HashMap::new();
    for record in &history.driver {
        match &record.event {
            Event::Queue {
                name,
                began,
                holders,
            } => {
                for holder in &holders.0 {
                    let stay = stays.entry((name.clone(), holder.clone())).or_insert(Stay {
                        first: record.at,
                        last: 0,
                        patient: false,
                        had_its_turn: false,
                    });
                    if !stay.had_its_turn {
                        stay.last = stay.last.max(*began);
                    }
                }
            }
            Event::Holders { name, holders, .. } => {
                for holder in &holders.0 {
                    if let Some(stay) = stays.get_mut(&(name.clone(), holder.clone())) {
                        stay.had_its_turn = true;
                    }
                }
            }
            _ => {}
        }
    }
    stays
}
