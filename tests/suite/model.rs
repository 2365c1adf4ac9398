//! Every order of events, tried: identity, repetition and fence against a rival.
//!
//! A thread takes and releases a lock twice over a network that loses, delays and keeps what it is
//! given; a rival takes it whenever it is free. All states are visited. The model leaves out time:
//! what it shows must hold without any TTL coming to the rescue.

mod hand_over;

use std::collections::{HashSet, VecDeque};

/// How the thread protects itself; the crate does both.
#[derive(Clone, Copy)]
struct Design {
    /// A number for each hold, or one for the thread.
    number_per_hold: bool,
    /// Whether a repetition first kills the connection of the copy before it.
    fence: bool,
}

#[derive(Debug, Default)]
struct Findings {
    states: usize,
    /// States in which both believed to hold.
    both_hold: usize,
    /// Ends at which the lock stays taken by nobody.
    orphans: usize,
}

const HOLDS: u8 = 2;
const RIVAL: u8 = 99;

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    lock: Option<u8>,
    thread: Thread,
    rival_holds: bool,
    rival_turns: u8,
    connections: u8,
    /// What is under way, each connection in its order.
    wires: Vec<Wire>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Thread {
    Ready {
        hold: u8,
    },
    Waiting {
        hold: u8,
        what: What,
        tried: Vec<u8>,
    },
    Holding {
        hold: u8,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum What {
    Acquire,
    Release,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Wire {
    connection: u8,
    what: What,
    owner: u8,
    /// Killed at the server before the request runs.
    kills: Vec<u8>,
    /// The watchdog tries until it is answered: its requests do not get lost.
    reliable: bool,
}

impl Design {
    fn owner(self, hold: u8) -> u8 {
        if self.number_per_hold { hold } else { 0 }
    }

    fn kills(self, connections: &[u8]) -> Vec<u8> {
        if self.fence {
            connections.to_vec()
        } else {
            vec![]
        }
    }

    fn explore(self) -> Findings {
        let mut findings = Findings::default();
        let start = State {
            lock: None,
            thread: Thread::Ready { hold: 0 },
            rival_holds: false,
            rival_turns: 0,
            connections: 0,
            wires: vec![],
        };
        let mut seen = HashSet::from([start.clone()]);
        let mut next = VecDeque::from([start]);
        while let Some(state) = next.pop_front() {
            findings.states += 1;
            if matches!(state.thread, Thread::Holding { .. }) && state.rival_holds {
                findings.both_hold += 1;
            }
            if state.is_end() && state.lock.is_some() {
                findings.orphans += 1;
            }
            for successor in self.successors(&state) {
                if seen.insert(successor.clone()) {
                    next.push_back(successor);
                }
            }
        }
        findings
    }

    fn successors(self, state: &State) -> Vec<State> {
        let mut all = Vec::new();
        match &state.thread {
            Thread::Ready { hold } if *hold < HOLDS => {
                all.push(self.send(state, *hold, What::Acquire, vec![]));
            }
            Thread::Ready { .. } => {}
            Thread::Holding { hold } => all.push(self.send(state, *hold, What::Release, vec![])),
            Thread::Waiting { hold, what, tried } => {
                // It has waited long enough.
                all.push(if tried.len() < 2 {
                    self.send(state, *hold, *what, tried.clone())
                } else {
                    self.give_up(state, *hold, *what, tried)
                });
            }
        }
        for (place, wire) in state.wires.iter().enumerate() {
            let is_first = state.wires[..place]
                .iter()
                .all(|earlier| earlier.connection != wire.connection);
            if is_first {
                all.extend(self.run(state, place));
            }
            if !wire.reliable {
                let mut lost = state.clone();
                lost.wires.remove(place);
                all.push(lost);
            }
        }
        if state.rival_holds {
            let mut left = state.clone();
            left.rival_holds = false;
            if left.lock == Some(RIVAL) {
                left.lock = None;
            }
            all.push(left);
        } else if state.lock.is_none() && state.rival_turns < 2 {
            let mut taken = state.clone();
            taken.lock = Some(RIVAL);
            taken.rival_holds = true;
            taken.rival_turns += 1;
            all.push(taken);
        }
        all
    }

    fn send(self, state: &State, hold: u8, what: What, mut tried: Vec<u8>) -> State {
        let mut sent = state.clone();
        let connection = sent.connections;
        sent.connections += 1;
        sent.wires.push(Wire {
            connection,
            what,
            owner: self.owner(hold),
            kills: self.kills(&tried),
            reliable: false,
        });
        tried.push(connection);
        sent.thread = Thread::Waiting { hold, what, tried };
        sent
    }

    /// The caller gets an error and goes on; what it left behind is the watchdog's.
    fn give_up(self, state: &State, hold: u8, what: What, tried: &[u8]) -> State {
        let mut left = state.clone();
        let release = |connection, kills, reliable| Wire {
            connection,
            what: What::Release,
            owner: self.owner(hold),
            kills,
            reliable,
        };
        if what == What::Acquire {
            for connection in tried {
                left.wires.push(release(*connection, vec![], false));
            }
        }
        let connection = left.connections;
        left.connections += 1;
        left.wires
            .push(release(connection, self.kills(tried), true));
        left.thread = Thread::Ready { hold: hold + 1 };
        left
    }

    /// The server runs a request: its reply arrives, or is lost on the way.
    fn run(self, state: &State, place: usize) -> Vec<State> {
        let mut ran = state.clone();
        let wire = ran.wires.remove(place);
        ran.wires
            .retain(|other| !wire.kills.contains(&other.connection));
        let yes = match wire.what {
            What::Acquire => {
                let yes = ran.lock.is_none_or(|owner| owner == wire.owner);
                if yes {
                    ran.lock = Some(wire.owner);
                }
                yes
            }
            What::Release => {
                if ran.lock == Some(wire.owner) {
                    ran.lock = None;
                }
                true
            }
        };
        let mut told = ran.clone();
        let mut all = vec![ran];
        if let Thread::Waiting { hold, what, tried } = &state.thread
            && tried.last() == Some(&wire.connection)
        {
            told.thread = match what {
                What::Acquire if yes => Thread::Holding { hold: *hold },
                _ => Thread::Ready { hold: hold + 1 },
            };
            all.push(told);
        }
        all
    }
}

impl State {
    fn is_end(&self) -> bool {
        matches!(self.thread, Thread::Ready { hold: HOLDS })
            && self.wires.is_empty()
            && !self.rival_holds
    }
}

#[test]
fn as_built_nothing_breaks_and_nothing_is_left() {
    let findings = Design {
        number_per_hold: true,
        fence: true,
    }
    .explore();
    println!("{findings:?}");
    assert!(findings.states > 2_000, "{findings:?}");
    assert_eq!(
        (findings.both_hold, findings.orphans),
        (0, 0),
        "{findings:?}"
    );
}

#[test]
fn with_one_number_for_the_thread_two_hold_at_once() {
    let findings = Design {
        number_per_hold: false,
        fence: true,
    }
    .explore();
    println!("{findings:?}");
    assert!(findings.both_hold > 0, "{findings:?}");
}

#[test]
fn without_the_fence_an_orphan_stays() {
    let findings = Design {
        number_per_hold: true,
        fence: false,
    }
    .explore();
    println!("{findings:?}");
    assert_eq!(findings.both_hold, 0, "{findings:?}");
    assert!(findings.orphans > 0, "{findings:?}");
}
