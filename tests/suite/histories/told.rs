//! The checker of what holders are told.

use super::{
    history::{Violation, event::Kind, spans::Spans, told},
    script::{Script, assert_found},
};

#[test]
fn a_hold_that_is_gone_within_its_time_is_found() {
    assert_found(&look(holder().lose(1, 1, 60, "Gone")), "told", 1);
    assert_found(&look(holder().release(1, 1, 60, "NotHeld")), "told", 1);
}

#[test]
fn one_whose_time_is_over_may_be_gone() {
    assert_found(&look(holder().lose(1, 1, 60, "Expired")), "", 0);
    assert_found(&look(holder().lose(1, 1, 120, "Gone")), "", 0);
    assert_found(&look(holder().release(1, 1, 120, "NotHeld")), "", 0);
    assert_found(&look(holder().release(1, 1, 60, "Timeout")), "", 0);
}

#[test]
fn one_whose_key_was_destroyed_may_be_gone() {
    assert_found(&look(holder().destroy(50).lose(1, 1, 60, "Gone")), "", 0);
    assert_found(
        &look(holder().destroy(70).lose(1, 1, 60, "Gone")),
        "told",
        1,
    );
    assert_found(&look(holder().destroy(5).lose(1, 1, 60, "Gone")), "told", 1);
}

fn holder() -> Script {
    Script::default().enter(1, 1, (Kind::Lock, "a"), [0, 10, 100])
}

fn look(script: Script) -> Vec<Violation> {
    let history = script.history();
    told::check(&history, &Spans::of(&history))
}
