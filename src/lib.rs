//! Redisson's distributed locks for blocking Rust programs.
//!
//! # The promise
//!
//! There is at most one holder of a name, as long as the Redis server does not lose the key and
//! the holder stops within its lease. In every other case the holder is *told*: by its guard
//! ([`LockGuard::is_held`], [`LockGuard::lost`]), from the clock of its own process, no later than
//! the end of its lease, even if Redis cannot be reached. A command whose reply was lost has one
//! effect.
//!
//! Java services lock with [Redisson](https://redisson.pro). With this crate, threaded Rust
//! services beside them take the same locks on the same Redis: the same keys, the same channels,
//! the same counts. A lock is taken as a guard, and released when the guard goes:
//!
//! ```no_run
//! use lockson::Client;
//!
//! let client = Client::connect("redis://127.0.0.1/")?;
//! let guard = client.reentrant_lock("orders:42").lock()?;
//! // Nobody else works on order 42 now, neither here nor in Java.
//! guard.unlock()?; // or just drop it; `unlock` also tells what went wrong
//! # Ok::<(), lockson::Error>(())
//! ```
//!
//! # What there is
//!
//! | for | the lock | its guards |
//! |---|---|---|
//! | one at a time, who may take it again | [`ReentrantLock`] | [`LockGuard`], [`OwnedLockGuard`] |
//! | the same, first come, first served | [`FairLock`] | [`LockGuard`], [`OwnedLockGuard`] |
//! | many who read, or one who writes | [`ReadWriteLock`], its halves [`ReadLock`] and [`WriteLock`] | [`ReadGuard`], [`WriteGuard`], [`OwnedReadGuard`], [`OwnedWriteGuard`] |
//! | several locks, all or none | [`MultiLock`] | [`MultiGuard`], [`OwnedMultiGuard`] |
//! | one lock on several servers | [`RedLock`] | [`RedGuard`], [`OwnedRedGuard`] |
//! | any of them | [`AnyLock`], the trait [`Lock`] | [`AnyGuard`], [`AnyOwnedGuard`], the trait [`Guard`] |
//!
//! A [`Client`] makes them; [`ClientBuilder`] has its settings. [`Options`] is every way to acquire,
//! with a [`CancelToken`] to end the wait. [`LostSignal`] and [`Event`] tell of a loss;
//! [`Inspection`] is what others see of a lock. Everything that fails answers an [`Error`], whose
//! [`ErrorKind`] says what happened; bad input and a server that fails are errors, not panics.
//!
//! Pages to read: [the guide](crate::_docs::guide) with code for each lock,
//! [pictures](crate::_docs::pictures), [the seven schemes](crate::_docs::seven_schemes) that lead to
//! such a lock, [migrating from Java](crate::_docs::migrating_from_java),
//! [the protocol](crate::_docs::protocol), [compatibility](crate::_docs::compatibility) and
//! [the design](crate::_docs::design).
//!
//! # Dropping a guard talks to Redis
//!
//! The release is one round trip. When the server does not answer, `drop` (like
//! [`unlock`](LockGuard::unlock)) tries twice, each time for the
//! [response timeout](ClientBuilder::response_timeout): with the defaults it may block for six
//! seconds. It never panics; what it could not do is logged and raised as an
//! [`Event`]. The hold then ends with its time in Redis.
//!
//! # Java to Rust
//!
//! | Redisson | lockson |
//! |---|---|
//! | `Redisson.create(config)` | [`Client::connect`], [`Client::builder`] |
//! | `redisson.getLock(name)` | [`client.reentrant_lock(name)`](Client::reentrant_lock) |
//! | `redisson.getFairLock(name)` | [`client.fair_lock(name)`](Client::fair_lock) |
//! | `redisson.getReadWriteLock(name)`, `readLock()`, `writeLock()` | [`client.read_write_lock(name)`](Client::read_write_lock), [`read_lock()`](ReadWriteLock::read_lock), [`write_lock()`](ReadWriteLock::write_lock) |
//! | `redisson.getMultiLock(a, b)` | [`MultiLock::new([a.into(), b.into()])`](MultiLock::new) |
//! | `redisson.getRedLock(a, b, c)` | [`RedLock::new([a.into(), b.into(), c.into()])`](RedLock::new) |
//! | `lock.lock()`, `lock.lock(lease, unit)` | [`lock.lock()`](ReentrantLock::lock), [`lock.lock_with_lease(lease)`](ReentrantLock::lock_with_lease) |
//! | `lock.tryLock(wait, unit)` | [`lock.try_lock_for(wait)`](ReentrantLock::try_lock_for) |
//! | `lock.tryLock(wait, lease, unit)` | [`lock.try_lock_for_with_lease(wait, lease)`](ReentrantLock::try_lock_for_with_lease) |
//! | `lock.lockInterruptibly()`, `thread.interrupt()` | [`lock.options().cancel(&token).acquire()`](Options::cancel), [`token.cancel()`](CancelToken::cancel) |
//! | `lock.tryLock()` | [`lock.try_lock()`](ReentrantLock::try_lock) |
//! | `lock.tryLock(0, lease, unit)` | [`lock.try_lock_with_lease(lease)`](ReentrantLock::try_lock_with_lease) |
//! | `lock.unlock()` | [`guard.unlock()`](LockGuard::unlock), or drop the guard |
//! | `lock.isLocked()` | [`lock.is_locked()`](ReentrantLock::is_locked) |
//! | `lock.isHeldByCurrentThread()` | [`lock.is_held_by_current_thread()`](ReentrantLock::is_held_by_current_thread) |
//! | `lock.getHoldCount()` | [`lock.hold_count()`](ReentrantLock::hold_count) |
//! | `lock.remainTimeToLive()` | [`lock.remaining_ttl()`](ReentrantLock::remaining_ttl) |
//! | `lock.forceUnlock()` | [`lock.force_unlock()`](ReentrantLock::force_unlock) |
//! | `RLock` as a parameter | [`AnyLock`], or generic over [`Lock`] |
//!
//! # Features
//!
//! - `tls`: connections over TLS (`rediss://`).

#![forbid(unsafe_code)]

mod any;
mod builder;
mod cancel;
mod client;
mod engine;
mod error;
mod event;
mod fair;
mod family;
mod guard;
mod handle;
mod inspect;
mod multi;
mod options;
mod protocol;
mod read_write;
mod red;
mod reentrant;
mod settings;
mod sync;
mod transport;

pub use any::{AnyGuard, AnyLock, AnyOwnedGuard};
pub use builder::ClientBuilder;
pub use cancel::CancelToken;
pub use client::{Client, ClientState};
pub use error::{Error, ErrorKind, Result};
pub use event::{Ended, Event, LostReason};
pub use fair::FairLock;
pub use family::{Guard, Lock};
pub use guard::{LockGuard, LostSignal, OwnedLockGuard};
pub use inspect::{Holder, Inspection, Ttl, Waiter};
pub use multi::{MultiGuard, MultiLock, OwnedMultiGuard};
pub use options::Options;
pub use read_write::{
    OwnedReadGuard, OwnedWriteGuard, ReadGuard, ReadLock, ReadWriteLock, WriteGuard, WriteLock,
};
pub use red::{OwnedRedGuard, RedGuard, RedLock};
pub use reentrant::ReentrantLock;

#[cfg(any(doc, doctest))]
pub mod _docs;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
