//! What a finished test may have left: threads, connections, subscriptions, keys.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Server, clients::ClientEntry, within};

/// Says what is left, after giving threads and connections some time to end.
pub fn find(servers: &[Arc<Server>], tags: &[String], keys_may_stay: bool) -> Vec<String> {
    let deadline = Instant::now() + BOUND;
    let mut left = threads(tags, deadline);
    for server in servers.iter().filter(|server| server.is_running()) {
        left.extend(on_server(server, keys_may_stay, deadline));
    }
    left
}

fn threads(tags: &[String], deadline: Instant) -> Vec<String> {
    let mut left = Vec::new();
    let _ = within(until(deadline), || {
        left = tagged_threads(tags);
        left.is_empty()
    });
    left.into_iter()
        .map(|name| format!("the thread {name:?}"))
        .collect()
}

fn on_server(server: &Server, keys_may_stay: bool, deadline: Instant) -> Vec<String> {
    server.thaw();
    let mut seen = Err("was not looked at".to_owned());
    // Only connections are waited for. Keys are not: a short lease would run out meanwhile and hide
    // that nobody released it.
    let _ = within(until(deadline), || {
        seen = Remains::find(server).map_err(|error| error.to_string());
        matches!(&seen, Ok(remains) if remains.connections.is_empty())
    });
    let at = format!("on the server {}:", server.addr());
    match seen {
        Ok(remains) => {
            let keys = (!keys_may_stay)
                .then_some(remains.keys)
                .into_iter()
                .flatten();
            remains
                .connections
                .into_iter()
                .chain(remains.subscriptions)
                .chain(keys)
                .map(|left| format!("{at} {left}"))
                .collect()
        }
        Err(error) => vec![format!("{at} cannot be checked: {error}")],
    }
}

struct Remains {
    connections: Vec<String>,
    subscriptions: Vec<String>,
    keys: Vec<String>,
}

impl Remains {
    fn find(server: &Server) -> redis::RedisResult<Self> {
        let mut redis = server.try_connection()?;
        // Connections first: once they are gone nobody can write any more.
        let connections = ClientEntry::others(&mut redis)?
            .into_iter()
            .filter(|client| !client.is_replication())
            .map(|client| format!("the connection {}", client.line()))
            .collect();

        let mut subscriptions = Vec::new();
        let channels: Vec<String> = redis::cmd("PUBSUB").arg("CHANNELS").query(&mut redis)?;
        subscriptions.extend(channels.iter().map(|name| format!("the channel {name:?}")));
        let patterns: usize = redis::cmd("PUBSUB").arg("NUMPAT").query(&mut redis)?;
        if patterns > 0 {
            subscriptions.push(format!("{patterns} pattern subscription(s)"));
        }

        let mut keys = Vec::new();
        let keyspace: String = redis::cmd("INFO").arg("keyspace").query(&mut redis)?;
        for db in keyspace
            .lines()
            .filter_map(|line| line.strip_prefix("db")?.split(':').next())
        {
            // KEYS, unlike DBSIZE, does not count what has run out and waits to be reaped.
            let _: () = redis::cmd("SELECT").arg(db).query(&mut redis)?;
            let names: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(&mut redis)?;
            for name in names {
                let ttl: i64 = redis::cmd("PTTL").arg(&name).query(&mut redis)?;
                let name = String::from_utf8_lossy(&name);
                keys.push(format!("the key {name:?} in db {db}, PTTL {ttl}"));
            }
        }
        Ok(Self {
            connections,
            subscriptions,
            keys,
        })
    }
}

fn until(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

fn tagged_threads(tags: &[String]) -> Vec<String> {
    super::threads()
        .into_iter()
        .filter(|name| tags.iter().any(|tag| name.contains(tag.as_str())))
        .collect()
}

const BOUND: Duration = Duration::from_secs(5);
