//! Seven ways to build a lock on Redis, each with its flaw happening, and the same with this crate.
//!
//! Starts private servers and ends them. `-- 7` shows the seventh only. Fails if a flaw was not seen.

#[path = "seven_schemes/hash_lock.rs"]
mod hash_lock;
#[path = "seven_schemes/random_value.rs"]
mod random_value;
#[path = "seven_schemes/red_lock.rs"]
mod red_lock;
#[path = "seven_schemes/report.rs"]
mod report;
#[path = "seven_schemes/script.rs"]
mod script;
#[path = "seven_schemes/servers.rs"]
mod servers;
#[path = "seven_schemes/set_nx_px.rs"]
mod set_nx_px;
#[path = "seven_schemes/setnx_expire.rs"]
mod setnx_expire;
#[path = "seven_schemes/setnx_getset.rs"]
mod setnx_getset;
#[path = "seven_schemes/worker.rs"]
mod worker;

use std::{env, error::Error, process::ExitCode, time::Duration};

use lockson::Client;

use report::Report;
use servers::Server;

/// What a part of the program returns.
pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<ExitCode> {
    worker::unless_first();
    let only = env::args()
        .nth(1)
        .map(|number| number.parse::<usize>())
        .transpose()?;
    if only.is_some_and(|only| !(1..=SCHEMES.len()).contains(&only)) {
        return Err(format!("there are schemes 1 to {}", SCHEMES.len()).into());
    }
    let mut report = Report::default();
    let server = Server::start()?;
    for (number, show) in (1..).zip(SCHEMES) {
        if only.is_none_or(|only| only == number) {
            show(&server, &mut report)?;
        }
    }
    Ok(report.table())
}

type Scheme = fn(&Server, &mut Report) -> Outcome<()>;

const SCHEMES: [Scheme; 7] = [
    setnx_expire::show,
    setnx_getset::show,
    script::show,
    set_nx_px::show,
    random_value::show,
    hash_lock::show,
    red_lock::show,
];

/// How long a hold lives in Redis unless the watchdog renews it: 30 s by default, a twentieth of it here.
pub(crate) const WATCHDOG: Duration = Duration::from_millis(1500);

/// A client of this crate, with a watchdog that does not keep a reader waiting.
pub(crate) fn client(server: &Server) -> lockson::Result<Client> {
    Client::builder()
        .lock_watchdog_timeout(WATCHDOG)
        .connect(&server.url())
}
