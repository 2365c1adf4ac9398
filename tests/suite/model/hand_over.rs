//! Every order of events, tried: a holder hands the lock to a waiter of its client, who may have a
//! request of its own under way.
//!
//! As in the model beside it, replies and requests are lost and late, a rival takes what is free, and
//! there is no time that would come to the rescue.

use std::collections::{HashSet, VecDeque};

/// How the two protect themselves; the crate does both.
#[derive(Clone, Copy)]
struct Design {
    /// Whether nothing is handed to who may still have a request of its own under way.
    only_to_the_clean: bool,
    /// Whether a repetition first kills the connections of the copies before it.
    fence: bool,
}

#[derive(Debug, Default)]
struct Findings {
    states: usize,
    /// States in which two believed to hold.
    two_hold: usize,
    /// Ends at which the lock stays taken by nobody.
    orphans: usize,
    /// Ends at which the waiter was handed the lock.
    handed: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Who {
    Holder,
    Waiter,
    Rival,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    lock: Option<Who>,
    holder: Holder,
    waiter: Waiter,
    /// The holder is about to hand the lock to the waiter, who does not ask meanwhile.
    claimed: bool,
    handed: bool,
    rival_holds: bool,
    rival_turns: u8,
    connections: u8,
    wires: Vec<Wire>,
}

type Tried = Vec<u8>;

#[derive(Clone, PartialEq, Eq, Hash)]
enum Holder {
    Holding,
    Handing(Tried),
    Releasing(Tried),
    Done,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Waiter {
    /// Asleep, with the connections on which a request of it may still be, and how often it asked.
    Parked(Tried, u8),
    Asking(Tried, u8),
    Holding,
    Releasing(Tried),
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum What {
    /// Of the waiter.
    Acquire,
    /// From the holder to the waiter.
    HandOver,
    Release(Who),
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Wire {
    connection: u8,
    what: What,
    kills: Vec<u8>,
    /// The watchdog tries until it is answered.
    reliable: bool,
}

impl Design {
    fn explore(self) -> Findings {
        let mut findings = Findings::default();
        let start = State {
            lock: Some(Who::Holder),
            holder: Holder::Holding,
            waiter: Waiter::Parked(vec![], 0),
            claimed: false,
            handed: false,
            rival_holds: false,
            rival_turns: 0,
            connections: 0,
            wires: vec![],
        };
        let mut seen = HashSet::from([start.clone()]);
        let mut next = VecDeque::from([start]);
        while let Some(state) = next.pop_front() {
            findings.states += 1;
            let believing = [
                state.holder == Holder::Holding,
                state.waiter == Waiter::Holding,
                state.rival_holds,
            ];
            findings.two_hold += usize::from(believing.iter().filter(|&&one| one).count() > 1);
            if state.is_end() {
                findings.orphans += usize::from(state.lock.is_some());
                findings.handed += usize::from(state.handed);
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
        all.extend(self.holder_goes_on(state));
        all.extend(self.waiter_goes_on(state));
        for (place, wire) in state.wires.iter().enumerate() {
            let mut earlier = state.wires[..place].iter();
            if earlier.all(|earlier| earlier.connection != wire.connection) {
                all.extend(run(state, place));
            }
            if !wire.reliable {
                let mut lost = state.clone();
                lost.wires.remove(place);
                all.push(lost);
            }
        }
        let mut rival = state.clone();
        if state.rival_holds {
            rival.rival_holds = false;
            rival.lock = rival.lock.filter(|&who| who != Who::Rival);
            all.push(rival);
        } else if state.lock.is_none() && state.rival_turns < 2 {
            rival.lock = Some(Who::Rival);
            rival.rival_holds = true;
            rival.rival_turns += 1;
            all.push(rival);
        }
        all
    }

    fn holder_goes_on(self, state: &State) -> Option<State> {
        let mut next = state.clone();
        match &state.holder {
            Holder::Holding => match &state.waiter {
                Waiter::Parked(doubt, _) if doubt.is_empty() || !self.only_to_the_clean => {
                    next.claimed = true;
                    next.holder = Holder::Handing(self.send(&mut next, What::HandOver, &[]));
                }
                _ => {
                    let release = What::Release(Who::Holder);
                    next.holder = Holder::Releasing(self.send(&mut next, release, &[]));
                }
            },
            // It has waited long enough.
            Holder::Handing(tried) if tried.len() < 2 => {
                next.holder = Holder::Handing(self.send(&mut next, What::HandOver, tried));
            }
            Holder::Handing(tried) => {
                next.claimed = false;
                match &mut next.waiter {
                    Waiter::Parked(doubt, _) => doubt.extend(tried),
                    _ => self.leave_to_the_watchdog(&mut next, Who::Waiter, tried),
                }
                self.leave_to_the_watchdog(&mut next, Who::Holder, tried);
                next.holder = Holder::Done;
            }
            Holder::Releasing(tried) if tried.len() < 2 => {
                let release = What::Release(Who::Holder);
                next.holder = Holder::Releasing(self.send(&mut next, release, tried));
            }
            Holder::Releasing(tried) => {
                self.leave_to_the_watchdog(&mut next, Who::Holder, tried);
                next.holder = Holder::Done;
            }
            Holder::Done => return None,
        }
        Some(next)
    }

    fn waiter_goes_on(self, state: &State) -> Vec<State> {
        let mut all = Vec::new();
        let mut next = state.clone();
        match &state.waiter {
            Waiter::Parked(doubt, asked) => {
                if !state.claimed && *asked < 3 {
                    let tried = self.send(&mut next, What::Acquire, doubt);
                    next.waiter = Waiter::Asking(tried, asked + 1);
                    all.push(next);
                }
                // It gives up. Who is about to hand it the lock finds it gone.
                let mut gone = state.clone();
                gone.waiter = Waiter::Done;
                if !state.claimed && !doubt.is_empty() {
                    self.leave_to_the_watchdog(&mut gone, Who::Waiter, doubt);
                }
                all.push(gone);
                return all;
            }
            Waiter::Asking(tried, asked) => next.waiter = Waiter::Parked(tried.clone(), *asked),
            Waiter::Holding => {
                let release = What::Release(Who::Waiter);
                next.waiter = Waiter::Releasing(self.send(&mut next, release, &[]));
            }
            Waiter::Releasing(tried) if tried.len() < 2 => {
                let release = What::Release(Who::Waiter);
                next.waiter = Waiter::Releasing(self.send(&mut next, release, tried));
            }
            Waiter::Releasing(tried) => {
                self.leave_to_the_watchdog(&mut next, Who::Waiter, tried);
                next.waiter = Waiter::Done;
            }
            Waiter::Done => return all,
        }
        all.push(next);
        all
    }

    /// Sends a request, or its repetition; answers the connections that were tried then.
    fn send(self, state: &mut State, what: What, tried: &[u8]) -> Tried {
        let connection = self.write(state, what, tried, false);
        [tried, &[connection]].concat()
    }

    fn leave_to_the_watchdog(self, state: &mut State, who: Who, tried: &[u8]) {
        self.write(state, What::Release(who), tried, true);
    }

    fn write(self, state: &mut State, what: What, tried: &[u8], reliable: bool) -> u8 {
        let connection = state.connections;
        state.connections += 1;
        let kills = if self.fence { tried.to_vec() } else { vec![] };
        state.wires.push(Wire {
            connection,
            what,
            kills,
            reliable,
        });
        connection
    }
}

/// The server runs a request: its reply arrives, or is lost on the way.
fn run(state: &State, place: usize) -> Vec<State> {
    let mut ran = state.clone();
    let wire = ran.wires.remove(place);
    ran.wires
        .retain(|other| !wire.kills.contains(&other.connection));
    let before = ran.lock;
    match wire.what {
        What::Acquire if before.is_none() => ran.lock = Some(Who::Waiter),
        What::HandOver if before == Some(Who::Holder) => ran.lock = Some(Who::Waiter),
        What::Release(who) if before == Some(who) => ran.lock = None,
        _ => {}
    }
    let yes = ran.lock == Some(Who::Waiter);
    let mut told = ran.clone();
    let is_last = |tried: &Tried| tried.last() == Some(&wire.connection);
    match (wire.what, &state.holder, &state.waiter) {
        (What::Acquire, _, Waiter::Asking(tried, asked)) if is_last(tried) => {
            told.waiter = if yes {
                Waiter::Holding
            } else {
                Waiter::Parked(vec![], *asked)
            };
        }
        (What::HandOver, Holder::Handing(tried), waiter) if is_last(tried) => {
            told.holder = Holder::Done;
            told.claimed = false;
            match waiter {
                _ if !yes => {}
                Waiter::Parked(..) => {
                    told.waiter = Waiter::Holding;
                    told.handed = true;
                }
                _ => {
                    let release = What::Release(Who::Waiter);
                    let connection = told.connections;
                    told.connections += 1;
                    told.wires.push(Wire {
                        connection,
                        what: release,
                        kills: vec![],
                        reliable: true,
                    });
                }
            }
        }
        (What::Release(Who::Holder), Holder::Releasing(tried), _) if is_last(tried) => {
            told.holder = Holder::Done;
        }
        (What::Release(Who::Waiter), _, Waiter::Releasing(tried)) if is_last(tried) => {
            told.waiter = Waiter::Done;
        }
        _ => return vec![ran],
    }
    vec![ran, told]
}

impl State {
    fn is_end(&self) -> bool {
        self.holder == Holder::Done
            && self.waiter == Waiter::Done
            && self.wires.is_empty()
            && !self.rival_holds
    }
}

#[test]
fn as_built_a_hand_over_breaks_nothing_and_leaves_nothing() {
    let findings = look(true, true);
    assert!(findings.states > 2_000, "{findings:?}");
    assert!(findings.handed > 0, "{findings:?}");
    assert_eq!(
        (findings.two_hold, findings.orphans),
        (0, 0),
        "{findings:?}"
    );
}

#[test]
fn handed_to_who_has_a_request_under_way_an_orphan_stays() {
    let findings = look(false, true);
    assert_eq!(findings.two_hold, 0, "{findings:?}");
    assert!(findings.orphans > 0, "{findings:?}");
}

#[test]
fn handed_over_without_the_fence_an_orphan_stays() {
    let findings = look(true, false);
    assert!(findings.orphans > 0, "{findings:?}");
}

fn look(only_to_the_clean: bool, fence: bool) -> Findings {
    let findings = Design {
        only_to_the_clean,
        fence,
    }
    .explore();
    println!("{findings:?}");
    findings
}
