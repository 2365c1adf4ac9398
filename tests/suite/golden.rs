//! Recorded steps of real Redisson, replayed by this crate.
//!
//! `tests/golden/*.json` say for each scenario what an actor did, what it was answered, and
//! which keys and messages the server had afterwards. `A/t1` is thread 1 of client A, and
//! `<uuid-A>:<tid-1>` the holder that it was. To replay another type of lock: its file in
//! [`FILES`], its way to a handle in [`actors::KINDS`], new verbs in [`actors::VERBS`].

mod actors;
mod differences;
mod faces;
mod observed;
mod stage;

use std::{fmt, thread, time::Duration};

use serde_json::Value;

use self::{
    actors::{Cast, Said},
    differences::{ALSO_TOLD, DIFFERENCES, Instead},
    observed::Names,
    stage::{Messages, Stage},
};
use crate::support::{Ground, Server, within};

/// Each with the types in it.
const FILES: &[(&[&str], &str)] = &[
    (&["lock"], include_str!("../golden/lock.json")),
    (&["fair"], include_str!("../golden/fair.json")),
    (
        &["read", "readwrite", "write"],
        include_str!("../golden/read_write.json"),
    ),
    (&["multi"], include_str!("../golden/multi.json")),
    (&["red"], include_str!("../golden/red.json")),
];

/// What was recorded under one name.
struct Vector {
    lock_type: String,
    scenario: String,
    /// How many there are.
    servers: usize,
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
    for vector in vectors().iter().filter(|vector| !vector.takes_time()) {
        vector.replay(&ground);
    }
}

#[test]
fn what_takes_time() {
    let ground = Ground::alone();
    for vector in vectors().iter().filter(|vector| vector.takes_time()) {
        vector.replay(&ground);
    }
}

fn vectors() -> Vec<Vector> {
    let mut vectors = Vec::new();
    for (lock_types, text) in FILES {
        let file: Value = serde_json::from_str(text).expect("the recording is JSON");
        for vector in list(&file) {
            let vector = Vector::read(vector);
            let known = lock_types.contains(&&*vector.lock_type);
            assert!(known, "{} {:?}", vector.lock_type, vector.scenario);
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
            servers: match text(&vector["topology"]).split_once(' ') {
                Some(("single", _)) => 1,
                Some((several, _)) => several.parse().expect("a number of servers"),
                None => panic!("the recording says where it was made"),
            },
            steps: list(&vector["steps"]).iter().map(Step::read).collect(),
        }
    }

    fn takes_time(&self) -> bool {
        self.steps
            .iter()
            .any(|step| step.pause().is_some() || step.op.contains(BLOCKS))
    }

    fn replay(&self, ground: &Ground) {
        let stage = Stage::new(ground, self.servers);
        let server = stage.server();
        let mut subscribers = stage.connections();
        let mut messages = Messages::of(&stage, &mut subscribers);
        let mut cast = Cast::new(ground, &stage);
        let mut names = Names::default();
        for (number, step) in self.steps.iter().enumerate() {
            let at = format!("{self}, step {number}: {} {}", step.actor, step.op);
            let instead = self.instead(number);
            let outcome = match instead {
                Some(Instead::ByHand(words)) => {
                    server.cli(words);
                    Ok(())
                }
                _ => step.perform(server, &mut cast, &mut names),
            };
            if let Err(problem) = outcome {
                panic!("{at}: {problem}");
            }
            let published = messages.until_now();
            if !(instead == Some(Instead::MessagesMayLack) && published.is_empty()) {
                let wanted = match instead {
                    Some(Instead::Silent) => Vec::new(),
                    _ => self.messages(number),
                };
                names
                    .match_messages(&wanted, &published)
                    .unwrap_or_else(|problem| panic!("{at}: {problem}"));
            }
            names.later = match instead {
                Some(Instead::Later(what, by)) => Some((what, by)),
                _ => None,
            };
            // A pause is as long as the recorded one at least; what it waits for may come later. So
            // may the waiters that a step lets in.
            let patience = match self.takes_time() {
                true => PATIENCE,
                false => Duration::ZERO,
            };
            let mut wanted = step.keys_after.clone();
            if let Some(Instead::Without(key)) = instead {
                let keys = wanted.as_object_mut().expect("recorded keys are a map");
                keys.remove(key).expect("it was recorded");
            }
            let mut problem = String::new();
            within(patience, || {
                cast.returned(|actor, answer| names.learn(actor, answer));
                let found = stage.keys();
                names.learn_queues(&wanted, &found);
                names
                    .match_keys(&wanted, &found)
                    .map_err(|found| problem = found)
                    .ok()
            })
            .unwrap_or_else(|| panic!("{at}: {problem}"));
        }
        // Guards that are left in hands are lost ones: they must not touch what is there.
        drop(cast);
        let last = self.steps.last().expect("a scenario has steps");
        if let Err(problem) = names.match_keys(&last.keys_after, &stage.keys()) {
            panic!("{self}, after its end: {problem}");
        }
        let published = messages.until_now();
        assert!(published.is_empty(), "{self}, after its end: {published:?}");
        stage.clear();
    }

    fn instead(&self, step: usize) -> Option<Instead> {
        DIFFERENCES.iter().find_map(|one| {
            let here = one.scenario == self.scenario
                && one.lock_type == self.lock_type
                && one.step == step;
            here.then_some(one.instead)
        })
    }

    /// What this crate publishes in a step.
    fn messages(&self, number: usize) -> Vec<(String, String)> {
        let step = &self.steps[number];
        let ends = step.op.starts_with("unlock ") || step.op.starts_with("forceUnlock ");
        let held = |step: &Step| match step.keys_after["L"]["value"].as_object() {
            Some(holders) => holders.keys().cloned().collect(),
            None => Vec::new(),
        };
        let mut messages = step.published.clone();
        if let Some((_, channel)) = ALSO_TOLD.iter().find(|(kind, _)| *kind == self.lock_type)
            && ends
            && held(&self.steps[number - 1]) != held(step)
        {
            messages.insert(0, ((*channel).to_owned(), "0".to_owned()));
        }
        messages
    }
}

