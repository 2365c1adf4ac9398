//! What must hold whoever sits where, when the first reads: readers share, and a writer is refused.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use redis::Commands;

use super::{
    READ, WRITE,
    scenarios::NAMES,
    seats::{BOUND, Pair, Side, WATCHDOG, heard},
};
use crate::support::eventually;

pub(super) fn exclusion(pair: &Pair<'_>) {
    let lock = &pair.name();
    let (reader, writer) = (pair.first, pair.second);
    let beside = writer.by(READ);
    reader.says("tryLock", lock, "true");
    let field = reader.holder(lock);
    assert_eq!(pair.hash(lock), READ.held(&field, 1));
    // Also the reader itself: nobody goes from reading to writing.
    for refused in [writer, reader.on("t2").by(WRITE), reader.by(WRITE)] {
        refused.says("tryLock", lock, "false");
        refused.says("tryLockWL 0 60000", lock, "false");
        refused.says("isLocked", lock, "false");
        refused.says("isHeld", lock, "false");
        refused.refuses("holder", lock, "NotHeld");
    }
    assert_eq!(
        pair.hash(lock),
        READ.held(&field, 1),
        "the refused left nothing"
    );

    beside.says("isLocked", lock, "true");
    beside.says("isHeld", lock, "false");
    beside.says("tryLock", lock, "true");
    let mut both = READ.held(&field, 1);
    both.extend(READ.held(&beside.holder(lock), 1));
    assert_eq!(pair.hash(lock), both);
    reader.says("unlock", lock, "null");
    reader.by(WRITE).says("tryLock", lock, "false");
    beside.says("isHeld", lock, "true");
    beside.says("unlock", lock, "null");
    assert_eq!(pair.hash(lock), BTreeMap::new());

    writer.says("tryLock", lock, "true");
    let field = writer.holder(lock);
    for refused in [reader, reader.on("t2"), beside.on("t2")] {
        refused.says("tryLock", lock, "false");
        refused.says("tryLockWL 0 60000", lock, "false");
        refused.says("isLocked", lock, "false");
        refused.says("isHeld", lock, "false");
    }
    assert_eq!(pair.hash(lock), WRITE.held(&field, 1));
    beside.says("tryLock", lock, "true");
    assert_eq!(pair.hash(lock).len(), 3, "who writes may also read");
    reader.says("tryLock", lock, "false");
    beside.says("unlock", lock, "null");
    assert_eq!(pair.hash(lock), WRITE.held(&field, 1));
    writer.says("unlock", lock, "null");
    assert_eq!(pair.hash(lock), BTreeMap::new());
}

pub(super) fn reentry(pair: &Pair<'_>) {
    let (reader, writer) = (&pair.first, &pair.second);
    let lock = &pair.name();
    reader.says("tryLock", lock, "true");
    reader.says("tryLock", lock, "true");
    let field = reader.holder(lock);
    assert_eq!(pair.hash(lock), READ.held(&field, 2));
    let slots = [1, 2].map(|number| slot(lock, &field, number));
    assert!(slots.iter().all(|slot| pair.pttl(slot) > 0));
    reader.says("holdCount", lock, "2");
    writer.by(READ).says("holdCount", lock, "0");
    writer.says("tryLock", lock, "false");
    if writer.side == Side::Rust {
        let seen = writer.ask("inspect", lock).expect("it can be looked at");
        let holders = format!(" holders={field}×2 ");
        assert!(seen.starts_with("mode=read "), "{seen:?}");
        assert!(seen.contains(&holders), "{seen:?} has{holders}");
    }

    reader.says("unlock", lock, "null");
    assert_eq!(pair.hash(lock), READ.held(&field, 1));
    assert!(pair.pttl(&slots[0]) > 0);
    assert_eq!(pair.pttl(&slots[1]), -2);
    reader.says("holdCount", lock, "1");
    writer.says("tryLock", lock, "false");

    reader.says("unlock", lock, "null");
    assert_eq!(pair.hash(lock), BTreeMap::new());
    assert_eq!(pair.pttl(&slots[0]), -2);
    writer.says("tryLock", lock, "true");
    reader.says("isLocked", lock, "false");
    writer.by(READ).says("tryLock", lock, "true");
    reader.says("isLocked", lock, "true");
    writer.by(READ).says("unlock", lock, "null");
    writer.says("unlock", lock, "null");
}

pub(super) fn time_to_live(pair: &Pair<'_>) {
    let (reader, writer) = (&pair.first, &pair.second);
    let beside = writer.by(READ);
    let lock = &pair.name();
    beside.says("ttl", lock, "-2");
    reader.says("tryLockWL 0 60000", lock, "true");
    let own = slot(lock, &reader.holder(lock), 1);
    let leased = beside.number("ttl", lock);
    for left in [leased, pair.pttl(&own)] {
        assert!((30_000..=60_000).contains(&left), "{left} of a minute");
    }
    writer.says("tryLock", lock, "false");
    assert!(beside.number("ttl", lock) <= leased, "it does not prolong");

    beside.says("tryLockWL 0 20000", lock, "true");
    let short = slot(lock, &beside.holder(lock), 1);
    assert!((1..=20_000).contains(&pair.pttl(&short)));
    assert!(reader.number("ttl", lock) > 20_000, "nor does it shorten");
    reader.says("unlock", lock, "null");
    let left = reader.number("ttl", lock);
    assert!((1..=20_000).contains(&left), "{left} of who stays");
    beside.says("unlock", lock, "null");
    beside.says("ttl", lock, "-2");

    // Redisson gives the last lease of a lock object to who asks for none.
    let lock = &pair.name();
    let timeout = i64::try_from(WATCHDOG.as_millis()).expect("it is short");
    reader.says("tryLock", lock, "true");
    let own = slot(lock, &reader.holder(lock), 1);
    for key in [lock, &own] {
        let mut last = pair.pttl(key);
        eventually(BOUND, "the holder's watchdog renews", || {
            let left = pair.pttl(key);
            assert!((1..=timeout).contains(&left), "{left} of {timeout}");
            let rose = left > last;
            last = left;
            rose
        });
    }
    reader.says("unlock", lock, "null");
    beside.says("ttl", lock, "-2");
}

