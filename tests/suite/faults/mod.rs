//! Kinds of locks × faults: what happens to a hold when things break.
