//! How what servers have and publish is compared with a recording.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{actors::Answer, stage::Keys};

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
        for held in &answer.held {
            let client = held.client.as_deref().unwrap_or(client);
            let recorded = format!("<uuid-{client}>:<tid-{thread}>{suffix}");
            let place = (recorded, held.key.clone());
            match &held.holder {
                None => {
                    self.holders.remove(&place);
                }
                Some(holder) => self.note(place, &format!("{holder}{suffix}")),
            }
        }
    }

    /// Takes from the place in a queue who it is that waits there: it will hold under that name.
    pub(super) fn learn_queues(&mut self, recorded: &Value, found: &Keys) {
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

    pub(super) fn match_keys(&self, recorded: &Value, found: &Keys) -> Result<(), String> {
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

const SLOT: &str = ":rwlock_timeout:";
