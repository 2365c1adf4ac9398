//! The workloads, done by this crate.

use std::{sync::Mutex, time::Duration};

use lockson::{Client, Guard, Lock, MultiLock, RedLock};

use super::{
    Outcome,
    contend::{self, Contest, Turn},
    workload::{What, Workload},
};

/// A client for each server, connected at the first use.
pub(crate) struct Ours {
    urls: Vec<String>,
    clients: Mutex<Vec<Client>>,
}

impl Ours {
    pub(crate) fn on(urls: &[String]) -> Self {
        Self {
            urls: urls.to_vec(),
            clients: Mutex::default(),
        }
    }

    /// The client of the server with this number.
    pub(crate) fn client(&self, number: usize) -> Outcome<Client> {
        let mut clients = self.clients.lock().map_err(|_| "a thread panicked")?;
        while clients.len() <= number {
            let url = self.urls.get(clients.len()).ok_or("too few servers")?;
            clients.push(Client::connect(url)?);
        }
        Ok(clients[number].clone())
    }

    pub(crate) fn run(&self, workload: Workload, name: &str, time: Duration) -> Outcome<Contest> {
        let client = self.client(0)?;
        let own = |number: usize| format!("{name}:{number}");
        match workload.what {
            What::Distinct => run(workload, time, |number| {
                Ok(turns(client.reentrant_lock(own(number))))
            }),
            What::Hot => run(workload, time, |_| Ok(turns(client.reentrant_lock(name)))),
            What::Fair => run(workload, time, |_| Ok(turns(client.fair_lock(name)))),
            What::Read => run(workload, time, |_| {
                Ok(turns(client.read_write_lock(name).read_lock()))
            }),
            What::Mixed => run(workload, time, |number| {
                let lock = client.read_write_lock(name);
                let mut read = turns(lock.read_lock());
                let mut write = turns(lock.write_lock());
                let mut round = number;
                Ok(move |turn: &mut Turn| {
                    round += 1;
                    match round % 10 {
                        0 => write(turn),
                        _ => read(turn),
                    }
                })
            }),
            What::Multi => run(workload, time, |_| {
                let of_three = |member| client.reentrant_lock(format!("{name}:{member}")).into();
                Ok(turns(MultiLock::new([0, 1, 2].map(of_three))?))
            }),
            What::Red => {
                let clients = (0..self.urls.len()).map(|number| self.client(number));
                let clients = clients.collect::<Outcome<Vec<_>>>()?;
                run(workload, time, |number| {
                    let members = clients.iter();
                    let members = members.map(|client| client.reentrant_lock(own(number)).into());
                    Ok(turns(RedLock::new(members)?))
                })
            }
        }
    }
}

fn turns(lock: impl Lock) -> impl FnMut(&mut Turn) -> Outcome {
    move |turn| {
        let guard = lock.lock()?;
        turn.taken();
        Ok(guard.unlock()?)
    }
}

fn run<T>(
    workload: Workload,
    time: Duration,
    make: impl Fn(usize) -> Outcome<T> + Sync,
) -> Outcome<Contest>
where
    T: FnMut(&mut Turn) -> Outcome,
{
    let label = workload.title();
    contend::run(&label, workload.threads, workload.hold, time, make)
}
