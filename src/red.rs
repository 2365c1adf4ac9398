//! The RedLock: one lock on several servers.

use std::{
    marker::PhantomData,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::MutexGuard,
    time::Duration,
};

use crate::{
    any::AnyLock,
    engine::{self, Bundle, Member, Terms},
    error::{Error, Result},
    family::lock_methods,
    guard::guard_methods,
    handle::Handle,
};

/// Redisson's RedLock: one lock on several independent servers, of which a majority must agree.
///
/// A handle: cheap, without any I/O, `Clone`, `Send` and `Sync`. Each member is an ordinary lock of its
/// client; each client is connected to a server of its own. There are no questions about a key: ask
/// the members.
///
/// # A majority in time
///
/// All members are asked at once, and none is waited for longer than the
/// [member timeout](crate::ClientBuilder::red_lock_member_timeout). The lock is held when more than half
/// of them agreed, and if something is left of the lease after the time that this took and what clocks
/// may drift ([`validity`](RedGuard::validity): lease − elapsed − 1 % − 2 ms). If not, every member is
/// released, also those that did not answer. It then tries again after a random rest, or when a
/// member that refused is released.
///
/// Without a lease the watchdog of each client renews its member. When no majority was renewed in time,
/// the guard is lost.
///
/// Not getting it in time is `Ok(None)`, also when too few members answer; an error when none does.
///
/// # When it helps, and when not
///
/// It helps against the loss of a server: as long as a majority lives and keeps its data, there is one
/// holder. It does not help
///
/// - when a server comes back without its data (no persistence, or `appendfsync everysec` and a
///   crash) before the leases that it had given are over: two majorities are possible then. Keep such a
///   server away for the longest lease.
/// - with replicas that take over: a member must be one server, not a group of them.
/// - against pauses: a holder that stops for longer than its validity must stop working by itself.
///   [`is_held`](RedGuard::is_held) tells it; a resource that is told a growing number with each
///   request (a fencing token) could refuse it, and only that is safe without looking at a clock.
///
/// One or two members, or an even number of them, are allowed and warned about: they tolerate no more
/// losses than one fewer would.
///
/// # Ownership
///
/// As with each member.
///
/// # What Redis holds
///
/// What each member holds on its server.
///
/// # When it can be lost
///
/// When fewer than a majority of its members are held, by the clock of this process less the drift.
///
/// # Errors
///
/// When no member answers; as long as one does, not getting a majority is `Ok(None)`. `unlock` answers
/// [`NotHeld`](crate::ErrorKind::NotHeld) when fewer than a majority were held.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use lockson::{Client, RedLock};
///
/// let urls = ["redis://one/", "redis://two/", "redis://three/"];
/// let clients: Vec<Client> = urls
///     .iter()
///     .map(|url| Client::builder().connect_lazy(url))
///     .collect::<lockson::Result<_>>()?;
/// let lock = RedLock::new(clients.iter().map(|one| one.reentrant_lock("orders:42").into()))?;
/// if let Some(guard) = lock.try_lock_for_with_lease(Duration::from_secs(1), Duration::from_secs(10))? {
///     println!("ours for {:?}", guard.validity());
///     guard.unlock()?;
/// }
/// # Ok::<(), lockson::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RedLock {
    handle: Majority,
}

/// A [`RedLock`], held by the thread that acquired it.
///
/// It is released on every member when the guard is dropped.
///
/// # Examples
///
/// ```no_run
/// # let client = lockson::Client::connect("redis://127.0.0.1/")?;
/// # let lock = lockson::RedLock::new([client.reentrant_lock("orders:42").into()])?;
/// let guard = lock.lock()?;
/// println!("ours for {:?}, without {:?}", guard.validity(), guard.lost_members());
/// # Ok::<(), lockson::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "if unused the lock is released immediately"]
#[clippy::has_significant_drop]
pub struct RedGuard {
    grip: Bundle,
    bound: PhantomData<MutexGuard<'static, ()>>,
}

