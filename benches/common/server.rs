//! What the server counted.

use super::Outcome;

/// The server's counters, read on a connection of their own.
pub(crate) struct Counters(redis::Connection);

impl Counters {
    pub(crate) fn of(url: &str) -> Outcome<Self> {
        Ok(Self(redis::Client::open(url)?.get_connection()?))
    }

    pub(crate) fn version(&mut self) -> Outcome<String> {
        let info: String = redis::cmd("INFO").arg("server").query(&mut self.0)?;
        let version = info.lines().find_map(|line| {
            line.strip_prefix("valkey_version:")
                .or_else(|| line.strip_prefix("redis_version:"))
        });
        Ok(version.unwrap_or("unknown").to_owned())
    }

    /// How many scripts clients have asked for, since the server started.
    pub(crate) fn script_calls(&mut self) -> Outcome<u64> {
        Ok(self.calls("eval")? + self.calls("evalsha")?)
    }

    /// How often a command ran, within scripts too.
    pub(crate) fn calls(&mut self, command: &str) -> Outcome<u64> {
        let info: String = redis::cmd("INFO").arg("commandstats").query(&mut self.0)?;
        let start = format!("cmdstat_{command}:calls=");
        let calls = info.lines().find_map(|line| {
            let rest = line.strip_prefix(&*start)?;
            rest.split(',').next()?.parse().ok()
        });
        Ok(calls.unwrap_or(0))
    }

    /// How many connections listen to a channel.
    pub(crate) fn listeners(&mut self, channel: &str) -> Outcome<u64> {
        let mut ask = redis::cmd("PUBSUB");
        let (_, listeners): (String, u64) = ask.arg("NUMSUB").arg(channel).query(&mut self.0)?;
        Ok(listeners)
    }

    /// How many connections listen to anything.
    pub(crate) fn listening(&mut self) -> Outcome<usize> {
        let mut ask = redis::cmd("CLIENT");
        let list: String = ask
            .arg("LIST")
            .arg("TYPE")
            .arg("pubsub")
            .query(&mut self.0)?;
        Ok(list.lines().count())
    }

    pub(crate) fn connection(&mut self) -> &mut redis::Connection {
        &mut self.0
    }
}
