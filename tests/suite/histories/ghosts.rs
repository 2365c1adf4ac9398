//! The checker of what was released.

use super::{
    history::{
        event::{Event, Kind},
        ghosts::{self, Findings},
        spans::Spans,
    },
    script::{MS, Script, assert_found},
};

#[test]
fn who_is_in_redis_after_its_release_is_found() {
    let found = look(seen(holder().release(1, 1, 50, "ok"), 60, "1:1"));
    assert_found(&found.violations, "ghosts", 1);
    let writer = look(seen(holder().release(1, 1, 50, "ok"), 60, "mode,1:1:write"));
    assert_found(&writer.violations, "ghosts", 1);
}

#[test]
fn who_was_seen_before_or_is_somebody_else_is_right() {
    let before = look(seen(holder().release(1, 1, 50, "ok"), 51, "1:1"));
    assert_found(&before.violations, "", 0);
    let other = look(seen(holder().release(1, 1, 50, "ok"), 60, "2:1"));
    assert_found(&other.violations, "", 0);
    assert_eq!((before.gone, other.gone), (1, 1));
}

#[test]
fn who_was_not_told_that_it_let_go_may_stay() {
    for result in ["Timeout", "dropped"] {
        let found = look(seen(holder().release(1, 1, 50, result), 60, "1:1"));
        assert_found(&found.violations, "", 0);
    }
    let other_guard = holder()
        .enter_as((1, 2, 1), (Kind::Lock, "a"), [20, 21, 100])
        .release(1, 1, 50, "ok");
    assert_found(&look(seen(other_guard, 60, "1:1")).violations, "", 0);
}

#[test]
fn a_member_of_several_goes_with_the_last_that_has_it() {
    let several = || {
        let (call, how) = (1, "forget".to_owned());
        let entered = Event::Entered {
            call,
            holder: "1:1,1:2".to_owned(),
            left: 100 * MS,
        };
        Script::default()
            .ask(1, 1, (Kind::Multi, "b,a"), 0)
            .note(1, 10, entered)
            .note(1, 20, Event::Releasing { call, how })
            .enter_as((1, 3, 2), (Kind::Lock, "a"), [25, 30, 100])
            .release(1, 3, 50, "ok")
    };
    assert_found(&look(seen(several(), 60, "1:2")).violations, "", 0);
    let released = several().note(
        1,
        55,
        Event::Released {
            call: 1,
            result: "ok".to_owned(),
        },
    );
    assert_found(&look(seen(released, 60, "1:2")).violations, "ghosts", 1);
}

fn holder() -> Script {
    Script::default().enter(1, 1, (Kind::Lock, "a"), [0, 10, 100])
}

fn seen(script: Script, at: u64, holders: &str) -> Script {
    let holders = Event::Holders {
        name: "a".to_owned(),
        began: at * MS - MS / 2,
        holders: holders.parse().expect("holders are words"),
    };
    script.driver(at, holders)
}

fn look(script: Script) -> Findings {
    let history = script.history();
    ghosts::check(&history, &Spans::of(&history))
}
