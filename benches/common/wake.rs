//! How long after a release in one process a waiting thread of another one has the lock.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{
    BOUND, Outcome,
    samples::{Outturn, Samples},
    server::Counters,
    side::Side,
};

/// The two take turns: one holds, the other waits, and then the other way round.
///
/// From just before the release to just after the lock was got, by the clock of the machine: what is
/// in it is a release, a message, an acquisition, and a thread that is woken up.
pub(crate) fn between(
    first: &mut Side,
    second: &mut Side,
    counters: &mut Counters,
    name: &str,
    time: Duration,
) -> Outcome<Outturn> {
    let channel = format!("redisson_lock__channel:{{{name}}}");
    let (mut holder, mut waiter) = (first, second);
    let mut samples = Samples::default();
    let began = Instant::now();
    take(holder, name)?;
    holder.answer(BOUND)?;
    while began.elapsed() < time || samples.count() == 0 {
        take(waiter, name)?;
        let asked = Instant::now();
        while counters.listeners(&channel)? == 0 {
            if asked.elapsed() > BOUND {
                return Err("nobody listens to a lock that is held".into());
            }
            thread::sleep(Duration::from_micros(200));
        }
        // It tries once more when it listens, and only then it sleeps.
        thread::sleep(ASLEEP);
        holder.order("release")?;
        let released = at(&holder.answer(BOUND)?)?;
        let taken = at(&waiter.answer(BOUND)?)?;
        samples.push(Duration::from_nanos(taken.saturating_sub(released)));
        std::mem::swap(&mut holder, &mut waiter);
    }
    holder.order("release")?;
    holder.answer(BOUND)?;
    Ok(Outturn {
        counts: vec![samples.count() as u64],
        time: began.elapsed(),
        held: Duration::ZERO,
        waits: samples.summary(),
    })
}

fn take(side: &mut Side, name: &str) -> Outcome {
    side.order(&format!("take {name}"))
}

fn at(answer: &Value) -> Outcome<u64> {
    Ok(answer["at"].as_u64().ok_or("no time was said")?)
}

const ASLEEP: Duration = Duration::from_millis(5);
