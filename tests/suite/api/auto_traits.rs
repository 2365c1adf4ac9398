//! Which types may go from thread to thread. The compiler checks it; the test, that none is missing.

use lockson::{
    AnyGuard, AnyLock, AnyOwnedGuard, CancelToken, Client, ClientBuilder, ClientState, Ended,
    Error, ErrorKind, Event, FairLock, Holder, Inspection, LockGuard, LostReason, LostSignal,
    MultiGuard, MultiLock, Options, OwnedLockGuard, OwnedMultiGuard, OwnedReadGuard, OwnedRedGuard,
    OwnedWriteGuard, ReadGuard, ReadLock, ReadWriteLock, RedGuard, RedLock, ReentrantLock, Ttl,
    Waiter, WriteGuard, WriteLock,
};

macro_rules! send_and_sync {
    ($($kind:ident $([$($arguments:tt)*])?),* $(,)?) => {
        $(const _: () = assert_send_and_sync::<$kind $($($arguments)*)?>();)*
        const SEND_AND_SYNC: &[&str] = &[$(stringify!($kind)),*];
    };
}

macro_rules! sync_but_not_send {
    ($($kind:ident),* $(,)?) => {
        $(
            const _: () = assert_sync::<$kind>();
            // With `Send`, the marker `_` could be either of two types, and this would not compile.
            const _: fn() = || {
                trait Ambiguous<Marker> {
                    fn some() {}
                }
                impl<T> Ambiguous<()> for T {}
                struct Sent;
                impl<T: Send> Ambiguous<Sent> for T {}
                let _ = <$kind as Ambiguous<_>>::some;
            };
        )*
        const SYNC_BUT_NOT_SEND: &[&str] = &[$(stringify!($kind)),*];
    };
}

send_and_sync!(
    AnyLock,
    AnyOwnedGuard,
    Client,
    ClientBuilder,
    CancelToken,
    ClientState,
    Ended,
    Error,
    ErrorKind,
    Event,
    FairLock,
    Holder,
    Inspection,
    LostReason,
    LostSignal,
    MultiLock,
    Options[<'static, AnyLock>],
    OwnedLockGuard,
    OwnedMultiGuard,
    OwnedReadGuard,
    OwnedRedGuard,
    OwnedWriteGuard,
    ReadLock,
    ReadWriteLock,
    RedLock,
    ReentrantLock,
    Ttl,
    Waiter,
    WriteLock,
);
sync_but_not_send!(
    AnyGuard, LockGuard, MultiGuard, ReadGuard, RedGuard, WriteGuard
);

const _: () = assert_static::<OwnedLockGuard>();
const _: () = assert_static::<AnyOwnedGuard>();
const _: () = assert_static::<LockGuard>();
const _: () = assert_clone::<AnyLock>();
const _: () = assert_clone::<CancelToken>();
const _: () = assert_clone::<Client>();
const _: () = assert_clone::<ClientBuilder>();
const _: () = assert_clone::<Error>();
const _: () = assert_clone::<FairLock>();
const _: () = assert_clone::<LostSignal>();
const _: () = assert_clone::<Options<'static, ReentrantLock>>();
const _: () = assert_clone::<MultiLock>();
const _: () = assert_clone::<ReadWriteLock>();
const _: () = assert_clone::<ReentrantLock>();

const fn assert_send_and_sync<T: Send + Sync>() {}
const fn assert_sync<T: Sync>() {}
const fn assert_static<T: 'static>() {}
const fn assert_clone<T: Clone>() {}

#[test]
fn each_public_type_is_spoken_for() {
    let mut exported = exported(include_str!("../../../src/lib.rs"));
    // Traits and an alias: they have no threads to go to.
    exported.retain(|name| !["Guard", "Lock", "Result"].contains(&&**name));
    let mut known = [SEND_AND_SYNC, SYNC_BUT_NOT_SEND].concat();
    known.sort_unstable();
    exported.sort_unstable();
    assert_eq!(exported, known);
}

/// The names that `pub use` brings to the crate's root.
fn exported(root: &str) -> Vec<String> {
    root.split("pub use ")
        .skip(1)
        .flat_map(|rest| {
            let (path, _) = rest.split_once(';').expect("a use ends");
            let (_, names) = path.split_once("::").expect("a use has a path");
            names
                .trim_matches(['{', '}'])
                .split(',')
                .map(|name| name.trim().to_owned())
                .filter(|name| !name.is_empty())
                .collect::<Vec<_>>()
        })
        .collect()
}
