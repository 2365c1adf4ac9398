//! The MultiLock: several locks as one.

mod basics;
mod faults;
mod nothing;
mod waits;

use std::time::Duration;

use lockson::{AnyLock, Client, MultiLock};

/// One lock of these names of one client.
fn plain(client: &Client, names: &[String]) -> MultiLock {
    let members = names.iter().map(|name| client.reentrant_lock(name).into());
    MultiLock::new(members).expect("there are some")
}

fn of(members: impl IntoIterator<Item = AnyLock>) -> MultiLock {
    MultiLock::new(members).expect("there are some")
}

/// For facts that are due at once, on a machine that is busy with other things.
const SOON: Duration = Duration::from_secs(10);
