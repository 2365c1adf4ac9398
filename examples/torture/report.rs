//! What happened, in figures, and what must not have.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    clock::nanos,
    history::{
        History, counter,
        event::Kind,
        exclusion, ghosts,
        leftovers::{self, Remains},
        liveness::{self, Limits},
        order,
        spans::{Outcome, Spans},
        told,
    },
    schedule::{self, What},
    support::Proxy,
    worker::LONGEST_LEASE,
};

/// Prints how often what was done.
pub(crate) fn faults(done: &BTreeMap<What, usize>, proxies: &[Proxy]) {
    for (what, times) in done {
        println!("fault {what} {times}");
    }
    let sum = |count: fn(&Proxy) -> usize| proxies.iter().map(count).sum::<usize>();
    println!(
        "proxies: {} replies swallowed, {} requests dropped, {} cut, {} held, {} messages late, {} lost, {} connections refused, {} accepted",
        sum(Proxy::swallowed),
        sum(Proxy::dropped),
        sum(Proxy::cuts),
        sum(Proxy::held),
        sum(Proxy::delayed),
        sum(Proxy::lost),
        sum(Proxy::refused),
        sum(Proxy::accepted),
    );
}

/// Has all checkers look, prints what they find, and says whether that was nothing.
pub(crate) fn findings(history: &History, remains: Option<&Remains>, trouble: &[String]) -> bool {
    let spans = Spans::of(history);
    figures(&spans);
    let limits = Limits {
        cap: nanos(Duration::from_secs(3)),
        fault: nanos(schedule::LONGEST),
        slack: nanos(Duration::from_secs(3)),
        // A writer that enters again adds to its lease.
        lease: nanos(LONGEST_LEASE * 2),
    };
    let counter = counter::check(history, &spans);
    let ghosts = ghosts::check(history, &spans);
    let order = order::check(history, &spans, nanos(PATIENT));
    let liveness = liveness::check(history, &spans, limits);
    println!(
        "counters: {} sure writes, {} reads after a write of somebody whose time was over",
        counter.sure, counter.explained,
    );
    println!(
        "ghosts: {} holders were gone when they had released all",
        ghosts.gone
    );
    println!(
        "order: {} pairs of fair waiters were in the order of the queue",
        order.pairs
    );
    println!(
        "liveness: the longest wait for what nobody had took {:.2} s",
        liveness.longest as f64 / 1e9,
    );
    let end = history.driver.last().map_or(0, |last| last.at);
    let mut violations = exclusion::check(history, &spans);
    violations.extend(told::check(history, &spans));
    violations.extend(counter.violations);
    violations.extend(ghosts.violations);
    violations.extend(order.violations);
    violations.extend(liveness.violations);
    if let Some(remains) = remains {
        violations.extend(leftovers::check(history, remains, end));
    }
    violations.sort_by_key(|violation| violation.at);
    for violation in violations.iter().take(SHOWN) {
        println!(
            "VIOLATION {} at {}: {}",
            violation.checker, violation.at, violation.what
        );
    }
    for what in trouble {
        println!("VIOLATION process: {what}");
    }
    println!("{} violations", violations.len() + trouble.len());
    violations.is_empty() && trouble.is_empty()
}

fn figures(spans: &Spans) {
    for kind in Kind::ALL {
        let waits = || spans.waits.iter().filter(move |wait| wait.kind == kind);
        let holds = || spans.holds.iter().filter(move |hold| hold.kind == kind);
        let count = |outcome: &dyn Fn(&Outcome) -> bool| {
            waits().filter(|wait| outcome(&wait.outcome)).count()
        };
        let refused = |why: &Outcome, none: bool| match why {
            Outcome::Refused(why) => (why == "none") == none,
            _ => false,
        };
        println!(
            "{kind:5}: {} calls, {} entered, {} refused, {} failed or cancelled, {} cut off; {} told of a loss",
            waits().count(),
            count(&|outcome| *outcome == Outcome::Entered),
            count(&|outcome| refused(outcome, true)),
            count(&|outcome| refused(outcome, false)),
            count(&|outcome| *outcome == Outcome::Unknown),
            holds().filter(|hold| hold.lost.is_some()).count(),
        );
    }
}

/// Who waits for so long is not passed in a queue, whatever happens to it.
const PATIENT: Duration = Duration::from_secs(20);
const SHOWN: usize = 40;
