//! Scheme 7: a server with a replica, and the lock on several servers.

use std::time::{Duration, Instant};

use lockson::{Client, Ended, LostReason, RedLock};

use crate::{
    Outcome, WATCHDOG, client,
    report::{Report, Row, heading, lockson, recipe},
    servers::{Server, wait_until},
};

const NAME: &str = "seven";

pub(crate) fn show(_: &Server, report: &mut Report) -> Outcome<()> {
    heading("7. A replica that takes over, and RedLock");
    failover(report)?;
    forgetful(report)
}

/// The recipe: a majority of servers took it.
fn majority(servers: &[&Server], value: &str) -> usize {
    servers
        .iter()
        .filter(|server| set(server, value).unwrap_or(false))
        .count()
}

fn set(server: &Server, value: &str) -> Outcome<bool> {
    let mut set = redis::cmd("SET");
    set.arg("seven:recipe")
        .arg(value)
        .arg("NX")
        .arg("PX")
        .arg(60_000);
    let said: Option<String> = set.query(&mut server.connection()?)?;
    Ok(said.is_some())
}

/// The same with this crate. The clients are made without looking whether their servers are up.
fn red_lock(servers: &[&Server]) -> lockson::Result<RedLock> {
    let clients = servers.iter().map(|server| {
        let builder = Client::builder()
            .lock_watchdog_timeout(WATCHDOG)
            // It waits for three servers on one machine, which has other things to do.
            .red_lock_member_timeout(Duration::from_millis(500));
        builder.connect_lazy(&server.url())
    });
    let clients: Vec<Client> = clients.collect::<lockson::Result<_>>()?;
    RedLock::new(
        clients
            .iter()
            .map(|client| client.reentrant_lock(NAME).into()),
    )
}

/// The lock was not copied yet when its server died.
fn failover(report: &mut Report) -> Outcome<()> {
    let mut primary = Server::start()?;
    let replica = Server::replica_of(&primary)?;
    let (second, third) = (Server::start()?, Server::start()?);

    // From here on nothing is copied any more.
    replica.freeze()?;
    let kill = ["CLIENT", "KILL", "TYPE", "replica"];
    command(&primary, &kill)?;
    wait_until("the replica is cut off", || {
        primary
            .info("replication", "connected_slaves")
            .is_ok_and(|count| count == "0")
    })?;

    let a = set(&primary, "a-6c1f")?;
    let client = client(&primary)?;
    let single = client.reentrant_lock("seven:single").lock()?;
    let lock = red_lock(&[&primary, &second, &third])?;
    let held = lock.lock()?;
    primary.kill();
    let died = Instant::now();
    replica.thaw()?;
    command(&replica, &["REPLICAOF", "NO", "ONE"])?;
    wait_until("the replica takes over", || {
        replica
            .info("replication", "role")
            .is_ok_and(|role| role == "master")
    })?;

    let b = set(&replica, "b-90e2")?;
    recipe(
        "A locks; its server dies before it has told its replica, which takes over: B is in, beside A",
    );
    let told = single.lost().wait(Duration::from_secs(10));
    lockson(format!(
        "on one server: A is told {:.1?} after that: {told:?}",
        died.elapsed()
    ));
    let refused = red_lock(&[&replica, &second, &third])?
        .try_lock_for(Duration::from_millis(300))?
        .is_none();
    let validity = held.validity();
    lockson(format!(
        "RedLock with that server as one of three: B is refused, A's is valid for {validity:.1?}"
    ));
    report.add(Row {
        scheme: "7 one server with a replica",
        flaw: "a failover loses the key: two holders",
        seen: a && b,
        ours: "prevented by RedLock on three; on one server told, within its lease",
        kept: refused && held.is_held() && told == Ended::Lost(LostReason::Expired),
    });
    held.unlock()?;
    Ok(())
}

/// A server comes back without what it has promised.
fn forgetful(report: &mut Report) -> Outcome<()> {
    let mut first = Server::start()?;
    let second = Server::start()?;
    let mut third = Server::start()?;

    third.kill();
    let a = majority(&[&first, &second, &third], "a-6c1f");
    let held = red_lock(&[&first, &second, &third])?.lock()?;
    first.kill();
    first.start_again()?;
    third.start_again()?;
    let forgot = Instant::now();
    let b = majority(&[&first, &second, &third], "b-90e2");
    recipe(format!(
        "A locks on {a} of 3 servers, the third is down; the first restarts without its data"
    ));
    recipe(format!(
        "B locks on {b} of 3: two majorities. A is not told"
    ));

    let second_majority =
        red_lock(&[&first, &second, &third])?.try_lock_for(Duration::from_secs(5))?;
    let told = held.lost().wait(Duration::from_secs(10));
    lockson(format!(
        "B is in here too: {}. A is told {:.1?} after the restart: {told:?}, by {:?}",
        second_majority.is_some(),
        forgot.elapsed(),
        held.lost_members(),
    ));
    report.add(Row {
        scheme: "7 RedLock",
        flaw: "a server forgets its promise: two majorities",
        seen: a == 2 && b == 2,
        ours: "not prevented; told at the next renewal: keep such a server away for a lease",
        kept: second_majority.is_some() && matches!(told, Ended::Lost(_)),
    });
    Ok(())
}

fn command(server: &Server, words: &[&str]) -> Outcome<()> {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(word);
    }
    Ok(command.query(&mut server.connection()?)?)
}
