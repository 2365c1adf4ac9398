//! The way to one Redis server: connections, and the call with its repetition.

mod call;
mod connection;
mod dial;
mod endpoint;
mod failure;
#[cfg(test)]
mod garbage;
mod gate;
mod link;
mod notifier;
mod pool;
mod wire;

pub(crate) use call::{Answer, Budget, Earlier, Failure, Transport, Written, wake};
pub(crate) use connection::Fence;
pub(crate) use endpoint::Endpoint;
pub(crate) use failure::kind_in_text;
pub(crate) use gate::Lane;
pub(crate) use link::Link;
pub(crate) use notifier::{HEARTBEAT, Listener, Notice, Subscription};
