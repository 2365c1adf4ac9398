//! The waits that were measured, and what is said of them.

use std::time::Duration;

use serde_json::{Value, json};

use super::Outcome;

/// How long each acquisition took, from the call to the guard.
#[derive(Default)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    pub(crate) fn push(&mut self, wait: Duration) {
        self.0.push(wait);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn all_of(parts: Vec<Self>) -> Self {
        Self(parts.into_iter().flat_map(|part| part.0).collect())
    }

    pub(crate) fn summary(mut self) -> Summary {
        self.0.sort_unstable();
        Summary {
            p50: self.at(0.50),
            p99: self.at(0.99),
            max: self.at(1.0),
        }
    }

    /// The least wait that so great a part of all did not exceed.
    fn at(&self, part: f64) -> Duration {
        let rank = (self.0.len() as f64 * part).ceil() as usize;
        let wait = self.0.get(rank.saturating_sub(1));
        wait.copied().unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary {
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) max: Duration,
}

/// What a contest came to, as one process tells it to another.
#[derive(Clone, Debug)]
pub(crate) struct Outturn {
    /// How often each thread had it.
    pub(crate) counts: Vec<u64>,
    pub(crate) time: Duration,
    /// How long each time.
    pub(crate) held: Duration,
    pub(crate) waits: Summary,
}

impl Outturn {
    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(crate) fn rate(&self) -> f64 {
        self.count() as f64 / self.time.as_secs_f64()
    }

    /// The least and the most that one thread got, in parts of an equal share.
    pub(crate) fn shares(&self) -> [f64; 2] {
        let equal = self.count() as f64 / self.counts.len().max(1) as f64;
        let least = self.counts.iter().min().copied().unwrap_or(0) as f64;
        let most = self.counts.iter().max().copied().unwrap_or(0) as f64;
        [least / equal.max(1.0), most / equal.max(1.0)]
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "counts": self.counts,
            "seconds": self.time.as_secs_f64(),
            "held_us": micros(self.held),
            "p50_us": micros(self.waits.p50),
            "p99_us": micros(self.waits.p99),
            "max_us": micros(self.waits.max),
        })
    }

    pub(crate) fn from_json(value: &Value) -> Outcome<Self> {
        let number = |name: &str| {
            let number = value[name].as_f64();
            number.ok_or_else(|| format!("no {name} in {value}"))
        };
        let span = |name: &str| Outcome::Ok(Duration::try_from_secs_f64(number(name)? / 1e6)?);
        let counts = value["counts"].as_array().ok_or("no counts")?;
        Ok(Self {
            counts: counts.iter().filter_map(Value::as_u64).collect(),
            time: Duration::try_from_secs_f64(number("seconds")?)?,
            held: span("held_us")?,
            waits: Summary {
                p50: span("p50_us")?,
                p99: span("p99_us")?,
                max: span("max_us")?,
            },
        })
    }
}

pub(crate) fn micros(wait: Duration) -> f64 {
    (wait.as_secs_f64() * 1e7).round() / 10.0
}
