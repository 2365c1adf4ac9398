//! The one error type of the crate and its kinds.

use std::{error, fmt, sync::Arc};

/// What every fallible call of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
///
/// One opaque type for the whole crate: [`kind`](Self::kind) says what happened in a form that a
/// program can act on, [`Display`](fmt::Display) says it for people, and
/// [`source`](error::Error::source) leads to the cause in the layers below. It never carries a
/// password.
///
/// # Examples
///
/// ```no_run
/// use lockson::{Client, ErrorKind};
///
/// match Client::connect("redis://127.0.0.1/") {
///     Ok(client) => println!("connected as {}", client.id()),
///     Err(error) if error.kind() == ErrorKind::NoPermission => eprintln!("bad password: {error}"),
///     Err(error) if error.is_retryable() => eprintln!("not now: {error}"),
///     Err(error) => eprintln!("{error}"),
/// }
/// ```
#[derive(Clone)]
pub struct Error {
    inner: Arc<Inner>,
}

/// The kinds of [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The wait was cancelled by its token.
    Cancelled,
    /// The client was shut down, or this process is a fork of the one that made it.
    Closed,
    /// A setting, an argument or the server's role is not acceptable; nothing was written.
    Config,
    /// The server cannot be reached or does not serve now: refused, reset, TLS, or it answered
    /// `READONLY`, `LOADING`, `BUSY`, `NOREPLICAS`, `MISCONF` or "too many clients".
    Connection,
    /// The hold's own time has passed: it must be taken for lost.
    Lost,
    /// The server refuses this user: a wrong password, or a command, key or channel that its
    /// access list forbids.
    NoPermission,
    /// Redis does not know this hold, or not any more.
    NotHeld,
    /// The server is out of memory and refuses to write.
    OutOfMemory,
    /// The server answered something that this crate does not understand.
    Protocol,
    /// No reply, or no connection, within the time allowed.
    Timeout,
    /// Not available: on this server, for this kind of lock, or in this version of the crate.
    Unsupported,
    /// The call would wait for its own thread.
    WouldDeadlock,
    /// The key holds something that is not a lock.
    WrongType,
}

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    name: Option<Arc<str>>,
    released: bool,
    source: Option<Arc<dyn error::Error + Send + Sync>>,
}

impl Error {
    /// What happened.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// The key in Redis that the failed call was about, where there is one.
    ///
    /// With a [name mapper](crate::ClientBuilder::name_mapper) this is the mapped name.
    pub fn name(&self) -> Option<&str> {
        self.inner.name.as_deref()
    }

    /// Whether the same call may succeed later without anybody changing anything in the program:
    /// true for [`Connection`](ErrorKind::Connection), [`Timeout`](ErrorKind::Timeout) and
    /// [`OutOfMemory`](ErrorKind::OutOfMemory).
    pub fn is_retryable(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Connection | ErrorKind::Timeout | ErrorKind::OutOfMemory
        )
    }

    /// Whether the failed call was a release that did happen.
    ///
    /// True when the key was released but the message for the waiters could not be sent (the
    /// access list forbids `PUBLISH`): they find out by the end of their own sleep.
    pub fn released(&self) -> bool {
        self.inner.released
    }

    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            inner: Arc::new(Inner {
                kind,
                message: message.into(),
                name: None,
                released: false,
                source: None,
            }),
        }
    }

    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Config, message)
    }

    pub(crate) fn closed() -> Self {
        Self::new(ErrorKind::Closed, "the client is closed")
    }

    pub(crate) fn caused_by(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl error::Error + Send + Sync + 'static,
    ) -> Self {
        Self::new(kind, message).edit(|inner| inner.source = Some(Arc::new(source)))
    }

    pub(crate) fn about(self, name: &Arc<str>) -> Self {
        self.edit(|inner| inner.name = Some(Arc::clone(name)))
    }

    /// This error, with what else went wrong in its message.
    pub(crate) fn together_with(self, others: &[Self]) -> Self {
        self.edit(|inner| {
            for other in others {
                inner.message.push_str("; ");
                inner.message.push_str(&other.to_string());
                inner.released &= other.inner.released;
            }
        })
    }

    pub(crate) fn but_released(self) -> Self {
        self.edit(|inner| inner.released = true)
    }

    fn edit(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.inner));
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner.message)?;
        if let Some(name) = &self.inner.name {
            write!(f, " (lock {})", Shortened(name))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Error");
        out.field("kind", &self.inner.kind);
        out.field("message", &self.inner.message);
        if let Some(name) = &self.inner.name {
            out.field("name", &Shortened(name));
        }
        if self.inner.released {
            out.field("released", &true);
        }
        if let Some(source) = &self.inner.source {
            out.field("source", source);
        }
        out.finish()
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match &self.inner.source {
            Some(source) => Some(&**source),
            None => None,
        }
    }
}

/// A name may be a megabyte long: a log line should not be.
pub(crate) struct Shortened<'a>(pub(crate) &'a str);

impl fmt::Display for Shortened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 200;
        match self.0.char_indices().nth(MOST) {
            None => write!(f, "{:?}", self.0),
            Some((end, _)) => write!(f, "{:?}… ({} bytes)", &self.0[..end], self.0.len()),
        }
    }
}

impl fmt::Debug for Shortened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_and_about_which_key() {
        let error = Error::new(ErrorKind::NotHeld, "not held").about(&Arc::from("orders:42"));
        assert_eq!(error.to_string(), "not held (lock \"orders:42\")");
        assert_eq!(error.name(), Some("orders:42"));
        assert!(!error.released());
        assert!(error.but_released().released());
    }

    #[test]
    fn a_huge_name_is_shortened() {
        let error = Error::config("too long").about(&Arc::from("é".repeat(1 << 20)));
        assert!(error.to_string().len() < 1000);
        assert!(error.to_string().contains("2097152 bytes"));
        assert!(format!("{error:?}").len() < 1000);
    }
}
