//! The least that an uncontended lock can cost: the same two scripts on a plain `redis::Connection`.

use std::time::Duration;

use redis::Value;

use super::{
    Outcome,
    contend::{self, Contest, Turn},
    workload::{What, Workload},
};

pub(crate) const ACQUIRE: &str = include_str!("../../src/protocol/lua/acquire.lua");
pub(crate) const RELEASE: &str = include_str!("../../src/protocol/lua/release.lua");

pub(crate) fn run(url: &str, workload: Workload, name: &str, time: Duration) -> Outcome<Contest> {
    if workload.what != What::Distinct {
        return Err("two scripts alone cannot wait".into());
    }
    let client = redis::Client::open(url)?;
    contend::run(
        &workload.title(),
        workload.threads,
        workload.hold,
        time,
        |number| {
            let mut connection = client.get_connection()?;
            let acquire = load(&mut connection, ACQUIRE)?;
            let release = load(&mut connection, RELEASE)?;
            let key = format!("{name}:{number}");
            let channel = format!("redisson_lock__channel:{{{key}}}");
            // As long as ours.
            let holder = format!("6ab1fd60-36f4-4ef2-9d4d-ffeb5c01b1a5:{number}");
            Ok(move |turn: &mut Turn| {
                let refused: Value = redis::cmd("EVALSHA")
                    .arg(&acquire)
                    .arg(1)
                    .arg(&key)
                    .arg(30_000)
                    .arg(&holder)
                    .arg(1)
                    .query(&mut connection)?;
                turn.taken();
                let told: i64 = redis::cmd("EVALSHA")
                    .arg(&release)
                    .arg(1)
                    .arg(&key)
                    .arg(&holder)
                    .arg(0)
                    .arg(&channel)
                    .query(&mut connection)?;
                match (refused, told) {
                    (Value::Nil, 0) => Ok(()),
                    other => Err(format!("somebody else is there: {other:?}").into()),
                }
            })
        },
    )
}

/// Has the server know a script; answers its digest.
pub(crate) fn load(connection: &mut redis::Connection, script: &str) -> Outcome<String> {
    let mut load = redis::cmd("SCRIPT");
    Ok(load.arg("LOAD").arg(script).query(connection)?)
}