pub(super) fn force_unlock(pair: &Pair<'_>) {
    let (reader, writer) = (&pair.first, &pair.second);
    let beside = writer.by(READ);
    let lock = &pair.name();
    let mut redis = pair.redis();
    let mut channels = redis.as_pubsub();
    let channel = format!("{}:{{{lock}}}", READ.channel);
    channels.subscribe(&channel).expect("SUBSCRIBE");

    beside.says("forceUnlock", lock, "false");
    reader.says("tryLock", lock, "true");
    reader.says("tryLock", lock, "true");
    beside.says("tryLock", lock, "true");
    writer.says("forceUnlock", lock, "false");
    pair.publish(&channel, "nothing so far");
    assert_eq!(heard(&mut channels).1, "nothing so far");
    let fields = [reader.holder(lock), beside.holder(lock)];

    beside.says("forceUnlock", lock, "true");
    pair.told(&mut channels, &channel, &beside);
    assert_eq!(pair.hash(lock), BTreeMap::new());
    for gone in [reader, &beside] {
        gone.says("isHeld", lock, "false");
        gone.says("holdCount", lock, "0");
    }
    writer.on("t2").says("tryLock", lock, "true");
    let field = writer.on("t2").holder(lock);
    beside.says("forceUnlock", lock, "false");
    for gone in [reader, reader, &beside] {
        gone.refuses("unlock", lock, "NotHeld");
    }
    assert_eq!(pair.hash(lock), WRITE.held(&field, 1));
    writer.on("t2").says("unlock", lock, "null");

    // Nobody takes the slots away then; they end by themselves.
    for (field, number) in [(0, 1), (0, 2), (1, 1)] {
        let slot = slot(lock, &fields[field], number);
        assert_ne!(pair.pttl(&slot), -1, "{slot} ends");
        let _: u64 = pair.redis().del(slot).expect("DEL");
    }
}

pub(super) fn foreign_unlock(pair: &Pair<'_>) {
    let (reader, writer) = (pair.first, pair.second);
    let lock = &pair.name();
    let mut redis = pair.redis();
    let mut channels = redis.as_pubsub();
    let channel = format!("{}:{{{lock}}}", READ.channel);
    channels.subscribe(&channel).expect("SUBSCRIBE");

    reader.says("tryLockWL 0 60000", lock, "true");
    let field = reader.holder(lock);
    let own = slot(lock, &field, 1);
    for foreign in [writer, writer.by(READ), reader.on("t2"), reader.by(WRITE)] {
        foreign.refuses("unlock", lock, "NotHeld");
        foreign.says("drop", lock, "null");
    }
    assert_eq!(pair.hash(lock), READ.held(&field, 1));
    assert!(pair.pttl(&own) > 30_000 && pair.pttl(lock) > 30_000);
    pair.publish(&channel, "nothing so far");
    assert_eq!(heard(&mut channels).1, "nothing so far");
    reader.says("unlock", lock, "null");
    pair.told(&mut channels, &channel, &reader);
}

pub(super) fn end_of_lease(pair: &Pair<'_>) {
    let (reader, writer) = (&pair.first, &pair.second);
    let lock = &pair.name();
    let asked = Instant::now();
    reader.says("tryLockWL 0 800", lock, "true");
    writer.says("tryLock", lock, "false");
    eventually(BOUND, "the lease ends", || {
        writer.ask("tryLock", lock) == Ok("true".to_owned())
    });
    assert!(asked.elapsed() >= Duration::from_millis(800), "not before");

    let field = writer.holder(lock);
    reader.says("isHeld", lock, "false");
    if reader.side == Side::Rust {
        reader.says("guardHeld", lock, "false");
    }
    reader.refuses("unlock", lock, "NotHeld");
    assert_eq!(pair.hash(lock), WRITE.held(&field, 1));
    writer.says("unlock", lock, "null");
}

pub(super) fn names_and_channels(pair: &Pair<'_>) {
    for (lock, tail) in NAMES {
        let mut redis = pair.redis();
        let mut channels = redis.as_pubsub();
        let channel = format!("{}:{tail}", READ.channel);
        channels.subscribe(&channel).expect("SUBSCRIBE");
        let sides = [
            (pair.first, pair.second),
            (pair.second.by(READ), pair.first.by(WRITE)),
        ];
        for (reader, writer) in sides {
            reader.says("tryLock", lock, "true");
            let field = reader.holder(lock);
            assert_eq!(pair.hash(lock), READ.held(&field, 1), "{lock:?}");
            let slot = format!("{tail}:{field}:rwlock_timeout:1");
            assert!(pair.pttl(&slot) > 0, "{slot:?}");
            writer.says("tryLock", lock, "false");
            reader.says("unlock", lock, "null");
            pair.told(&mut channels, &channel, &reader);
            assert_eq!(pair.pttl(&slot), -2, "{slot:?}");
        }
    }
}

/// The key that lives as long as this acquisition of a reader.
pub(super) fn slot(lock: &str, holder: &str, number: u32) -> String {
    format!("{{{lock}}}:{holder}:rwlock_timeout:{number}")
}
