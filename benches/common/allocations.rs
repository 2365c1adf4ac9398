//! What is allocated, counted by the allocator itself while it is asked to.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicBool, AtomicI64, Ordering},
};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicI64 = AtomicI64::new(0);
static BYTES: AtomicI64 = AtomicI64::new(0);

/// From now on. Before, it costs the workloads next to nothing.
pub(crate) fn count() {
    COUNTS.store(true, Ordering::Relaxed);
}

/// How often something was allocated since.
pub(crate) fn allocations() -> i64 {
    ALLOCATIONS.load(Ordering::Relaxed)
}

/// How many bytes more are in use than then.
pub(crate) fn bytes() -> i64 {
    BYTES.load(Ordering::Relaxed)
}

struct Counting;

fn note(allocations: i64, bytes: i64) {
    if COUNTS.load(Ordering::Relaxed) {
        ALLOCATIONS.fetch_add(allocations, Ordering::Relaxed);
        BYTES.fetch_add(bytes, Ordering::Relaxed);
    }
}

// SAFETY: the system's allocator does it all; the counting touches atomics alone.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(1, layout.size() as i64);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        note(0, -(layout.size() as i64));
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(1, size as i64 - layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, size) }
    }
}
