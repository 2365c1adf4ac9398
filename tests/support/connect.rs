//! Clients of a test, whose threads must be gone when it ends.

use lockson::{Client, ClientBuilder};

use super::Ground;

/// A client on the test's plain server.
#[track_caller]
pub fn connect(ground: &Ground) -> Client {
    connect_with(ground, |plain| plain)
}

#[track_caller]
pub fn connect_with(
    ground: &Ground,
    settings: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> Client {
    connect_to(ground, &ground.server().url(), settings)
}

#[track_caller]
pub fn connect_to(
    ground: &Ground,
    url: &str,
    settings: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> Client {
    watched(ground, settings(Client::builder()).connect(url))
}

/// A client that the test made in its own way.
#[track_caller]
pub fn watched(ground: &Ground, client: lockson::Result<Client>) -> Client {
    let client = client.expect("the client can be made");
    ground.watch_tag(&client.id()[..5]);
    client
}
