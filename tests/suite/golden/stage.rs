//! The servers of a scenario: what they have, and what they publish.
//!
//! Where there are several, a recording names the keys and channels of the second one by `s2/`, and its
//! clients by a 2 at the end.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::{Value, json};

use crate::support::{Ground, Server};

/// All keys, each with type, value and PTTL.
pub(super) type Keys = BTreeMap<String, (String, Value, i64)>;

#[derive(Clone)]
pub(super) struct Stage {
    servers: Vec<Arc<Server>>,
}

impl Stage {
    pub(super) fn new(ground: &Ground, servers: usize) -> Self {
        let more = (1..servers).map(|_| ground.server_with(|plain| plain));
        Self {
            servers: [ground.server()].into_iter().chain(more).collect(),
        }
    }

    /// The only one, or the first of several.
    pub(super) fn server(&self) -> &Server {
        &self.servers[0]
    }

    pub(super) fn server_of(&self, client: &str) -> &Server {
        match self.servers.len() {
            1 => self.server(),
            _ => &self.servers[number_of(client) - 1],
        }
    }

    pub(super) fn connections(&self) -> Vec<redis::Connection> {
        self.servers.iter().map(|one| one.connection()).collect()
    }

    pub(super) fn keys(&self) -> Keys {
        let each = self.servers.iter().enumerate();
        let all = each.flat_map(|(place, server)| {
            let prefix = self.prefix(place);
            keys(server)
                .into_iter()
                .map(move |(name, found)| (format!("{prefix}{name}"), found))
        });
        all.collect()
    }

    pub(super) fn clear(&self) {
        for server in &self.servers {
            server.cli(&["FLUSHALL"]);
        }
    }

    fn prefix(&self, place: usize) -> String {
        match self.servers.len() {
            1 => String::new(),
            _ => on_server(place + 1, ""),
        }
    }
}

/// The key of a member, which is a name or `client/name`.
pub(super) fn key_of(member: &str) -> String {
    match member.split_once('/') {
        None => member.to_owned(),
        Some((client, name)) => on_server(number_of(client), name),
    }
}

/// How a key or channel of this server is called where there are several.
pub(super) fn on_server(number: usize, what: &str) -> String {
    format!("s{number}/{what}")
}

fn number_of(client: &str) -> usize {
    let digit = client.chars().last().and_then(|last| last.to_digit(10));
    digit.unwrap_or_else(|| panic!("{client:?} names its server")) as usize
}

/// Everything that is published, in order, server by server.
pub(super) struct Messages<'a> {
    stage: Stage,
    subscriptions: Vec<redis::PubSub<'a>>,
}

impl<'a> Messages<'a> {
    pub(super) fn of(stage: &Stage, connections: &'a mut [redis::Connection]) -> Self {
        let each = connections.iter_mut().map(|connection| {
            let mut subscription = connection.as_pubsub();
            subscription.psubscribe("*").expect("everything is told");
            subscription
        });
        Self {
            stage: stage.clone(),
            subscriptions: each.collect(),
        }
    }

    /// Channels and payloads of what was published since the last call.
    pub(super) fn until_now(&mut self) -> Vec<(String, String)> {
        let mut messages = Vec::new();
        for (place, subscription) in self.subscriptions.iter_mut().enumerate() {
            let prefix = self.stage.prefix(place);
            for (channel, payload) in until_now(&self.stage.servers[place], subscription) {
                messages.push((format!("{prefix}{channel}"), payload));
            }
        }
        messages
    }
}

/// A marker is published and waited for: what came before it is complete.
fn until_now(server: &Server, subscription: &mut redis::PubSub<'_>) -> Vec<(String, String)> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let marker = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
    server.cli(&["PUBLISH", MARKER, &marker]);
    let mut messages = Vec::new();
    loop {
        let message = subscription.get_message().expect("the marker arrives");
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

/// The server's clock, in ms.
pub(super) fn now(server: &Server) -> i64 {
    let (seconds, micros): (i64, i64) = read(server.cli(&["TIME"]));
    seconds * 1000 + micros / 1000
}

/// The scores of a sorted set are counted from now; one that is not written as an integer stays as
/// it is written.
fn keys(server: &Server) -> Keys {
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

fn read<T: redis::FromRedisValue>(value: redis::Value) -> T {
    redis::from_redis_value(value).unwrap_or_else(|_| panic!("a reply can be read"))
}

const MARKER: &str = "golden-marker";
