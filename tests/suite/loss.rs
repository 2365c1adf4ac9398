//! Told when it is lost.
