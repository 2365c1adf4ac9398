//! Waiting for a lock: who gets it, when, and what is left of those who give up.
