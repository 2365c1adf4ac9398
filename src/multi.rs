//! The MultiLock: several locks as one.

use std::{marker::PhantomData, sync::MutexGuard};

use crate::{
    any::AnyLock,
    engine::{self, Bundle, Member, Terms},
    error::{Error, Result},
    family::lock_methods,
    guard::guard_methods,
    handle::Handle,
};

/// Redisson's MultiLock: several locks that are taken and released as one.
///
/// A handle: cheap, without any I/O, `Clone`, `Send` and `Sync`. The members may be of any kind, and of
/// different clients; each is an ordinary lock, which others take by itself. There are no questions
/// about a key: ask the members.
///
/// # All or nothing
///
/// Reentrant locks of one client are taken by one request, all or none of them. When one is refused,
/// nothing is held while it waits for that one; it is then taken first, and if the rest is not to be had
/// within 20 ms, everything is released and it waits for the next that refused. So two MultiLocks over
/// the same names in opposite order do not lock each other out, be they in Java or here.
///
/// A lease begins when all are taken. On every way out (error, cancel, timeout, panic) all that was
/// taken is released. A server that hangs does not keep what is held on others; a
/// [`try_lock`](Self::try_lock) that holds some members already gives the server of the next 200 ms to answer.
///
/// # Ownership
///
/// As with each member: a thread that has some of them already takes them once more, as it does with
/// one that is named twice. An owned guard takes none twice, and such a MultiLock refuses it.
///
/// # What Redis holds
///
/// What each member holds there. Nothing says that they belong together.
///
/// # When it can be lost
///
/// As soon as one member is: then the guard says so, and which
/// ([`lost_members`](MultiGuard::lost_members)). Releasing it releases the others all the same.
///
/// # Errors
///
/// Those of its members. A call that fails has released what it took. `unlock` releases every member
/// whatever becomes of the others, and answers one error for all that failed.
///
/// # Examples
///
/// ```no_run
/// use lockson::MultiLock;
///
/// # let client = lockson::Client::connect("redis://127.0.0.1/")?;
/// let (from, to) = (client.reentrant_lock("account:1"), client.reentrant_lock("account:2"));
/// let both = MultiLock::new([from.into(), to.into()])?;
/// let guard = both.lock()?;
/// // Neither account changes now.
/// guard.unlock()?;
/// # Ok::<(), lockson::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MultiLock {
    handle: Handles,
}

/// All locks of a [`MultiLock`], held by the thread that acquired them.
///
/// They are released when the guard is dropped.
///
/// # Examples
///
/// ```no_run
/// # use lockson::MultiLock;
/// # let client = lockson::Client::connect("redis://127.0.0.1/")?;
/// # let locks = ["a", "b"].map(|name| client.reentrant_lock(name).into());
/// let guard = MultiLock::new(locks)?.lock()?;
/// if !guard.is_held() {
///     eprintln!("lost: {:?}", guard.lost_members());
/// }
/// # Ok::<(), lockson::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "if unused the locks are released immediately"]
#[clippy::has_significant_drop]
pub struct MultiGuard {
    grip: Bundle,
    bound: PhantomData<MutexGuard<'static, ()>>,
}

/// All locks of a [`MultiLock`], held by the guard itself, which may go from thread to thread.
#[derive(Debug)]
#[must_use = "if unused the locks are released immediately"]
#[clippy::has_significant_drop]
pub struct OwnedMultiGuard {
    grip: Bundle,
}

impl MultiLock {
    /// Makes one lock of several. No I/O. A MultiLock among them stands for its members.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::ErrorKind::Config) without any member, and for a member that is a
    /// [`RedLock`](crate::RedLock).
    pub fn new(members: impl IntoIterator<Item = AnyLock>) -> Result<Self> {
        let mut handles = Vec::new();
        for member in members {
            let Some(all) = member.into_all() else {
                return Err(Error::config("a RedLock cannot be one of several"));
            };
            handles.extend(all);
        }
        if handles.is_empty() {
            return Err(Error::config("a MultiLock needs a member"));
        }
        Ok(Self {
            handle: Handles(handles),
        })
    }

    pub(crate) fn into_handle(self) -> Handles {
        self.handle
    }
}

lock_methods!(MultiLock, MultiGuard, OwnedMultiGuard);
guard_methods!(MultiGuard);
guard_methods!(OwnedMultiGuard);

/// Making and unmaking a guard, and what only these have.
macro_rules! of_bundle {
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

            /// The names of the members that are lost, by the clock of this process. No I/O.
            pub fn lost_members(&self) -> Vec<&str> {
                self.grip.lost_members()
            }
        }
    };
}

of_bundle!(MultiGuard { bound });
of_bundle!(OwnedMultiGuard {});

/// What several locks of one key each are made of.
#[derive(Clone, Debug)]
pub(crate) struct Handles(pub(crate) Vec<Handle>);

impl Handles {
    pub(crate) fn acquire(&self, terms: &Terms) -> Result<Option<Bundle>> {
        if terms.owned && self.has_doubles() {
            return Err(Error::config(
                "an owned guard cannot hold the same lock twice",
            ));
        }
        let members: Vec<Member> = self.0.iter().map(Handle::member).collect::<Result<_>>()?;
        engine::acquire_all(&members, terms)
    }

    pub(crate) fn is_held_by_current_thread(&self) -> Result<bool> {
        for handle in &self.0 {
            if !handle.is_held_by_current_thread()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn has_doubles(&self) -> bool {
        let mut rest = &self.0[..];
        while let [first, others @ ..] = rest {
            if others.iter().any(|other| other.is(first)) {
                return true;
            }
            rest = others;
        }
        false
    }
}
