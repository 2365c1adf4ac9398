//! Money goes from account to account in both directions, each pair behind a MultiLock.
//!
//! On the server that REDIS_URL names, or on a private one.

#[path = "tour/private_server.rs"]
mod private_server;

use std::{
    sync::atomic::{AtomicI64, Ordering},
    thread,
};

use lockson::{Client, MultiLock, Result};

/// Accounts that are read and written in two steps: without a lock, updates would be lost.
type Accounts = [AtomicI64; 3];

fn main() -> Result<()> {
    let server = private_server::PrivateServer::unless_given();
    let accounts = Accounts::from([100, 100, 100].map(AtomicI64::new));
    let ways = [(0, 1), (1, 0), (1, 2), (2, 0)];
    thread::scope(|scope| {
        let mut tellers = Vec::new();
        for (from, to) in ways {
            let client = Client::connect(&server.url())?;
            let accounts = &accounts;
            tellers.push(scope.spawn(move || {
                for _ in 0..25 {
                    transfer(&client, accounts, from, to, 1)?;
                }
                Ok(())
            }));
        }
        tellers
            .into_iter()
            .try_for_each(|teller| teller.join().expect("no teller panics"))
    })?;
    let balances = accounts.map(AtomicI64::into_inner);
    println!(
        "balances {balances:?}, together {}",
        balances.iter().sum::<i64>()
    );
    Ok(())
}

fn transfer(client: &Client, accounts: &Accounts, from: usize, to: usize, sum: i64) -> Result<()> {
    let [debit, credit] =
        [from, to].map(|number| client.reentrant_lock(format!("example:account:{number}")));
    // Both or none, by one request. The order does not matter: the opposite one locks nobody out.
    let both = MultiLock::new([debit.into(), credit.into()])?;
    let guard = both.lock()?;
    let (left, right) = (&accounts[from], &accounts[to]);
    let (poorer, richer) = (
        left.load(Ordering::Relaxed) - sum,
        right.load(Ordering::Relaxed) + sum,
    );
    thread::yield_now();
    left.store(poorer, Ordering::Relaxed);
    right.store(richer, Ordering::Relaxed);
    guard.unlock()
}
