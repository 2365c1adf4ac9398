//! The clock that all processes of a machine share.

use std::time::Duration;

use crate::history::event::Nanos;

/// CLOCK_MONOTONIC, now.
#[allow(unsafe_code)]
pub(crate) fn now() -> Nanos {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes into the one struct that it is given, and keeps no reference to it.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    assert_eq!(done, 0, "every system has a monotonic clock");
    time.tv_sec as Nanos * 1_000_000_000 + time.tv_nsec as Nanos
}

/// A duration as a history has it.
pub(crate) fn nanos(time: Duration) -> Nanos {
    Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX)
}
