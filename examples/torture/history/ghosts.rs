//! What was released is not in Redis any more, and does not come back: no late copy of a request, no
//! hand-over that nobody knows of.

use std::collections::HashMap;

use super::{
    History, Violation,
    event::{Event, Nanos},
    spans::Spans,
};

/// What was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    pub(crate) violations: Vec<Violation>,
    /// Holders that let go of all they had, and were looked for after that.
    pub(crate) gone: usize,
}

/// Finds holders that were seen in Redis after the last of their releases was answered with ok.
pub(crate) fn check(history: &History, spans: &Spans) -> Findings {
    let mut gone: HashMap<&str, Option<Nanos>> = HashMap::new();
    for hold in &spans.holds {
        let answered = match &hold.released {
            Some((at, result)) if result == "ok" => Some(*at),
            _ => None,
        };
        // Several locks have a holder each.
        for holder in hold.holder.split(',') {
            let known = gone.entry(base(holder)).or_insert(answered);
            // One guard of which nobody knows is enough for it to stay.
            *known = known.zip(answered).map(|(one, other)| one.max(other));
        }
    }
    gone.retain(|_, at| at.is_some());
    let mut findings = Findings {
        gone: gone.len(),
        ..Findings::default()
    };
    let mut found: HashMap<(&str, &str), Violation> = HashMap::new();
    for record in &history.driver {
        let Event::Holders {
            name,
            began,
            holders,
        } = &record.event
        else {
            continue;
        };
        for holder in &holders.0 {
            let Some(Some(released)) = gone.get(base(holder)) else {
                continue;
            };
            if began > released {
                let late = (began - released) as f64 / 1e6;
                let what = format!("{name}: {holder} was there {late:.3} ms after it was released");
                found.entry((name, holder)).or_insert(Violation {
                    checker: "ghosts",
                    at: *began,
                    what,
                });
            }
        }
    }
    findings.violations = found.into_values().collect();
    findings
}

/// The holder without what its writing adds to it.
fn base(holder: &str) -> &str {
    holder.strip_suffix(":write").unwrap_or(holder)
}
