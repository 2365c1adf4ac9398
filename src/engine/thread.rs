//! A number for each thread that is never used again.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering},
};

/// The number of the current thread.
///
/// Counted by ourselves: the system's ids come back after a thread has ended. Readable also while
/// the thread's own values are being destroyed, where guards may still be dropped.
pub(crate) fn current() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, thread};

    #[test]
    fn ten_thousand_short_threads_have_numbers_of_their_own() {
        let mut seen = HashSet::new();
        for _ in 0..100 {
            let batch: Vec<_> = (0..100).map(|_| thread::spawn(super::current)).collect();
            for thread in batch {
                assert!(seen.insert(thread.join().expect("thread")));
            }
        }
        assert_eq!(super::current(), super::current());
    }
}
