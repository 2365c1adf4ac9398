//! The checker of the order of a fair lock.

use super::{
    history::{
        event::{Event, Kind},
        order::{self, Findings},
        spans::Spans,
    },
    script::{MS, Script, assert_found},
};

#[test]
fn a_waiter_that_was_passed_is_found() {
    let found = look(passed());
    assert_found(&found.violations, "order", 1);
}

#[test]
fn who_came_in_its_turn_is_right() {
    let script = Script::default()
        .enter(1, 1, (Kind::Fair, "fair-0"), [0, 50, 100])
        .queue(20, "fair-0", "1:1")
        .enter(2, 1, (Kind::Fair, "fair-0"), [30, 80, 100])
        .queue(40, "fair-0", "1:1,2:1")
        .queue(70, "fair-0", "2:1");
    let found = look(script);
    assert_found(&found.violations, "", 0);
    assert_eq!(found.pairs, 1);
}

#[test]
fn who_asked_before_the_other_was_seen_may_be_first() {
    let script = Script::default()
        .enter(1, 1, (Kind::Fair, "fair-0"), [0, 90, 100])
        .enter(2, 1, (Kind::Fair, "fair-0"), [10, 50, 100])
        .queue(20, "fair-0", "2:1,1:1")
        .queue(70, "fair-0", "1:1");
    assert_found(&look(script).violations, "", 0);
}

#[test]
fn the_dead_may_be_passed() {
    let script = Script::default()
        .ask(1, 1, (Kind::Fair, "fair-0"), 0)
        .queue(20, "fair-0", "1:1")
        .enter(2, 1, (Kind::Fair, "fair-0"), [30, 50, 100])
        .queue(70, "fair-0", "1:1")
        .kill(1, 25);
    assert_found(&look(script).violations, "", 0);
}

#[test]
fn who_has_it_already_passes_nobody() {
    let script = passed_by((2, 2, 9), |script| {
        script.enter_as((2, 1, 9), (Kind::Fair, "fair-0"), [1, 2, 300])
    });
    assert_found(&look(script).violations, "", 0);
}

#[test]
fn who_had_its_turn_and_was_not_told_may_be_passed() {
    let holders = Event::Holders {
        name: "fair-0".to_owned(),
        began: 40 * MS,
        holders: "1:1".parse().expect("holders are words"),
    };
    let script = Script::default()
        .enter(1, 1, (Kind::Fair, "fair-0"), [0, 90, 100])
        .queue(20, "fair-0", "1:1")
        .driver(40, holders)
        .enter(2, 1, (Kind::Fair, "fair-0"), [30, 50, 100])
        .queue(70, "fair-0", "1:1");
    assert_found(&look(script).violations, "", 0);
}

fn passed() -> Script {
    passed_by((2, 1, 1), |script| script)
}

fn passed_by(who: (usize, u64, u64), first: impl FnOnce(Script) -> Script) -> Script {
    first(Script::default())
        .enter(1, 1, (Kind::Fair, "fair-0"), [0, 90, 100])
        .queue(20, "fair-0", "1:1")
        .enter_as(who, (Kind::Fair, "fair-0"), [30, 50, 100])
        .queue(70, "fair-0", "1:1")
}

fn look(script: Script) -> Findings {
    let history = script.history();
    order::check(&history, &Spans::of(&history), 20_000 * MS)
}
