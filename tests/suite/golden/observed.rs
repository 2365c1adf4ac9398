//! What the server has and publishes, and how it is compared with a recording.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};

use super::actors::Answer;
use crate::support::Server;

/// Everything that is published, in order.
pub(super) struct Messages<'a> {
    subscription: redis::PubSub<'a>,
}

impl<'a> Messages<'a> {
    pub(super) fn of(connection: &'a mut redis::Connection) -> Self {
        let mut subscription = connection.as_pubsub();
        subscription.psubscribe("*").expect("everything is told");
        Self { subscription }
    }

    /// Channels and payloads of what was published since the last call.
    ///
    /// A marker is published and waited for: what came before it is complete.
    pub(super) fn until_now(&mut self, server: &Server) -> Vec<(String, String)> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let marker = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
        server.cli(&["PUBLISH", MARKER, &marker]);
        let mut messages = Vec::new();
        loop {
            let message = self.subscription.get_message().expect("the marker arrives");
            let channel = message.get_channel_name().to_owned();
            let payload: String = message.get_payload().expect("a payload is text");
            if channel == MARKER && payload == marker {
                return messages;
            }
            // A client's own affair: it wakes its own thread.
            if !channel.ends_with(":wake") {
                messages.push((channel, payload));
            }
        }
    }
}

/// All keys, each with type, value and PTTL.
pub(super) fn keys(server: &Server) -> BTreeMap<String, (String, Value, i64)> {
    let mut redis = server.connection();
    let mut ask = |words: &[&str]| -> redis::Value {
        let mut command = redis::Cmd::new();
        words.iter().for_each(|word| {
            command.arg(word);
        });
        command.query(&mut redis).expect("the server answers")
    };
    let mut keys = BTreeMap::new();
    for name in read::<Vec<String>>(ask(&["KEYS", "*"])) {
        let kind: String = read(ask(&["TYPE", &name]));
        let value = match &*kind {
            "hash" => json!(read::<BTreeMap<String, String>>(ask(&["HGETALL", &name]))),
            "string" => json!(read::<String>(ask(&["GET", &name]))),
            // It ran out just now.
            "none" => continue,
            other => panic!("the key {name:?} is a {other}"),
        };
        let ttl = read(ask(&["PTTL", &name]));
        keys.insert(name, (kind, value, ttl));
    }
    keys
}

/// Which of our holders stands for which recorded one.
///
/// Recorded numbers are those of threads, ours are those of holds: they are matched for each lock
/// by itself, and anew for each hold.
#[derive(Debug, Default)]
pub(super) struct Names {
    holders: BTreeMap<(String, String), String>,
    every: BTreeSet<String>,
}

impl Names {
    /// Takes from the actor's own guard who it is.
    pub(super) fn learn(&mut self, actor: &str, answer: &Answer) {
        let (client, thread) = actor.split_once("/t").expect("an actor is client/thread");
        let recorded = format!("<uuid-{client}>:<tid-{thread}>");
        let place = (recorded, answer.lock.clone());
        let Some(holder) = &answer.holder else {
            self.holders.remove(&place);
            return;
        };
        let known = self.holders.insert(place, holder.clone());
        if known.as_ref() != Some(holder) {
            assert_eq!(known, None, "a hold keeps its name");
            assert!(
                self.every.insert(holder.clone()),
                "{holder} was there before"
            );
        }
    }

    pub(super) fn match_keys(
        &self,
        recorded: &Value,
        found: &BTreeMap<String, (String, Value, i64)>,
    ) -> Result<(), String> {
        let problem = || format!("the keys are {found:?}, recorded {recorded}");
        let recorded = recorded.as_object().expect("recorded keys are a map");
        if recorded.len() != found.len() {
            return Err(problem());
        }
        for (key, wanted) in recorded {
            let lock = key.as_str();
            let (kind, value, ttl) = found.get(lock).ok_or_else(problem)?;
            let ttl_fits = match wanted["ttl_range"].as_array() {
                None => *ttl == -1,
                Some(range) => {
                    let bound = |at: usize| range[at].as_i64().expect("a bound is a number");
                    (bound(0).max(0)..=bound(1)).contains(ttl)
                }
            };
            let same = wanted["type"] == *kind && self.ours(lock, &wanted["value"])? == *value;
            if !(same && ttl_fits) {
                return Err(problem());
            }
        }
        Ok(())
    }

    pub(super) fn match_messages(
        &self,
        recorded: &[(String, String)],
        found: &[(String, String)],
    ) -> Result<(), String> {
        match recorded == found {
            true => Ok(()),
            false => Err(format!("published {found:?}, recorded {recorded:?}")),
        }
    }

    /// A recorded value with our holders in it.
    fn ours(&self, lock: &str, recorded: &Value) -> Result<Value, String> {
        let Some(fields) = recorded.as_object() else {
            return Ok(recorded.clone());
        };
        let named = fields.iter().map(|(field, value)| {
            let holder = match field.starts_with("<uuid-") {
                false => field,
                true => self
                    .holders
                    .get(&(field.clone(), lock.to_owned()))
                    .ok_or_else(|| format!("nobody here is {field} of {lock:?}"))?,
            };
            Ok((holder.clone(), value.clone()))
        });
        named
            .collect::<Result<serde_json::Map<_, _>, String>>()
            .map(Value::Object)
    }
}

pub(super) fn match_reply(recorded: &Value, found: &redis::Value) -> Result<(), String> {
    let same = match found {
        redis::Value::Okay => recorded == "OK",
        redis::Value::Int(number) => recorded.as_i64() == Some(*number),
        _ => false,
    };
    match same {
        true => Ok(()),
        false => Err(format!("answered {found:?}, recorded {recorded}")),
    }
}

fn read<T: redis::FromRedisValue>(value: redis::Value) -> T {
    redis::from_redis_value(value).unwrap_or_else(|_| panic!("a reply can be read"))
}

const MARKER: &str = "golden-marker";
