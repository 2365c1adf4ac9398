//! What is said to Redis for each kind of lock: names, keys, scripts, replies. Pure: no I/O, no clock.

mod fair;
pub(crate) mod joint;
mod kind;
mod names;
mod read_write;
mod reentrant;
mod request;

pub(crate) use fair::Fair;
pub(crate) use joint::{Joint, Parted};
#[cfg(test)]
pub(crate) use kind::Held;
pub(crate) use kind::{
    Acquired, Claim, HandedOver, Holdings, Kind, Left, Part, Queueing, Released, Renewal, Renewed,
    Standing, Subject,
};
pub(crate) use read_write::{Read, Write};
pub(crate) use reentrant::Reentrant;
pub(crate) use request::{Argument, Ask, Call, Malformed, Reply, Request, Script};
