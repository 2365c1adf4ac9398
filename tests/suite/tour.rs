//! The tour does what it shows, and leaves nothing.

use std::{
    io::Read,
    process::{Command, Stdio},
    time::Duration,
};

use crate::{
    interop::processes::example,
    support::{Ground, eventually, spawn_tied},
};

#[test]
fn the_tour_ends_well() {
    let ground = Ground::new();
    let mut command = Command::new(example("tour"));
    command
        .env("REDIS_URL", ground.server().url())
        .stdout(Stdio::piped());
    let mut tour = spawn_tied(command).expect("the tour can be run");
    let mut pipe = tour.stdout.take().expect("a pipe was asked for");
    let ended = eventually(BOUND, "the tour ends", || {
        tour.try_wait().expect("it is ours")
    });
    let mut said = String::new();
    pipe.read_to_string(&mut said)
        .expect("the tour writes text");
    assert!(ended.success(), "{ended}\n{said}");
    for part in [
        "a second thread waits",
        "a second process, ",
        "it was in after",
        "try_lock_for(200ms): None, after ",
        "token.cancel(): cancelled",
        "queue 3: ",
        "in the order of the queue: yes",
    ] {
        assert!(said.contains(part), "{part:?} is missing:\n{said}");
    }
    assert!(!said.contains("?!"), "{said}");
}

/// It takes three seconds on a machine with nothing else to do.
const BOUND: Duration = Duration::from_secs(60);
