//! The RedLock: one lock on several servers.

mod basics;
mod faults;
mod replies;
mod validity;
mod waits;

use std::{sync::Arc, time::Duration};

use lockson::{Client, ClientBuilder, RedLock};
use redis::Commands;

use crate::support::{Ground, Server, connect_to, eventually};

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

    fn with(
        ground: &Ground,
        members: usize,
        settings: impl Fn(ClientBuilder) -> ClientBuilder,
    ) -> Self {
        let mut scene = Self::new(ground, members);
        scene.clients = clients(ground, &scene.servers, settings);
        scene
    }

    fn lock(&self) -> RedLock {
        red(&self.clients, &self.name)
    }

    /// Its lock, which has been used: the servers know the scripts, and the clients are connected.
    fn warm(&self) -> RedLock {
        let lock = self.lock();
        for _ in 0..2 {
            lock.lock().expect("free").unlock().expect("held");
        }
        lock
    }

    fn is_free(&self) -> bool {
        let mut servers = self.servers.iter();
        !servers.any(|server| is_there(server, &self.name))
    }

    /// Somebody listens on every server.
    #[track_caller]
    fn assert_heard(&self) {
        let channel = format!("redisson_lock__channel:{{{}}}", self.name);
        for server in &self.servers {
            eventually(SOON, "it listens", || {
                let (_, ears): (String, u64) = redis::cmd("PUBSUB")
                    .arg("NUMSUB")
                    .arg(&channel)
                    .query(&mut server.connection())
                    .expect("PUBSUB");
                ears > 0
            });
        }
    }

    #[track_caller]
    fn assert_free_soon(&self) {
        eventually(SOON, "nothing is left", || self.is_free());
    }

    /// Nothing is left, and not because its time was over.
    #[track_caller]
    fn assert_released(&self) {
        self.assert_free_soon();
        for server in &self.servers {
            let stats: String = redis::cmd("INFO")
                .arg("stats")
                .query(&mut server.connection())
                .expect("INFO");
            assert!(
                stats.contains("expired_keys:0\r\n"),
                "released, not expired"
            );
        }
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

fn is_there(server: &Server, name: &str) -> bool {
    server.connection().exists(name).expect("EXISTS")
}

fn stop(servers: &[Arc<Server>]) {
    servers.iter().for_each(|server| server.freeze());
}

fn start(servers: &[Arc<Server>]) {
    servers.iter().for_each(|server| server.thaw());
}

const PATIENT: Duration = Duration::from_millis(500);

/// What a busy machine may add.
const SLACK: Duration = Duration::from_millis(800);

/// For facts that are due at once, on a machine that is busy with other things.
const SOON: Duration = Duration::from_secs(20);
