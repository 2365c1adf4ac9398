//! The way to one Redis server: connections, and the call with its repetition.

mod call;
mod connection;
mod dial;
mod endpoint;
mod failure;
mod gate;
mod link;
mod pool;
mod wire;

pub(crate) use call::{Budget, Transport};
pub(crate) use connection::Fence;
pub(crate) use endpoint::Endpoint;
pub(crate) use failure::kind_in_text;
pub(crate) use gate::Lane;
pub(crate) use link::Link;
