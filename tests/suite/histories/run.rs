//! A run of half a minute.

use std::{
    io::Read,
    process::{Command, Stdio},
    time::Duration,
};

use crate::{
    interop::processes::example,
    support::{Ground, eventually, spawn_tied},
};

/// The faults of this seed are of every sort that there is.
#[test]
fn half_a_minute_of_faults() {
    let _ground = Ground::alone();
    let mut command = Command::new(example("torture"));
    command
        .args(["--seconds", "30", "--seed", "7", "--red"])
        .stdout(Stdio::piped());
    let mut torture = spawn_tied(command).expect("it can be run");
    let mut pipe = torture.stdout.take().expect("a pipe was asked for");
    let ended = eventually(BOUND, "it ends", || torture.try_wait().expect("it is ours"));
    let mut said = String::new();
    pipe.read_to_string(&mut said).expect("it writes text");
    assert!(ended.success(), "{ended}\n{said}");
    assert!(said.contains("\n0 violations\n"), "{said}");
    for fault in [
        "StopWorker",
        "KillWorker",
        "StopServer",
        "RestartServer",
        "KillNormal",
        "KillPubsub",
        "Pause",
        "Cut",
        "Refuse",
        "BlackHole",
        "Swallow",
        "Drop",
        "CutReply",
        "Hold",
        "Delay",
    ] {
        assert!(
            said.contains(&format!("\nfault {fault} ")),
            "no {fault}\n{said}"
        );
    }
    let figures = said.lines().find(|line| line.starts_with("proxies: "));
    for figure in figures.expect("it tells what the proxies did").split(", ") {
        assert!(
            !figure.trim_start_matches("proxies: ").starts_with("0 "),
            "{said}"
        );
    }
    for kind in ["fair ", "lock ", "multi", "read ", "red  ", "write"] {
        let line = said.lines().find(|line| line.starts_with(kind));
        let entered = line.expect("each kind has a line").split(", ").nth(1);
        assert_ne!(entered, Some("0 entered"), "{said}");
    }
}

/// Those who wait for the last time, and the leases of the dead, come after the half minute.
const BOUND: Duration = Duration::from_secs(120);
