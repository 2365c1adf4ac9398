//! One request to Redis and its reply, as plain values.

use std::sync::{Arc, OnceLock};

/// A Lua script. Its digest is worked out once, by whoever sends it.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) source: &'static str,
    pub(crate) digest: OnceLock<String>,
}

impl Script {
    pub(crate) const fn new(source: &'static str) -> Self {
        Self {
            source,
            digest: OnceLock::new(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    Command(&'static str),
    Script(&'static Script),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Argument {
    Int(i64),
    Text(Arc<str>),
}

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) call: Call,
    pub(crate) keys: Vec<Arc<str>>,
    pub(crate) arguments: Vec<Argument>,
}

/// A request together with the way to read its reply.
///
/// Travelling together, the two cannot be mixed up by the engine, which sends requests of kinds it
/// knows nothing about.
#[derive(Clone, Debug)]
pub(crate) struct Ask<T> {
    pub(crate) request: Request,
    pub(crate) decode: fn(Reply) -> Result<T, Malformed>,
}

/// What Redis answered, free of the client library's types.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Nil,
    Int(i64),
    Text(Vec<u8>),
    List(Vec<Self>),
}

/// A reply that does not fit its request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Malformed(pub(crate) Reply);

impl Reply {
    pub(crate) fn int(self) -> Result<i64, Malformed> {
        match self {
            Self::Int(number) => Ok(number),
            other => Err(Malformed(other)),
        }
    }

    pub(crate) fn list(self) -> Result<Vec<Self>, Malformed> {
        match self {
            Self::List(items) => Ok(items),
            other => Err(Malformed(other)),
        }
    }

    /// Text that other programs may have written: never refused, at worst unreadable.
    pub(crate) fn text(self) -> Result<String, Malformed> {
        match self {
            Self::Text(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            other => Err(Malformed(other)),
        }
    }
}
