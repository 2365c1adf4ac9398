//! The checker of counters.

use super::{
    history::{
        counter::{self, Findings},
        event::{Kind, UNWRITTEN},
        spans::Spans,
    },
    script::{Script, assert_found},
};

#[test]
fn an_update_that_was_lost_is_found() {
    let script = two_holders()
        .read(1, 1, 20, UNWRITTEN)
        .write(1, 1, 30, "1.1.1", true)
        .read(2, 1, 130, UNWRITTEN);
    assert_found(&look(script).violations, "counter", 1);
}

#[test]
fn one_that_was_seen_is_right() {
    let script = two_holders()
        .read(1, 1, 20, UNWRITTEN)
        .write(1, 1, 30, "1.1.1", true)
        .read(2, 1, 130, "1.1.1")
        .write(2, 1, 140, "2.1.1", true);
    let found = look(script);
    assert_found(&found.violations, "", 0);
    assert_eq!((found.sure, found.explained), (2, 0));
}

#[test]
fn a_write_whose_holder_was_over_explains_what_is_seen_after_it() {
    // Answered after its time: it ran when another had written already.
    let script = Script::default()
        .enter(1, 1, (Kind::Lock, "a"), [0, 10, 30])
        .read(1, 1, 20, UNWRITTEN)
        .write(1, 1, 30, "1.1.1", false)
        .enter(2, 1, (Kind::Lock, "a"), [0, 50, 100])
        .write(2, 1, 60, "2.1.1", true)
        .enter(3, 1, (Kind::Lock, "a"), [0, 200, 100])
        .read(3, 1, 210, "1.1.1");
    let found = look(script);
    assert_found(&found.violations, "", 0);
    assert_eq!((found.sure, found.explained), (1, 1));
}

#[test]
fn a_read_by_somebody_whose_time_was_over_says_nothing() {
    let script = two_holders()
        .write(1, 1, 30, "1.1.1", true)
        .read(2, 1, 250, UNWRITTEN);
    assert_found(&look(script).violations, "", 0);
}

#[test]
fn a_value_that_nobody_wrote_is_found() {
    let script = two_holders().read(1, 1, 20, "9.9.9");
    assert_found(&look(script).violations, "counter", 1);
}

#[test]
fn a_value_that_changes_under_a_reader_is_found() {
    let reader = |value| {
        let script = Script::default()
            .enter(1, 1, (Kind::Read, "a"), [0, 10, 100])
            .enter(2, 1, (Kind::Write, "a"), [0, 12, 100])
            .read(1, 1, 20, UNWRITTEN)
            .write(2, 1, 30, "2.1.1", true)
            .read(1, 1, 40, value);
        look(script).violations
    };
    assert_found(&reader("2.1.1"), "counter", 1);
    // It did not see it: then its own write was lost for it, which is as bad.
    assert_found(&reader(UNWRITTEN), "counter", 1);
}

#[test]
fn what_a_session_writes_itself_may_change() {
    let script = Script::default()
        .enter(1, 1, (Kind::Lock, "a"), [0, 10, 100])
        .enter_as((1, 2, 1), (Kind::Lock, "a"), [11, 12, 100])
        .read(1, 1, 20, UNWRITTEN)
        .write(1, 2, 30, "1.1.5", true)
        .read(1, 1, 40, "1.1.5");
    assert_found(&look(script).violations, "", 0);
}

#[test]
fn a_counter_that_was_destroyed_begins_anew() {
    let read = |destroyed_at| {
        let script = two_holders()
            .write(1, 1, 30, "1.1.1", true)
            .read(2, 1, 130, UNWRITTEN)
            .destroy(destroyed_at);
        look(script).violations
    };
    assert_found(&read(120), "", 0);
    assert_found(&read(10), "counter", 1);
}

/// The first until 110, the second from 120 to 220.
fn two_holders() -> Script {
    Script::default()
        .enter(1, 1, (Kind::Lock, "a"), [0, 10, 100])
        .enter(2, 1, (Kind::Lock, "a"), [0, 120, 100])
}

fn look(script: Script) -> Findings {
    let history = script.history();
    counter::check(&history, &Spans::of(&history))
}
