//! What must hold whoever sits where.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::seats::{BOUND, Pair, Side, WATCHDOG, heard};
use crate::support::eventually;

pub(super) fn exclusion(pair: &Pair<'_>) {
    let lock = &pair.name();
    for (holder, other) in [(pair.first, pair.second), (pair.second, pair.first)] {
        holder.says("tryLock", lock, "true");
        let field = holder.holder(lock);
        assert_eq!(pair.hash(lock), pair.kind.held(&field, 1));

        for refused in [other, holder.on("t2")] {
            refused.says("tryLock", lock, "false");
            refused.says("tryLockWL 0 60000", lock, "false");
            refused.says("isLocked", lock, "true");
            refused.says("isHeld", lock, "false");
            refused.refuses("holder", lock, "NotHeld");
        }
        holder.says("isHeld", lock, "true");
        assert_eq!(
            pair.hash(lock),
            pair.kind.held(&field, 1),
            "the refused left nothing"
        );

        holder.says("unlock", lock, "null");
        assert_eq!(pair.hash(lock), BTreeMap::new());
        other.says("isLocked", lock, "false");
    }
}

pub(super) fn reentry(pair: &Pair<'_>) {
    let Pair { first, second, .. } = pair;
    let lock = &pair.name();
    first.says("tryLock", lock, "true");
    first.says("tryLock", lock, "true");
    let field = first.holder(lock);
    assert_eq!(pair.hash(lock), pair.kind.held(&field, 2));
    first.says("holdCount", lock, "2");
    second.says("holdCount", lock, "0");
    second.says("tryLock", lock, "false");
    if second.side == Side::Rust {
        let seen = second
            .ask("inspect", lock)
            .expect("a lock can be looked at");
        let holders = format!(" holders={field}×2 ");
        assert!(seen.contains(&holders), "{seen:?} has{holders}");
    }

    first.says("unlock", lock, "null");
    assert_eq!(pair.hash(lock), pair.kind.held(&field, 1));
    first.says("holdCount", lock, "1");
    second.says("tryLock", lock, "false");

    first.says("unlock", lock, "null");
    assert_eq!(pair.hash(lock), BTreeMap::new());
    second.says("tryLock", lock, "true");
    second.says("unlock", lock, "null");
}

pub(super) fn time_to_live(pair: &Pair<'_>) {
    let Pair { first, second, .. } = pair;
    let lock = &pair.name();
    second.says("ttl", lock, "-2");

    first.says("tryLockWL 0 60000", lock, "true");
    let leased = second.number("ttl", lock);
    assert!((30_000..=60_000).contains(&leased), "{leased} of a minute");
    second.says("tryLock", lock, "false");
    let left = second.number("ttl", lock);
    assert!(left <= leased, "who is refused does not prolong");
    first.says("unlock", lock, "null");
    second.says("ttl", lock, "-2");

    let timeout = i64::try_from(WATCHDOG.as_millis()).expect("it is short");
    first.says("tryLock", lock, "true");
    let mut last = second.number("ttl", lock);
    assert!((1..=timeout).contains(&last), "{last} of {timeout}");
    eventually(BOUND, "the holder's watchdog renews", || {
        let left = second.number("ttl", lock);
        assert!((1..=timeout).contains(&left), "{left} of {timeout}");
        let rose = left > last;
        last = left;
        rose
    });
    first.says("unlock", lock, "null");
    second.says("ttl", lock, "-2");
}

