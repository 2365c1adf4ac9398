//! Kept alive: the watchdog.