impl fmt::Display for Vector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.lock_type, self.scenario)
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
                .map(|message| {
                    let channel = text(&message["channel"]);
                    let channel = match message["server"].as_u64() {
                        None => channel,
                        Some(number) => stage::on_server(number as usize, &channel),
                    };
                    (channel, text(&message["payload"]))
                })
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
            let time = (stage::now(server) + MEDDLED).to_string();
            let words = self.op.split(' ').map(|word| match word {
                "<ms>" => &*time,
                word => word,
            });
            let words: Vec<&str> = words.collect();
            return observed::match_reply(&self.result, &server.cli(&words));
        }
        if self.actor == "-" {
            return Ok(());
        }
        if self.op == INTERRUPT {
            cast.interrupt(&self.actor);
            return Ok(());
        }
        if let Some(op) = self.op.strip_suffix(BLOCKS) {
            return cast.begin(&self.actor, op);
        }
        let answer = match self.op.strip_suffix(RETURNS) {
            Some(op) => cast.finish(&self.actor, op),
            None => cast.perform(&self.actor, &self.op),
        };
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
            // What Java refuses when it runs cannot be written here.
            (Value::String(thrown), Said::NoGuard) => thrown.starts_with(NOT_HELD),
            _ => false,
        };
        match as_recorded {
            true => Ok(()),
            false => Err(format!("answered {said:?}, recorded {}", self.result)),
        }
    }
}

const BLOCKS: &str = "(blocks)";
const RETURNS: &str = "(returns)";
const INTERRUPT: &str = "Thread.interrupt()";

const THROWN: &[(&str, lockson::ErrorKind)] = &[
    ("throws InterruptedException", lockson::ErrorKind::Cancelled),
    (NOT_HELD, lockson::ErrorKind::NotHeld),
    (
        "throws RedisException WRONGTYPE",
        lockson::ErrorKind::WrongType,
    ),
];

const NOT_HELD: &str = "throws IllegalMonitorStateException";

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

/// How far ahead a recorded time lies that was written by hand, in ms.
const MEDDLED: i64 = 10_000;
