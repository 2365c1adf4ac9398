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
        let info: String = redis::cmd("INFO").arg("commandstats").query(&mut self.0)?;
        let calls = info.lines().filter_map(|line| {
            let rest = line
                .strip_prefix("cmdstat_eval:calls=")
                .or_else(|| line.strip_prefix("cmdstat_evalsha:calls="))?;
            rest.split(',').next()?.parse::<u64>().ok()
        });
        Ok(calls.sum())
    }
}
