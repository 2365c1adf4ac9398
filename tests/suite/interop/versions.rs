//! Older Redissons: who excludes whom, and who wakes whom.

use super::{
    Act, FAIR, Kind, LOCK, Play, READ, Side, WRITE, is_beside_java, processes::java_peer_of, reads,
    scenarios, stage, waits,
};
use crate::support::Ground;

macro_rules! versions {
    ($($test:ident: $version:literal,)+) => {$(
        #[test]
        fn $test() {
            play($version);
        }
    )+};
}

versions! {
    before_the_unlock_latch: "3.17.7",
    before_batched_renewals: "3.27.2",
    the_last_of_the_third: "3.52.0",
}

const KINDS: [([Kind; 2], Act); 4] = [
    ([LOCK; 2], scenarios::exclusion),
    ([FAIR; 2], scenarios::exclusion),
    ([READ, WRITE], reads::exclusion),
    ([WRITE; 2], scenarios::exclusion),
];

const DIRECTIONS: [(Side, Side); 2] = [(Side::Rust, Side::Java), (Side::Java, Side::Rust)];

fn play(version: &str) {
    if !is_beside_java() {
        return;
    }
    let plays: Vec<Play<'_>> = KINDS
        .iter()
        .flat_map(|&(kinds, exclusion)| {
            [
                ("exclusion", kinds, exclusion),
                ("wake-up", kinds, waits::release_lets_the_waiting_other_in),
            ]
        })
        .collect();
    eprintln!("Redisson {version}");
    let ground = Ground::new();
    let java = java_peer_of(Some(version));
    stage(&ground, &java, &DIRECTIONS, &plays);
}
