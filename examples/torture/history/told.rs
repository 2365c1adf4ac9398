//! Nobody finds its hold gone before its time is over, unless its key was destroyed.

use super::{
    History, Violation,
    event::Nanos,
    spans::{Hold, Spans},
};

/// Finds holds that were told to be gone, or whose release found nothing, within their own time.
pub(crate) fn check(history: &History, spans: &Spans) -> Vec<Violation> {
    let destructions = history.destructions();
    let gone = |hold: &Hold| -> Option<Nanos> {
        let lost = hold.lost.as_ref().filter(|(_, why)| why == "Gone");
        let released = hold
            .released
            .as_ref()
            .filter(|(_, result)| result == "NotHeld");
        let at = lost.or(released)?.0;
        let is_early = at < hold.deadline;
        let excused = destructions
            .iter()
            .any(|&(began, ended)| hold.since <= ended && began <= at);
        (is_early && !excused).then_some(at)
    };
    let early = |hold: &Hold| {
        let at = gone(hold)?;
        Some(Violation {
            checker: "told",
            at,
            what: format!(
                "{}: {} {} (process {}, call {}) was gone {:.3} ms before its time was over",
                hold.names.join(","),
                hold.kind,
                hold.holder,
                hold.process,
                hold.call,
                (hold.deadline - at) as f64 / 1e6,
            ),
        })
    };
    spans.holds.iter().filter_map(early).collect()
}
