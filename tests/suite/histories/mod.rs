//! Histories under random faults: the checkers find what is planted, and a run finds nothing.

#[path = "../../../examples/torture/history/mod.rs"]
mod history;

mod counters;
mod exclusion;
mod ghosts;
mod leftovers;
mod liveness;
mod order;
mod run;
mod script;
mod told;