/// A [`RedLock`], held by the guard itself, which may go from thread to thread.
#[derive(Debug)]
#[must_use = "if unused the lock is released immediately"]
#[clippy::has_significant_drop]
pub struct OwnedRedGuard {
    grip: Bundle,
}

impl RedLock {
    /// Makes one lock of several on servers of their own. No I/O.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::ErrorKind::Config) without any member, for two members on the same server
    /// (host and port, or socket; no name is looked up), and for a member that is made of several itself.
    pub fn new(members: impl IntoIterator<Item = AnyLock>) -> Result<Self> {
        let mut handles: Vec<Handle> = Vec::new();
        for member in members {
            let Some(handle) = member.into_one() else {
                return Err(Error::config(
                    "a member of a RedLock is one lock on one server",
                ));
            };
            if handles
                .iter()
                .any(|other| place(other.server()) == place(handle.server()))
            {
                return Err(Error::config(format!(
                    "two members of a RedLock are on the same server: {}",
                    handle.server()
                )));
            }
            handles.push(handle);
        }
        match handles.len() {
            0 => return Err(Error::config("a RedLock needs a member")),
            few @ (1 | 2) => log::warn!("a RedLock of {few} tolerates no loss of a server"),
            even if even % 2 == 0 => {
                log::warn!(
                    "a RedLock of {even} tolerates no more than one of {}",
                    even - 1
                );
            }
            _ => {}
        }
        Ok(Self {
            handle: Majority(handles),
        })
    }

    pub(crate) fn into_handle(self) -> Majority {
        self.handle
    }
}

/// Host and port, or socket, however they are written.
fn place(server: &str) -> String {
    let (host, port) = match server.rsplit_once(':') {
        Some(parts) if !server.contains('/') => parts,
        _ => return server.to_owned(),
    };
    let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
    let address = match &*host {
        "localhost" => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        other => other.parse(),
    };
    match address {
        Ok(IpAddr::V6(Ipv6Addr::LOCALHOST)) => format!("{}:{port}", Ipv4Addr::LOCALHOST),
        Ok(address) => format!("{address}:{port}"),
        Err(_) => format!("{host}:{port}"),
    }
}

lock_methods!(RedLock, RedGuard, OwnedRedGuard);
guard_methods!(RedGuard);
guard_methods!(OwnedRedGuard);

/// Making and unmaking a guard, and what only these have.
macro_rules! of_majority {
    ($guard:ident { $($bound:ident)? }) => {
        impl $guard {
            pub(crate) fn new(grip: Bundle) -> Self {
                Self {
                    grip,
                    $($bound: PhantomData,)?
                }
            }

            pub(crate) fn into_grip(self) -> Bundle {
                self.grip
            }

            /// For how long a majority holds the lock for us, less what clocks may drift. No I/O.
            ///
            /// Zero when it is lost. It grows with each renewal that reaches a majority.
            pub fn validity(&self) -> Duration {
                self.grip.remaining()
            }

            /// The names of the members that were held and are lost, by the clock of this process.
            /// No I/O.
            pub fn lost_members(&self) -> Vec<&str> {
                self.grip.lost_members()
            }
        }
    };
}

of_majority!(RedGuard { bound });
of_majority!(OwnedRedGuard {});

/// Locks of which a majority counts.
#[derive(Clone, Debug)]
pub(crate) struct Majority(Vec<Handle>);

impl Majority {
    pub(crate) fn acquire(&self, terms: &Terms) -> Result<Option<Bundle>> {
        let members: Vec<Member> = self.0.iter().map(Handle::member).collect::<Result<_>>()?;
        engine::acquire_majority(&members, terms)
    }

    /// Whether a majority says so. Asked one after the other, until that is clear.
    pub(crate) fn is_held_by_current_thread(&self) -> Result<bool> {
        let needed = engine::majority(self.0.len());
        let (mut held, mut failed) = (0, None);
        for handle in &self.0 {
            match handle.is_held_as_member() {
                Ok(true) => held += 1,
                Ok(false) => {}
                Err(error) => failed = Some(error),
            }
            if held == needed {
                return Ok(true);
            }
        }
        failed.map_or(Ok(false), Err)
    }
}
