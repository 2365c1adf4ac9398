//! Nobody believes to hold what somebody else believes to hold.

use std::collections::HashMap;

use super::{
    History, Violation,
    event::Nanos,
    spans::{Hold, Spans},
};

/// Finds every two holders of a name, of whom one at least is exclusive, that believed at the same time.
///
/// Where keys were destroyed, who held then must have been told, and may overlap others until it was.
pub(crate) fn check(history: &History, spans: &Spans) -> Vec<Violation> {
    let destructions = history.destructions();
    let mut by_name: HashMap<&str, Vec<&Hold>> = HashMap::new();
    for hold in spans.holds.iter().filter(|hold| hold.since < hold.until) {
        for name in &hold.names {
            by_name.entry(name).or_default().push(hold);
        }
    }
    let mut found = Vec::new();
    for (name, mut holds) in by_name {
        holds.sort_by_key(|hold| hold.since);
        let mut believing: Vec<&Hold> = Vec::new();
        for hold in holds {
            believing.retain(|other| other.until > hold.since);
            for other in &believing {
                if other.excludes(hold) && !is_explained(other, hold.since, &destructions) {
                    found.push(overlap(name, other, hold));
                }
            }
            believing.push(hold);
        }
    }
    found
}

/// Whether the key of this hold was destroyed before then, and it was told later or let go.
fn is_explained(hold: &Hold, before: Nanos, destructions: &[(Nanos, Nanos)]) -> bool {
    let destroyed = destructions
        .iter()
        .any(|&(began, ended)| hold.since <= ended && began <= before);
    let refused = |result: &str| result != "ok";
    let told = hold.lost.is_some()
        || hold.abandoned.is_some()
        || hold
            .released
            .as_ref()
            .is_some_and(|(_, result)| refused(result));
    destroyed && told
}

fn overlap(name: &str, first: &Hold, second: &Hold) -> Violation {
    let end = first.until.min(second.until);
    Violation {
        checker: "exclusion",
        at: second.since,
        what: format!(
            "{name}: {} {} (process {}, call {}) and {} {} (process {}, call {}) both believed for {:.3} ms",
            first.kind,
            first.holder,
            first.process,
            first.call,
            second.kind,
            second.holder,
            second.process,
            second.call,
            (end - second.since) as f64 / 1e6,
        ),
    }
}
