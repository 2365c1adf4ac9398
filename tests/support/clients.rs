//! CLIENT LIST, taken apart.

use std::collections::HashMap;

use redis::RedisResult;

/// One line of CLIENT LIST.
#[derive(Clone, Debug)]
pub struct ClientEntry {
    line: String,
    fields: HashMap<String, String>,
}

impl ClientEntry {
    /// Everybody but the connection that asks.
    pub fn others(redis: &mut redis::Connection) -> RedisResult<Vec<Self>> {
        let own: u64 = redis::cmd("CLIENT").arg("ID").query(redis)?;
        let list: String = redis::cmd("CLIENT").arg("LIST").query(redis)?;
        Ok(list
            .lines()
            .map(Self::parse)
            .filter(|client| client.id() != own)
            .collect())
    }

    pub fn id(&self) -> u64 {
        self.number("id")
    }

    pub fn addr(&self) -> &str {
        self.field("addr")
    }

    pub fn name(&self) -> &str {
        self.field("name")
    }

    pub fn flags(&self) -> &str {
        self.field("flags")
    }

    /// The last command, in lower case, such as `evalsha` or `subscribe`.
    pub fn command(&self) -> &str {
        self.field("cmd")
    }

    /// How many channels it is subscribed to, patterns not counted.
    pub fn channels(&self) -> u64 {
        self.number("sub")
    }

    /// Whether it is a replica, or the master that this server follows.
    pub fn is_replication(&self) -> bool {
        self.flags().contains(['S', 'M'])
    }

    /// Any field by its name; empty if this server does not tell it.
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    pub fn line(&self) -> &str {
        &self.line
    }

    fn number(&self, name: &str) -> u64 {
        self.field(name)
            .parse()
            .unwrap_or_else(|_| panic!("CLIENT LIST has the number {name}: {}", self.line))
    }

    fn parse(line: &str) -> Self {
        let fields = line
            .split(' ')
            .filter_map(|word| word.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        Self {
            line: line.to_owned(),
            fields,
        }
    }
}
