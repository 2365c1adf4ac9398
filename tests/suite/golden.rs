//! Recorded steps of real Redisson, replayed by this crate.
//!
//! `tests/golden/<type>.json` says for each scenario what an actor did, what it was answered, and
//! which keys and messages the server had afterwards. `A/t1` is thread 1 of client A, and
//! `<uuid-A>:<tid-1>` the holder that it was. To replay another type of lock: its file in
//! [`FILES`], its way to a handle in [`actors::KINDS`], new verbs in [`actors::VERBS`].

mod actors;
mod observed;

use std::{thread, time::Duration};

use serde_json::Value;

use self::{
    actors::{Cast, Said},
    observed::{Messages, Names},
};
use crate::support::{Ground, Server, within};

const FILES: &[(&str, &str)] = &[("lock", include_str!("../golden/lock.json"))];

/// What cannot be replayed yet because it waits for a lock.
const LATER: &[(&str, &str)] = &[
    ("lock", "tryLock contended"),
    ("lock", "tryLock(wait,lease) success"),
    ("lock", "two waiters in one client share one subscription"),
    ("lock", "waiter acquires after lease expiry (no message)"),
    ("lock", "interrupt while waiting"),
];

/// The steps in which this crate does something else than Redisson, on purpose.
const DIFFERENCES: &[Difference] = &[Difference {
    lock_type: "lock",
    scenario: "two waiters in one client share one subscription",
    step: 6,
    instead: Instead::MessagesMayLack,
    why: "a hold that goes to a waiter of the same client needs no message",
}];

#[derive(Debug)]
struct Difference {
    lock_type: &'static str,
    scenario: &'static str,
    step: usize,
    instead: Instead,
    why: &'static str,
}

#[derive(Debug, PartialEq)]
enum Instead {
    MessagesMayLack,
}

/// What was recorded under one name.
struct Vector {
    lock_type: String,
    scenario: String,
    steps: Vec<Step>,
}

struct Step {
    actor: String,
    op: String,
    keys_after: Value,
    published: Vec<(String, String)>,
    result: Value,
}

#[test]
fn what_takes_no_time() {
    let ground = Ground::new();
    for vector in replayable().filter(|vector| !vector.takes_time()) {
        vector.replay(&ground);
    }
}

#[test]
fn what_takes_time() {
    let ground = Ground::alone();
    for vector in replayable().filter(Vector::takes_time) {
        vector.replay(&ground);
    }
}

#[test]
fn each_vector_is_replayed_or_waits_for_waiting() {
    let vectors = vectors();
    for vector in &vectors {
        assert_eq!(
            vector.is_later(),
            vector.waits_for_a_lock(),
            "{:?} is in LATER exactly if it waits",
            vector.scenario
        );
    }
    let known = |lock_type: &str, scenario: &str| {
        vectors
            .iter()
            .find(|one| one.lock_type == lock_type && one.scenario == scenario)
            .unwrap_or_else(|| panic!("no vector {scenario:?} of {lock_type:?}"))
    };
    for &(lock_type, scenario) in LATER {
        known(lock_type, scenario);
    }
    for one in DIFFERENCES {
        assert!(!one.why.is_empty());
        let step = &known(one.lock_type, one.scenario).steps[one.step];
        match one.instead {
            Instead::MessagesMayLack => assert!(!step.published.is_empty(), "{one:?}"),
        }
    }
    assert_eq!(vectors.len() - LATER.len(), replayable().count());
}

fn replayable() -> impl Iterator<Item = Vector> {
    vectors().into_iter().filter(|vector| !vector.is_later())
}

fn vectors() -> Vec<Vector> {
    let mut vectors = Vec::new();
    for (lock_type, text) in FILES {
        let file: Value = serde_json::from_str(text).expect("the recording is JSON");
        for vector in list(&file) {
            let vector = Vector::read(vector);
            assert_eq!(&vector.lock_type, lock_type, "{:?}", vector.scenario);
            vectors.push(vector);
        }
    }
    vectors
}

impl Vector {
    fn read(vector: &Value) -> Self {
        Self {
            lock_type: text(&vector["lock_type"]),
            scenario: text(&vector["scenario"]),
            steps: list(&vector["steps"]).iter().map(Step::read).collect(),
        }
    }

    fn is_later(&self) -> bool {
        LATER.contains(&(&*self.lock_type, &*self.scenario))
    }

    fn waits_for_a_lock(&self) -> bool {
        self.steps
            .iter()
            .any(|step| step.result == "pending" || step.op.starts_with("tryLockW"))
    }

