//! Nobody waits for long while nobody has the lock.

use std::collections::HashMap;

use super::{
    History, Violation,
    event::{Event, Kind, Nanos},
    spans::{Hold, Outcome, Spans, Waiting},
};

/// What a wait may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The longest sleep of a waiter.
    pub(crate) cap: Nanos,
    /// The longest fault.
    pub(crate) fault: Nanos,
    /// What a machine under load, and a connection that has to be made anew, may add.
    pub(crate) slack: Nanos,
    /// How long a key lives that nobody releases, at most.
    pub(crate) lease: Nanos,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    pub(crate) violations: Vec<Violation>,
    /// The longest time for which somebody waited for what nobody had.
    pub(crate) longest: Nanos,
}

/// Finds waiters that slept on while the name was free: from the last moment at which Redis may have had
/// a hold of anybody, to the moment at which the waiter, or somebody else, was in.
///
/// A fair lock is not looked at after a process was killed: the dead keep their places for long.
pub(crate) fn check(history: &History, spans: &Spans, limits: Limits) -> Findings {
    let mut by_name: HashMap<&str, Vec<Presence>> = HashMap::new();
    for hold in &spans.holds {
        for name in &hold.names {
            by_name.entry(name).or_default().push(Presence {
                since: hold.since,
                until: present_until(hold, limits.lease),
                shared: hold.kind == Kind::Read,
            });
        }
    }
    // Who was refused or killed may have had it without knowing.
    for wait in spans.waits.iter().filter(|wait| may_have_held(wait)) {
        for name in &wait.names {
            by_name.entry(name).or_default().push(Presence {
                since: wait.until,
                until: wait.until + limits.lease,
                shared: wait.kind == Kind::Read,
            });
        }
    }
    for presences in by_name.values_mut() {
        presences.sort_by_key(|presence| presence.since);
    }
    let mut findings = Findings::default();
    for wait in &spans.waits {
        let until = wait.until.min(first_death(history, wait));
        let gap = longest_gap(wait, until, &by_name);
        findings.longest = findings.longest.max(gap.1);
        if gap.1 > limits.cap + limits.fault + limits.slack {
            findings.violations.push(Violation {
                checker: "liveness",
                at: gap.0,
                what: format!(
                    "{}: a waiter for {} (process {}, call {}) slept for {:.1} s while nobody had it",
                    wait.names.join(","),
                    wait.kind,
                    wait.process,
                    wait.call,
                    gap.1 as f64 / 1e9,
                ),
            });
        }
    }
    findings
}

/// When somebody may have been in Redis.
struct Presence {
    since: Nanos,
    until: Nanos,
    shared: bool,
}

fn present_until(hold: &Hold, lease: Nanos) -> Nanos {
    match &hold.released {
        // Of a drop nobody knows; if it failed, a fault was the reason.
        Some((at, result)) if result == "ok" || result == "dropped" => *at,
        Some((at, _)) => at + lease,
        None => hold.abandoned.unwrap_or(hold.until) + lease,
    }
}

fn may_have_held(wait: &Waiting) -> bool {
    match &wait.outcome {
        Outcome::Entered => false,
        Outcome::Refused(why) => why != "none" && why != "Cancelled",
        Outcome::Unknown => true,
    }
}

/// From when on somebody dead may stand in the queue. A new name is taken after each death: its number
/// is that of the deaths before it.
fn first_death(history: &History, wait: &Waiting) -> Nanos {
    if wait.kind != Kind::Fair {
        return Nanos::MAX;
    }
    let number = wait.names[0].rsplit('-').next();
    let deaths_before = number.and_then(|number| number.parse().ok()).unwrap_or(0);
    let mut deaths = history.driver.iter().filter_map(|record| {
        let death = matches!(record.event, Event::Killing { .. });
        death.then_some(record.at)
    });
    deaths.nth(deaths_before).unwrap_or(Nanos::MAX)
}

/// Where the longest time is for which nobody had what this one waited for, and how long.
fn longest_gap(
    wait: &Waiting,
    until: Nanos,
    by_name: &HashMap<&str, Vec<Presence>>,
) -> (Nanos, Nanos) {
    let mut others: Vec<&Presence> = wait
        .names
        .iter()
        .filter_map(|name| by_name.get(&**name))
        .flatten()
        .filter(|one| wait.kind.is_exclusive() || !one.shared)
        .filter(|one| one.until > wait.since && one.since < until)
        .collect();
    others.sort_by_key(|one| one.since);
    let (mut free_since, mut longest) = (wait.since, (wait.since, 0));
    for other in &others {
        let gap = other.since.saturating_sub(free_since);
        if gap > longest.1 {
            longest = (free_since, gap);
        }
        free_since = free_since.max(other.until);
    }
    let last = until.saturating_sub(free_since);
    if last > longest.1 {
        longest = (free_since, last);
    }
    longest
}
