//! The scenarios of Redisson's own tests.