    fn takes_time(&self) -> bool {
        self.steps.iter().any(|step| step.pause().is_some())
    }

    fn replay(&self, ground: &Ground) {
        let server = ground.server();
        let mut subscriber = server.connection();
        let mut messages = Messages::of(&mut subscriber);
        let mut cast = Cast::new(ground);
        let mut names = Names::default();
        for (number, step) in self.steps.iter().enumerate() {
            let at = format!(
                "{:?}, step {number}: {} {}",
                self.scenario, step.actor, step.op
            );
            let outcome = step.perform(&server, &mut cast, &mut names);
            if let Err(problem) = outcome {
                panic!("{at}: {problem}");
            }
            let published = messages.until_now(&server);
            let difference = DIFFERENCES.iter().find(|one| {
                one.scenario == self.scenario
                    && one.lock_type == self.lock_type
                    && one.step == number
            });
            let may_lack = difference.is_some_and(|one| one.instead == Instead::MessagesMayLack);
            if !(may_lack && published.is_empty()) {
                names
                    .match_messages(&step.published, &published)
                    .unwrap_or_else(|problem| panic!("{at}: {problem}"));
            }
            // A pause is as long as the recorded one at least; what it waits for may come later.
            let patience = step.pause().map_or(Duration::ZERO, |_| PATIENCE);
            let mut problem = String::new();
            within(patience, || {
                names
                    .match_keys(&step.keys_after, &observed::keys(&server))
                    .map_err(|found| problem = found)
                    .ok()
            })
            .unwrap_or_else(|| panic!("{at}: {problem}"));
        }
        // Guards that are left in hands are lost ones: they must not touch what is there.
        drop(cast);
        let last = self.steps.last().expect("a scenario has steps");
        if let Err(problem) = names.match_keys(&last.keys_after, &observed::keys(&server)) {
            panic!("{:?}, after its end: {problem}", self.scenario);
        }
        server.cli(&["FLUSHALL"]);
    }
}

impl Step {
    fn read(step: &Value) -> Self {
        Self {
            actor: text(&step["actor"]),
            op: text(&step["op"]),
            keys_after: step["keys_after"].clone(),
            published: list(&step["published"])
                .iter()
                .map(|message| (text(&message["channel"]), text(&message["payload"])))
                .collect(),
            result: step["result"].clone(),
        }
    }

    fn pause(&self) -> Option<Duration> {
        let millis = self.op.strip_prefix("wait ")?.strip_suffix("ms")?;
        Some(Duration::from_millis(millis.parse().ok()?))
    }

    fn perform(
        &self,
        server: &Server,
        cast: &mut Cast<'_>,
        names: &mut Names,
    ) -> Result<(), String> {
        if let Some(pause) = self.pause() {
            // The time that the recording let pass is part of what is replayed.
            thread::sleep(pause);
            return Ok(());
        }
        if self.actor == "raw" {
            let words: Vec<&str> = self.op.split(' ').collect();
            return observed::match_reply(&self.result, &server.cli(&words));
        }
        let answer = cast.perform(&self.actor, &self.op);
        names.learn(&self.actor, &answer);
        self.match_answer(&answer.said)
    }

    fn match_answer(&self, said: &Said) -> Result<(), String> {
        let as_recorded = match (&self.result, said) {
            (Value::Null, Said::Nothing) => true,
            (Value::Bool(recorded), Said::Truth(said)) => recorded == said,
            // What is left of a lease is as variable as the key's own TTL, which is checked.
            (Value::Number(recorded), Said::Ttl(left)) => {
                recorded.as_i64() == Some(*left) || (recorded.as_i64() > Some(0) && *left > 0)
            }
            (Value::Number(recorded), Said::Number(said)) => recorded.as_i64() == Some(*said),
            (Value::String(thrown), Said::Failed(error)) => THROWN
                .iter()
                .any(|(java, kind)| thrown.starts_with(java) && error.kind() == *kind),
            _ => false,
        };
        match as_recorded {
            true => Ok(()),
            false => Err(format!("answered {said:?}, recorded {}", self.result)),
        }
    }
}

const THROWN: &[(&str, lockson::ErrorKind)] = &[
    (
        "throws IllegalMonitorStateException",
        lockson::ErrorKind::NotHeld,
    ),
    (
        "throws RedisException WRONGTYPE",
        lockson::ErrorKind::WrongType,
    ),
];

fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("the recording has text, not {value}"))
        .to_owned()
}

fn list(value: &Value) -> &[Value] {
    value
        .as_array()
        .unwrap_or_else(|| panic!("the recording has a list, not {value}"))
}

const PATIENCE: Duration = Duration::from_secs(2);
