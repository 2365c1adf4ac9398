//! What all rounds of all sides came to; medians are what is compared.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::common::samples::{Outturn, micros};

/// One of the numbers.
pub(crate) type Pick = fn(&Numbers) -> f64;

#[derive(Default)]
pub(crate) struct Results {
    rounds: BTreeMap<(String, String), Vec<Numbers>>,
    crowds: Vec<Value>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    pub(crate) rate: f64,
    /// In microseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
    pub(crate) scripts: Option<f64>,
    /// The least that a thread got, in parts of the most.
    pub(crate) evenness: f64,
}

impl Results {
    pub(crate) fn add(
        &mut self,
        side: &str,
        workload: &str,
        outturn: Outturn,
        scripts: Option<f64>,
    ) {
        let [least, most] = outturn.shares();
        let numbers = Numbers {
            rate: outturn.rate(),
            p50: micros(outturn.waits.p50),
            p99: micros(outturn.waits.p99),
            max: micros(outturn.waits.max),
            scripts,
            evenness: least / most.max(1e-9),
        };
        let key = (workload.to_owned(), side.to_owned());
        self.rounds.entry(key).or_default().push(numbers);
    }

    pub(crate) fn crowd(&mut self, answer: &Value) {
        self.crowds.push(answer.clone());
    }

    /// Each number's own median.
    pub(crate) fn median(&self, side: &str, workload: &str) -> Option<Numbers> {
        let rounds = self.rounds.get(&(workload.to_owned(), side.to_owned()))?;
        let of = |number: Pick| middle(rounds.iter().map(number).collect());
        let scripts: Vec<f64> = rounds.iter().filter_map(|one| one.scripts).collect();
        Some(Numbers {
            rate: of(|one| one.rate),
            p50: of(|one| one.p50),
            p99: of(|one| one.p99),
            max: of(|one| one.max),
            scripts: (!scripts.is_empty()).then(|| middle(scripts)),
            evenness: of(|one| one.evenness),
        })
    }

    /// What crowds cost, number by number.
    pub(crate) fn crowds(&self) -> impl Iterator<Item = (&str, &str, f64)> {
        self.crowds.iter().flat_map(|crowd| {
            let workload = crowd["workload"].as_str().unwrap_or_default();
            let numbers = crowd.as_object().into_iter().flatten();
            numbers.filter_map(move |(name, number)| Some((workload, &**name, number.as_f64()?)))
        })
    }

    /// A number of what crowds cost.
    pub(crate) fn of_crowd(&self, name: &str) -> Option<f64> {
        self.crowds.iter().find_map(|crowd| crowd[name].as_f64())
    }
}

fn middle(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    match numbers.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => numbers[odd / 2],
        even => f64::midpoint(numbers[even / 2 - 1], numbers[even / 2]),
    }
}
