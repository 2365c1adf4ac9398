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

/// The server's clock, in ms.
pub(super) fn now(server: &Server) -> i64 {
    let (seconds, micros): (i64, i64) = read(server.cli(&["TIME"]));
    seconds * 1000 + micros / 1000
}

/// All keys, each with type, value and PTTL. The scores of a sorted set are counted from now; one
/// that is not written as an integer stays as it is written.
pub(super) fn keys(server: &Server) -> BTreeMap<String, (String, Value, i64)> {
    let now = now(server);
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
            "list" => json!(read::<Vec<String>>(ask(&["LRANGE", &name, "0", "-1"]))),
            "zset" => {
                let all = ask(&["ZRANGE", &name, "0", "-1", "WITHSCORES"]);
                let since_now = |(member, score): (String, String)| match score.parse::<i64>() {
                    Ok(score) => json!([member, score - now]),
                    Err(_) => json!([member, score]),
                };
                let all = read::<Vec<(String, String)>>(all).into_iter();
                all.map(since_now).collect()
            }
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
/// by itself, and anew for each hold. A writer goes by the name of its field: its thread may read
/// under another number.
#[derive(Debug, Default)]
pub(super) struct Names {
    holders: BTreeMap<(String, String), String>,
    every: BTreeSet<String>,
    /// Recorded clients and ours.
    clients: BTreeMap<String, String>,
    /// A recorded waiter whose score, or key whose end, is so many milliseconds later here.
    pub(super) later: Option<(&'static str, i64)>,
}

impl Names {
    /// Takes from the actor's own guard who it is.
    pub(super) fn learn(&mut self, actor: &str, answer: &Answer) {
        let (client, thread) = actor.split_once("/t").expect("an actor is client/thread");
        let suffix = answer.suffix;
        let recorded = format!("<uuid-{client}>:<tid-{thread}>{suffix}");
        let place = (recorded, answer.lock.clone());
        let Some(holder) = &answer.holder else {
            self.holders.remove(&place);
            return;
        };
        self.note(place, &format!("{holder}{suffix}"));
    }

    /// Takes from the place in a queue who it is that waits there: it will hold under that name.
    pub(super) fn learn_queues(
        &mut self,
        recorded: &Value,
        found: &BTreeMap<String, (String, Value, i64)>,
    ) {
        for (key, wanted) in recorded.as_object().expect("recorded keys are a map") {
            let queues = (&wanted["value"], found.get(key).map(|(_, value, _)| value));
            let ("list", (Value::Array(wanted), Some(Value::Array(queue)))) =
                (wanted["type"].as_str().unwrap_or_default(), queues)
            else {
                continue;
            };
            for (recorded, holder) in wanted.iter().zip(queue) {
                let (Some(recorded), Some(holder)) = (recorded.as_str(), holder.as_str()) else {
                    continue;
                };
                let place = (recorded.to_owned(), lock_of(key).to_owned());
                if recorded.starts_with("<uuid-") && !self.holders.contains_key(&place) {
                    self.note(place, holder);
                }
            }
        }
    }

    fn note(&mut self, place: (String, String), holder: &str) {
        let parts = |name: &str| name.split_once(':').map(|(client, _)| client.to_owned());
        if let (Some(recorded), Some(client)) = (parts(&place.0), parts(holder)) {
            let known = self
                .clients
                .entry(recorded)
                .or_insert_with(|| client.clone());
            assert_eq!(known, &client, "{} is another's", place.0);
        }
        let known = self.holders.insert(place, holder.to_owned());
        if known.as_deref() != Some(holder) {
            assert_eq!(known, None, "a hold keeps its name");
            assert!(
                self.every.insert(holder.to_owned()),
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
            let lock = lock_of(key);
            let (kind, value, ttl) = found.get(&self.our_key(key)?).ok_or_else(problem)?;
            let by = self.later_by(key);
            let ttl_fits = match range(&wanted["ttl_range"]) {
                None => *ttl == -1,
                Some((least, most)) => (least.max(0) + by..=most + by).contains(ttl),
            };
            let same = wanted["type"] == *kind
                && match &**kind {
                    "zset" => self.match_scores(lock, &wanted["value"], value)?,
                    _ => self.ours(lock, &wanted["value"])? == *value,
                };
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
        let ours = recorded.iter().map(|(channel, payload)| {
            let channel = match channel.split_once("}:<") {
                None => channel.clone(),
                Some((base, waiter)) => {
                    let (_, lock) = base.split_once(":{").expect("a name stands in braces");
                    format!("{base}}}:{}", self.holder(lock, &format!("<{waiter}"))?)
                }
            };
            Ok((channel, payload.clone()))
        });
        match ours.collect::<Result<Vec<_>, String>>()? == found {
            true => Ok(()),
            false => Err(format!("published {found:?}, recorded {recorded:?}")),
        }
    }

    /// Whether the same members stand in the same order, each with a score in its window.
    fn match_scores(&self, lock: &str, recorded: &Value, found: &Value) -> Result<bool, String> {
        let (Value::Array(recorded), Value::Array(found)) = (recorded, found) else {
            return Ok(false);
        };
        let mut same = recorded.len() == found.len();
        for (wanted, found) in recorded.iter().zip(found) {
            let member = wanted[0].as_str().expect("a member is text");
            let (least, most) = range(&wanted[1]["score_minus_now_range"]).expect("a window");
            let by = self.later_by(member);
            let score = found[1].as_i64();
            same &= found[0] == *self.holder(lock, member)?
                && score.is_some_and(|score| (least + by..=most + by).contains(&score));
        }
        Ok(same)
    }

    fn later_by(&self, what: &str) -> i64 {
        match self.later {
            Some((later, by)) if later == what => by,
            _ => 0,
        }
    }

    /// A recorded key with our holder in it, if it is a reader's slot.
    fn our_key(&self, recorded: &str) -> Result<String, String> {
        match slot(recorded) {
            None => Ok(recorded.to_owned()),
            Some((stem, reader, number)) => {
                let reader = self.holder(lock_of(recorded), reader)?;
                Ok(format!("{stem}:{reader}{SLOT}{number}"))
            }
        }
    }

    /// A recorded value with our holders in it.
    fn ours(&self, lock: &str, recorded: &Value) -> Result<Value, String> {
        match recorded {
            Value::Object(fields) => fields
                .iter()
                .map(|(field, value)| Ok((self.holder(lock, field)?.to_owned(), value.clone())))
                .collect::<Result<serde_json::Map<_, _>, String>>()
                .map(Value::Object),
            Value::Array(members) => members
                .iter()
                .map(|member| self.ours(lock, member))
                .collect(),
            Value::String(text) => Ok(self.holder(lock, text)?.into()),
            other => Ok(other.clone()),
        }
    }

    /// Ours for a recorded holder; any other text stands for itself.
    fn holder<'a>(&'a self, lock: &str, recorded: &'a str) -> Result<&'a str, String> {
        if !recorded.starts_with("<uuid-") {
            return Ok(recorded);
        }
        self.holders
            .get(&(recorded.to_owned(), lock.to_owned()))
            .map(String::as_str)
            .ok_or_else(|| format!("nobody here is {recorded} of {lock:?}"))
    }
}

/// The lock that a key belongs to.
fn lock_of(key: &str) -> &str {
    if let Some((stem, _, _)) = slot(key) {
        let name = stem
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'));
        return name.unwrap_or(stem);
    }
    key.split_once(":{")
        .and_then(|(_, rest)| rest.strip_suffix('}'))
        .unwrap_or(key)
}

/// What a recorded slot's key is made of: what those of its lock begin with, the reader, the number.
fn slot(key: &str) -> Option<(&str, &str, &str)> {
    let (of_reader, number) = key.split_once(SLOT)?;
    let (stem, _) = of_reader.split_once(":<uuid-")?;
    Some((stem, &of_reader[stem.len() + 1..], number))
}

fn range(recorded: &Value) -> Option<(i64, i64)> {
    let bound = |at: usize| recorded[at].as_i64().expect("a bound is a number");
    recorded.is_array().then(|| (bound(0), bound(1)))
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

const SLOT: &str = ":rwlock_timeout:";

const MARKER: &str = "golden-marker";
