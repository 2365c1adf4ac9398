//! The picture of the comparison: throughput, and the wait of the slowest of a hundred.

use crate::{
    LOCKSON, PLAIN, REDIS_BENCHMARK, REDISSON, REDISSON_RS, REDLOCK,
    common::{
        drawing::{Bars, Drawing},
        workload,
    },
    results::{Pick, Results},
};

pub(crate) const SIDES: [&str; 6] = [
    LOCKSON,
    REDISSON,
    PLAIN,
    REDIS_BENCHMARK,
    REDLOCK,
    REDISSON_RS,
];

pub(crate) fn draw(results: &Results) -> String {
    let series = SIDES.map(str::to_owned);
    let mut drawing = Drawing::new(860.0);
    let numbers: [(&str, Pick); 2] = [
        ("Acquisitions a second (more is better)", |one| one.rate),
        (
            "99th percentile of the wait, in milliseconds (less is better)",
            |one| one.p99 / 1e3,
        ),
    ];
    for (title, number) in numbers {
        let rows: Vec<(String, Vec<Option<f64>>)> = workload::ALL
            .iter()
            .map(|workload| {
                let of = |side: &str| {
                    let median = results.median(side, &workload.to_string());
                    median.map(|one| number(&one))
                };
                (workload.title(), SIDES.map(of).to_vec())
            })
            .collect();
        drawing.bars(&Bars {
            title,
            series: &series,
            rows: &rows,
        });
    }
    drawing.svg()
}
