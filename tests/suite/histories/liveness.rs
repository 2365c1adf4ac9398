//! The checker of sleepers.

use super::{
    history::{
        event::{Event, Kind},
        liveness::{self, Findings, Limits},
        spans::Spans,
    },
    script::{MS, Script, assert_found},
};

#[test]
fn who_sleeps_while_the_name_is_free_is_found() {
    let script = holder()
        .release(1, 1, 100, "ok")
        .enter(2, 1, (Kind::Lock, "a"), [50, 8102, 100]);
    let found = look(script);
    assert_found(&found.violations, "liveness", 1);
    assert_eq!(found.longest, 8001 * MS);
}

#[test]
fn who_wakes_in_time_is_right() {
    let script = holder()
        .release(1, 1, 100, "ok")
        .enter(2, 1, (Kind::Lock, "a"), [50, 8100, 100]);
    assert_found(&look(script).violations, "", 0);
}

#[test]
fn who_never_comes_back_is_found() {
    let script = holder()
        .release(1, 1, 100, "ok")
        .ask(2, 1, (Kind::Lock, "a"), 50)
        .driver(9000, Event::Healed { number: 1 });
    assert_found(&look(script).violations, "liveness", 1);
}

#[test]
fn others_may_be_first() {
    let script = holder()
        .release(1, 1, 100, "ok")
        .enter(3, 1, (Kind::Lock, "a"), [50, 5000, 100])
        .release(3, 1, 5050, "ok")
        .enter(2, 1, (Kind::Lock, "a"), [50, 10_000, 100]);
    assert_found(&look(script).violations, "", 0);
}

#[test]
fn what_nobody_released_lives_for_its_lease() {
    let waiter =
        |script: Script, at| look(script.enter(2, 1, (Kind::Lock, "a"), [50, at, 100])).violations;
    let killed = || holder().kill(1, 100);
    assert_found(&waiter(killed(), 9100), "", 0);
    assert_found(&waiter(killed(), 9101), "liveness", 1);
    let unanswered = || holder().release(1, 1, 100, "Timeout");
    assert_found(&waiter(unanswered(), 9101), "", 0);
    assert_found(&waiter(unanswered(), 9102), "liveness", 1);
}

#[test]
fn readers_do_not_keep_readers_out() {
    let waiter = |kind| {
        let script = Script::default()
            .enter(1, 1, (Kind::Read, "a"), [0, 10, 500])
            .see(1, 1, 9000, 500)
            .release(1, 1, 9100, "ok")
            .enter(2, 1, (kind, "a"), [50, 9200, 100]);
        look(script).violations
    };
    assert_found(&waiter(Kind::Write), "", 0);
    assert_found(&waiter(Kind::Read), "liveness", 1);
}

#[test]
fn several_are_free_when_all_are() {
    let script = Script::default()
        .enter(1, 1, (Kind::Lock, "b"), [0, 10, 500])
        .release(1, 1, 5000, "ok")
        .enter(2, 1, (Kind::Multi, "a,b"), [0, 9000, 100]);
    assert_found(&look(script).violations, "", 0);
}

#[test]
fn behind_the_dead_a_fair_waiter_waits_for_long() {
    let waiter = |name: &str| {
        let script = Script::default()
            .ask(1, 1, (Kind::Fair, name), 0)
            .kill(1, 2000)
            .enter(2, 1, (Kind::Fair, name), [100, 12_000, 100]);
        look(script).violations
    };
    assert_found(&waiter("fair-0"), "", 0);
    // A name that is in use since one has died: the next death is not there.
    assert_found(&waiter("fair-1"), "liveness", 1);
}

/// In at 10.
fn holder() -> Script {
    Script::default().enter(1, 1, (Kind::Lock, "a"), [0, 10, 500])
}

fn look(script: Script) -> Findings {
    let history = script.history();
    let limits = Limits {
        cap: 3000 * MS,
        fault: 2500 * MS,
        slack: 2500 * MS,
        lease: 1000 * MS,
    };
    liveness::check(&history, &Spans::of(&history), limits)
}
