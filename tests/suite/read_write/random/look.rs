//! What Redis has of the lock while nobody does anything.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::{
    super::millis,
    world::{BLUR, Entry, LOWERED, State},
};
use crate::support::Server;

/// By then the watchdogs have raised it again.
const RAISED: Duration = millis(1200);

/// All there is of a lock in one moment.
const LOOK: &str = "
    local times, slots = {}, redis.call('keys', ARGV[1] .. '*')
    for at, slot in ipairs(slots) do
        times[at] = redis.call('pttl', slot)
    end
    return { redis.call('pttl', KEYS[1]), redis.call('hgetall', KEYS[1]), slots, times }";

/// Nobody does anything: what Redis has is what the guards say.
pub(super) fn look(server: &Server, name: &str, state: &mut State) -> Result<(), String> {
    type Found = (i64, BTreeMap<String, String>, Vec<String>, Vec<i64>);
    let stem = format!("{{{name}}}:");
    let (ttl, mut fields, slots, times): Found = redis::cmd("EVAL")
        .arg(LOOK)
        .arg(1)
        .arg(name)
        .arg(&stem)
        .query(&mut server.connection())
        .expect("answered");
    let mut slots: BTreeMap<String, i64> = slots.into_iter().zip(times).collect();
    let seen = format!("{ttl} {fields:?} {slots:?}");
    let now = Instant::now();
    let at_least = |pttl: i64, end: Instant| {
        let lives = now + Duration::from_millis(pttl.max(0).unsigned_abs());
        lives + BLUR >= end
    };
    let exact = state.is_exact();
    let mode = fields.remove("mode");
    let mut holds: BTreeMap<(&str, bool), Vec<(&Entry, Instant)>> = BTreeMap::new();
    for (belief, end) in state.ends.iter().flatten().flatten() {
        let entry = &state.entries[state.place(*belief)];
        let hold = holds.entry((&entry.who.holder, entry.who.writes));
        hold.or_default().push((entry, *end));
    }
    for ((holder, writes), guards) in holds {
        let field = match writes {
            true => fields.remove(&format!("{holder}:write")),
            false => fields.remove(holder),
        };
        let prefix = format!("{stem}{holder}:rwlock_timeout:");
        let (mut longest, mut highest) = (-2, 0);
        if !writes {
            slots.retain(|slot, time| {
                let Some(number) = slot.strip_prefix(&prefix) else {
                    return true;
                };
                highest = highest.max(number.parse().expect("a number"));
                longest = longest.max(*time);
                false
            });
        }
        let check = |is_so: bool, what: &str| match is_so {
            true => Ok(()),
            false => Err(format!("{what} of {holder}, writes {writes}: {seen}")),
        };
        if guards.iter().any(|(entry, _)| entry.tainted) {
            continue;
        }
        check(highest <= guards.len() || !exact, "a slot too many")?;
        // Asked after Redis was: who believes now did so then.
        if guards[0].0.who.signal.is_lost() {
            continue;
        }
        let count = field.and_then(|field| field.parse().ok());
        check(
            count == Some(guards.len()) || count.is_some() && !exact,
            "the count",
        )?;
        let mut end = guards.iter().map(|(_, end)| *end).max().expect("one");
        if writes {
            check(mode.as_deref() == Some("write"), "the mode")?;
        } else {
            check(at_least(longest, end), "the longest slot")?;
            if state.lowered.is_some_and(|at| at.elapsed() < LOWERED) {
                end = end.min(now + (LOWERED - RAISED));
            }
        }
        check(at_least(ttl, end), "the time")?;
        state.counts.found += 1;
    }
    slots.retain(|slot, _| !state.is_of_forced(slot, &stem));
    match fields.is_empty() && slots.is_empty() {
        true => Ok(()),
        false => Err(format!("{fields:?} and {slots:?} are nobody's: {seen}")),
    }
}
