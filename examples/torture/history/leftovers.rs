//! When all have gone home, nothing is left: keys, channels, connections, threads, memory.

use std::collections::HashSet;

use super::{
    History, Violation,
    event::{Event, Nanos},
};

/// What the servers still had when all leases were over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remains {
    /// With what stands in it, if it is a queue.
    pub(crate) keys: Vec<(String, Vec<String>)>,
    pub(crate) channels: Vec<String>,
    pub(crate) connections: Vec<String>,
}

/// Finds what is left. A fair lock keeps the places of the dead until somebody has to pass them.
pub(crate) fn check(history: &History, remains: &Remains, at: Nanos) -> Vec<Violation> {
    let dead: HashSet<&str> = history
        .processes
        .iter()
        .filter(|process| process.killed.is_some())
        .flat_map(|process| &process.records)
        .filter_map(|record| match &record.event {
            Event::Client { id } => Some(&**id),
            _ => None,
        })
        .collect();
    let is_dead = |holder: &String| {
        let client = holder.rsplit_once(':').map(|(client, _)| client);
        client.is_some_and(|client| dead.contains(client))
    };
    let keys = remains
        .keys
        .iter()
        .filter(|(_, holders)| holders.is_empty() || !holders.iter().all(is_dead))
        .map(|(key, holders)| format!("the key {key} [{}]", holders.join(" ")));
    let channels = remains
        .channels
        .iter()
        .map(|one| format!("the channel {one}"));
    let connections = remains
        .connections
        .iter()
        .map(|one| format!("the connection {one}"));
    let violation = |what: String| Violation {
        checker: "leftovers",
        at,
        what,
    };
    keys.chain(channels)
        .chain(connections)
        .chain(in_processes(history))
        .map(violation)
        .collect()
}

/// What each process that was not killed said of itself in the end.
fn in_processes(history: &History) -> Vec<String> {
    let mut left = Vec::new();
    for process in history.processes.iter().filter(|one| one.killed.is_none()) {
        let figure = |name: &str| {
            process
                .records
                .iter()
                .find_map(|record| match &record.event {
                    Event::Figure { what, number } if what == name => Some(*number),
                    _ => None,
                })
        };
        let mut report = |what: String| left.push(format!("process {}: {what}", process.number));
        match figure("threads-left") {
            Some(1) => {}
            other => report(format!("threads {other:?}, not 1")),
        }
        match figure("sockets-left") {
            Some(0) => {}
            other => report(format!("sockets {other:?}, not 0")),
        }
        match figure("waiters-at-the-end") {
            Some(0) => {}
            other => report(format!("waiters {other:?}, not 0")),
        }
        let grown = figure("memory-at-the-end")
            .zip(figure("memory-at-the-start"))
            .map(|(end, start)| end.saturating_sub(start));
        if grown.is_none_or(|grown| grown > MOST_GROWTH) {
            report(format!("memory grew by {grown:?} KiB"));
        }
    }
    left
}

/// In KiB: threads, connections, scripts and buffers of a process that has just begun need some.
const MOST_GROWTH: u64 = 24 * 1024;
