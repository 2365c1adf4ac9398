//! The RedLock: one lock on several servers.

mod basics;
mod faults;

use std::{sync::Arc, time::Duration};

use lockson::{Client, ClientBuilder, RedLock};

use crate::support::{Ground, Server, connect_to};

/// Servers of their own, a client for each, and one lock on all.
struct Scene {
    servers: Vec<Arc<Server>>,
    clients: Vec<Client>,
    name: String,
}

impl Scene {
    fn new(ground: &Ground, members: usize) -> Self {
        let servers: Vec<_> = (0..members)
            .map(|_| ground.server_with(|plain| plain))
            .collect();
        Self {
            clients: clients(ground, &servers, |plain| plain),
            servers,
            name: ground.name("L"),
        }
    }

    fn lock(&self) -> RedLock {
        red(&self.clients, &self.name)
    }
}

/// Its members have time to answer on a busy machine.
fn clients(
    ground: &Ground,
    servers: &[Arc<Server>],
    settings: impl Fn(ClientBuilder) -> ClientBuilder,
) -> Vec<Client> {
    let settings = |plain: ClientBuilder| settings(plain.red_lock_member_timeout(PATIENT));
    let connected = |server: &Arc<Server>| connect_to(ground, &server.url(), settings);
    servers.iter().map(connected).collect()
}

fn red(clients: &[Client], name: &str) -> RedLock {
    let members = clients.iter().map(|one| one.reentrant_lock(name).into());
    RedLock::new(members).expect("servers of their own")
}

const PATIENT: Duration = Duration::from_millis(500);
