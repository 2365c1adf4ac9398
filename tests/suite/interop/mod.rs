//! Beside real Redisson: one table of kinds, scenarios and who sits where.
