//! The checker of exclusion.

use super::{
    history::{
        Violation,
        event::{Event, Kind},
        exclusion,
        spans::Spans,
    },
    script::{Script, assert_found},
};

#[test]
fn two_holders_at_the_same_time_are_found() {
    for (one, other) in [
        (Kind::Lock, Kind::Lock),
        (Kind::Lock, Kind::Fair),
        (Kind::Read, Kind::Write),
        (Kind::Write, Kind::Read),
    ] {
        let script = Script::default()
            .enter(1, 1, (one, "a"), [0, 10, 100])
            .enter(2, 1, (other, "a"), [0, 50, 100])
            .release(1, 1, 60, "ok");
        assert_found(&look(script), "exclusion", 1);
    }
}

#[test]
fn readers_and_other_names_are_no_rivals() {
    let readers = Script::default()
        .enter(1, 1, (Kind::Read, "a"), [0, 10, 100])
        .enter(2, 1, (Kind::Read, "a"), [0, 50, 100]);
    assert_found(&look(readers), "", 0);
    let names = Script::default()
        .enter(1, 1, (Kind::Lock, "a"), [0, 10, 100])
        .enter(2, 1, (Kind::Lock, "b"), [0, 50, 100]);
    assert_found(&look(names), "", 0);
}

#[test]
fn each_member_of_several_is_held() {
    let script = Script::default()
        .enter(1, 1, (Kind::Multi, "a,b"), [0, 10, 100])
        .enter(2, 1, (Kind::Lock, "b"), [0, 50, 100]);
    assert_found(&look(script), "exclusion", 1);
}

#[test]
fn who_enters_again_is_no_rival_of_itself() {
    let script = Script::default()
        .enter(1, 1, (Kind::Write, "a"), [0, 10, 100])
        .enter_as((1, 2, 1), (Kind::Read, "a"), [20, 21, 100])
        .release(1, 1, 50, "ok");
    assert_found(&look(script), "", 0);
}

#[test]
fn belief_ends_with_the_release_the_loss_the_deadline_and_the_process() {
    let holder = || Script::default().enter(1, 1, (Kind::Lock, "a"), [0, 10, 100]);
    let rival = |script: Script, at| look(script.enter(2, 1, (Kind::Lock, "a"), [0, at, 100]));
    assert_found(&rival(holder().release(1, 1, 50, "ok"), 50), "", 0);
    assert_found(&rival(holder().release(1, 1, 50, "ok"), 49), "exclusion", 1);
    assert_found(&rival(holder().lose(1, 1, 60, "Expired"), 60), "", 0);
    assert_found(
        &rival(holder().lose(1, 1, 60, "Expired"), 59),
        "exclusion",
        1,
    );
    assert_found(&rival(holder(), 110), "", 0);
    assert_found(&rival(holder(), 109), "exclusion", 1);
    assert_found(&rival(holder().see(1, 1, 80, 100), 179), "exclusion", 1);
    assert_found(&rival(holder().see(1, 1, 80, 100), 180), "", 0);
    assert_found(&rival(holder().kill(1, 70), 70), "", 0);
    assert_found(&rival(holder().kill(1, 70), 69), "exclusion", 1);
}

#[test]
fn a_readers_deadline_goes_with_the_guard_that_it_releases() {
    let reader = || {
        Script::default()
            .enter(1, 1, (Kind::Read, "a"), [0, 10, 1000])
            .enter_as((1, 2, 1), (Kind::Read, "a"), [20, 21, 990])
            .release(1, 1, 50, "ok")
    };
    let rival = |script: Script, at| look(script.enter(2, 1, (Kind::Write, "a"), [0, at, 100]));
    // Not asked since: it may be over.
    assert_found(&rival(reader(), 60), "", 0);
    assert_found(&rival(reader().see(1, 2, 52, 100), 60), "exclusion", 1);
    assert_found(&rival(reader().see(1, 2, 52, 100), 152), "", 0);
}

#[test]
fn where_keys_were_destroyed_who_held_must_be_told() {
    let destroyed = || {
        Script::default()
            .enter(1, 1, (Kind::Lock, "a"), [0, 10, 500])
            .enter(2, 1, (Kind::Lock, "a"), [0, 50, 500])
            .destroy(40)
    };
    assert_found(&look(destroyed()), "", 0);
    let told = destroyed().lose(1, 1, 90, "Gone");
    assert_found(&look(told), "", 0);
    let untold = destroyed().release(1, 1, 90, "ok");
    assert_found(&look(untold), "exclusion", 1);
    let too_late = Script::default()
        .enter(1, 1, (Kind::Lock, "a"), [0, 10, 500])
        .enter(2, 1, (Kind::Lock, "a"), [0, 50, 500])
        .lose(1, 1, 90, "Gone")
        .destroy(60);
    assert_found(&look(too_late), "exclusion", 1);
}

#[test]
fn a_guard_that_was_forgotten_is_believed_in_by_nobody() {
    let how = "forget".to_owned();
    let script = Script::default()
        .enter(1, 1, (Kind::Lock, "a"), [0, 10, 500])
        .note(1, 20, Event::Releasing { call: 1, how })
        .enter(2, 1, (Kind::Lock, "a"), [0, 30, 500]);
    assert_found(&look(script), "", 0);
}

fn look(script: Script) -> Vec<Violation> {
    let history = script.history();
    exclusion::check(&history, &Spans::of(&history))
}