pub(super) fn force_unlock(pair: &Pair<'_>) {
    let Pair { first, second, .. } = pair;
    let lock = &pair.name();
    let mut redis = pair.redis();
    let mut channels = redis.as_pubsub();
    let channel = format!("{}:{{{lock}}}", pair.kind.channel);
    channels.subscribe(&channel).expect("SUBSCRIBE");

    second.says("forceUnlock", lock, "false");
    pair.publish(&channel, "nothing so far");
    assert_eq!(heard(&mut channels).1, "nothing so far");

    first.says("tryLock", lock, "true");
    first.says("tryLock", lock, "true");
    second.says("forceUnlock", lock, "true");
    pair.told(&mut channels, &channel, second);
    assert_eq!(pair.hash(lock), BTreeMap::new());
    first.says("isHeld", lock, "false");
    first.says("holdCount", lock, "0");

    second.says("tryLock", lock, "true");
    let field = second.holder(lock);
    first.refuses("unlock", lock, "NotHeld");
    assert_eq!(
        pair.hash(lock),
        pair.kind.held(&field, 1),
        "the second's is untouched"
    );
    second.says("unlock", lock, "null");
    // Its other acquisition: the Rust side has one more guard, which must not reach anybody.
    second.says("tryLock", lock, "true");
    first.refuses("unlock", lock, "NotHeld");
    second.says("unlock", lock, "null");
}

pub(super) fn foreign_unlock(pair: &Pair<'_>) {
    let Pair { first, second, .. } = pair;
    let lock = &pair.name();
    let mut redis = pair.redis();
    let mut channels = redis.as_pubsub();
    let channel = format!("{}:{{{lock}}}", pair.kind.channel);
    channels.subscribe(&channel).expect("SUBSCRIBE");

    first.says("tryLockWL 0 60000", lock, "true");
    let field = first.holder(lock);
    let before = second.number("ttl", lock);
    for foreign in [*second, first.on("t2"), second.on("t2")] {
        foreign.refuses("unlock", lock, "NotHeld");
        foreign.says("drop", lock, "null");
    }
    assert_eq!(pair.hash(lock), pair.kind.held(&field, 1));
    let after = second.number("ttl", lock);
    assert!((1..=before).contains(&after), "{before}, then {after}");
    pair.publish(&channel, "nothing so far");
    assert_eq!(heard(&mut channels).1, "nothing so far");
    first.says("unlock", lock, "null");
    pair.told(&mut channels, &channel, first);
}

pub(super) fn end_of_lease(pair: &Pair<'_>) {
    let Pair { first, second, .. } = pair;
    let lock = &pair.name();
    let asked = Instant::now();
    first.says("tryLockWL 0 800", lock, "true");
    second.says("tryLock", lock, "false");
    eventually(BOUND, "the lease ends", || {
        second.ask("tryLock", lock) == Ok("true".to_owned())
    });
    assert!(asked.elapsed() >= Duration::from_millis(800), "not before");

    let field = second.holder(lock);
    first.says("isHeld", lock, "false");
    if first.side == Side::Rust {
        first.says("guardHeld", lock, "false");
    }
    first.refuses("unlock", lock, "NotHeld");
    assert_eq!(
        pair.hash(lock),
        pair.kind.held(&field, 1),
        "the second's is untouched"
    );
    second.says("unlock", lock, "null");
}

pub(super) fn names_and_channels(pair: &Pair<'_>) {
    for (lock, tail) in NAMES {
        let mut redis = pair.redis();
        let mut channels = redis.as_pubsub();
        let channel = format!("{}:{tail}", pair.kind.channel);
        channels.subscribe(&channel).expect("SUBSCRIBE");
        for (holder, other) in [(pair.first, pair.second), (pair.second, pair.first)] {
            holder.says("tryLock", lock, "true");
            assert_eq!(
                pair.hash(lock),
                pair.kind.held(&holder.holder(lock), 1),
                "{lock:?}"
            );
            other.says("tryLock", lock, "false");
            holder.says("unlock", lock, "null");
            pair.told(&mut channels, &channel, &holder);
        }
    }
}

/// With what stands behind the colon of a channel. Any opening brace keeps the name from being
/// wrapped, also one that makes no hash tag.
pub(super) const NAMES: [(&str, &str); 10] = [
    ("plain", "{plain}"),
    ("{a}b", "{a}b"),
    ("x{a}y", "x{a}y"),
    ("{a", "{a"),
    ("a}b", "{a}b}"),
    ("{}", "{}"),
    ("{}x", "{}x"),
    ("}{", "}{"),
    ("naïve-锁-%20%", "{naïve-锁-%20%}"),
    ("a:b,c/d*?[e]\\\"'", "{a:b,c/d*?[e]\\\"'}"),
];
