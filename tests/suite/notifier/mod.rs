//! The unlock notifier and the hand-off when things break.
