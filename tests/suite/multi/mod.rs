//! The MultiLock: several locks as one.

mod basics;
mod faults;

use lockson::{AnyLock, Client, MultiLock};

/// One lock of these names of one client.
fn plain(client: &Client, names: &[String]) -> MultiLock {
    let members = names.iter().map(|name| client.reentrant_lock(name).into());
    MultiLock::new(members).expect("there are some")
}

fn of(members: impl IntoIterator<Item = AnyLock>) -> MultiLock {
    MultiLock::new(members).expect("there are some")
}
