//! The checker of what is left.

use super::{
    history::{
        Violation,
        event::Event,
        leftovers::{self, Remains},
    },
    script::{Script, assert_found},
};

#[test]
fn keys_channels_and_connections_are_found() {
    let remains = Remains {
        keys: vec![("a".to_owned(), Vec::new())],
        channels: vec!["redisson_lock__channel:{a}".to_owned()],
        connections: vec!["id=7".to_owned()],
    };
    assert_found(&look(process([1, 0, 0, 1000]), &remains), "leftovers", 3);
}

#[test]
fn what_a_process_did_not_end_is_found() {
    let nothing = Remains::default();
    assert_found(&look(process([1, 0, 0, 1000]), &nothing), "", 0);
    assert_found(&look(process([2, 0, 0, 1000]), &nothing), "leftovers", 1);
    assert_found(&look(process([1, 1, 0, 1000]), &nothing), "leftovers", 1);
    assert_found(&look(process([1, 0, 1, 1000]), &nothing), "leftovers", 1);
    assert_found(&look(process([1, 0, 0, 90_000]), &nothing), "leftovers", 1);
}

#[test]
fn a_process_that_says_nothing_is_found_unless_it_was_killed() {
    let silent = || Script::default().note(1, 1, Event::Client { id: "x".to_owned() });
    let nothing = Remains::default();
    assert_found(&look(silent(), &nothing), "leftovers", 4);
    assert_found(&look(silent().kill(1, 5), &nothing), "", 0);
}

#[test]
fn only_the_dead_keep_their_places() {
    let dead = || {
        Script::default()
            .note(
                1,
                1,
                Event::Client {
                    id: "dead".to_owned(),
                },
            )
            .kill(1, 5)
    };
    let queue = |holders: &[&str]| Remains {
        keys: vec![(
            "redisson_lock_queue:{fair-0}".to_owned(),
            holders.iter().map(|&one| one.to_owned()).collect(),
        )],
        ..Remains::default()
    };
    assert_found(&look(dead(), &queue(&["dead:1", "dead:7"])), "", 0);
    assert_found(&look(dead(), &queue(&["dead:1", "live:7"])), "leftovers", 1);
    assert_found(&look(dead(), &queue(&[])), "leftovers", 1);
}

/// One that ended with so many threads, sockets and waiters, and grew by so many KiB.
fn process([threads, sockets, waiters, grown]: [u64; 4]) -> Script {
    [
        ("memory-at-the-start", 5000),
        ("memory-at-the-end", 5000 + grown),
        ("waiters-at-the-end", waiters),
        ("threads-left", threads),
        ("sockets-left", sockets),
    ]
    .into_iter()
    .fold(Script::default(), |script, (what, number)| {
        let what = what.to_owned();
        script.note(1, 1, Event::Figure { what, number })
    })
}

fn look(script: Script, remains: &Remains) -> Vec<Violation> {
    leftovers::check(&script.history(), remains, 0)
}
