//! Recorded steps of real Redisson, replayed by this crate.
