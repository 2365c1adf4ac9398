//! The locks of several members, with Redisson on either side.

mod crowds;
mod scene;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use self::scene::{CLIENTS, Party, Scene, Several, Table, seat_clients};
use super::{
    DIRECTIONS, is_beside_java,
    processes::{java_peer, rust_peer},
    seats::{BOUND, Side, WATCHDOG},
    waits::got,
};
use crate::support::{Ground, eventually};

const MULTI: Several = Several {
    word: "multi",
    servers: 1,
    needed: 3,
};

const RED: Several = Several {
    word: "red",
    servers: 3,
    needed: 2,
};

/// Makes a test of each kind and scenario.
macro_rules! table {
    (kinds { $($module:ident: $kind:ident,)+ } scenarios $scenarios:tt) => {$(
        mod $module {
            table! { @tests super::$kind; $scenarios }
        }
    )+};
    (@tests $kind:expr; { $($scenario:ident,)+ }) => {$(
        #[test]
        fn $scenario() {
            super::play(stringify!($scenario), $kind, super::$scenario);
        }
    )+};
}

table! {
    kinds {
        multi: MULTI,
        red: RED,
    }
    scenarios {
        exclusion,
        members_are_plain_locks,
        reentry,
        release_lets_the_waiting_other_in,
        who_gives_up_leaves_nothing,
        killed_holder,
    }
}

/// Plays a scenario in all directions, also after one has failed.
fn play(scenario: &str, kind: Several, act: fn(&Scene<'_>, &Ground)) {
    if !is_beside_java() {
        return;
    }
    let ground = Ground::new();
    let table = Table::new(&ground, kind);
    let mut failed = Vec::new();
    for sides in DIRECTIONS {
        let title = format!(
            "{} {scenario}: {:?}, then {:?}",
            kind.word, sides.0, sides.1
        );
        eprintln!("{title}");
        let scene = table.scene(&ground, sides);
        if catch_unwind(AssertUnwindSafe(|| act(&scene, &ground))).is_err() {
            failed.push(title);
        }
    }
    table.sweep();
    assert!(failed.is_empty(), "failed:\n  {}", failed.join("\n  "));
}

fn exclusion(scene: &Scene<'_>, _: &Ground) {
    let Scene { first, second, .. } = scene;
    for (holder, other) in [(first, second), (second, first)] {
        holder.says("tryLock", "true");
        scene.assert_held(holder, 1);
        let before = scene.hashes();
        for refused in [other, &holder.on("t2")] {
            refused.says("tryLock", "false");
            refused.says("tryLockWL 0 60000", "false");
            refused.says("tryLockW 200", "false");
            refused.says("isHeld", "false");
            refused.refuses("holder", "NotHeld");
            for place in 0..3 {
                refused.member_says(place, "tryLock", "false");
            }
        }
        holder.says("isHeld", "true");
        assert_eq!(scene.hashes(), before, "the refused left nothing");
        holder.says("unlock", "null");
        assert!(scene.is_free());
        for party in [holder, other] {
            party.refuses("unlock", "NotHeld");
        }
    }
}

/// Who has one member by itself keeps a MultiLock out; a RedLock, who has two.
fn members_are_plain_locks(scene: &Scene<'_>, _: &Ground) {
    let Scene { first, second, .. } = scene;
    let spare = 3 - scene.kind().needed;
    for place in 0..3 {
        let taken: Vec<usize> = (place..=place + spare).map(|one| one % 3).collect();
        for (already, place) in taken.iter().enumerate() {
            if already == spare && spare > 0 {
                first.says("tryLock", "true");
                first.says("unlock", "null");
            }
            second.member_says(*place, "tryLockWL 0 60000", "true");
        }
        let before = scene.hashes();
        for refused in ["tryLock", "tryLockWL 0 60000", "tryLockW 200"] {
            first.says(refused, "false");
            assert_eq!(scene.hashes(), before, "{refused} left nothing");
        }
        for place in taken {
            second.member_says(place, "unlock", "null");
        }
        assert!(scene.is_free());
    }
}

fn reentry(scene: &Scene<'_>, _: &Ground) {
    let Scene { first, second, .. } = scene;
    for acquire in ["tryLock", "tryLockWL 300 60000"] {
        first.says(acquire, "true");
        scene.assert_held(first, 1);
        first.says(acquire, "true");
        scene.assert_held(first, 2);
        first.member_says(1, "tryLock", "true");
        first.member_says(1, "unlock", "null");
        second.says("tryLock", "false");
        first.says("unlock", "null");
        scene.assert_held(first, 1);
        second.says("tryLock", "false");
        first.says("unlock", "null");
        assert!(scene.is_free());
    }
}

fn release_lets_the_waiting_other_in(scene: &Scene<'_>, _: &Ground) {
    let (first, second) = (&scene.first, &scene.second.on("w"));
    let mut times = Vec::new();
    for wait in ["lock", "tryLockW 15000", "tryLockWL 15000 60000"] {
        first.says("tryLockWL 0 60000", "true");
        let waiting = scene.waits(second, wait);
        first.says("unlock", "null");
        let released = Instant::now();
        got(waiting, wait);
        times.push(released.elapsed());
        scene.assert_held(second, 1);
        first.says("tryLock", "false");
        second.says("unlock", "null");
        assert!(scene.is_free());
    }
    eprintln!("  in after {times:?}");
    assert!(times.iter().all(|time| *time < SOON), "{times:?}");
}

fn who_gives_up_leaves_nothing(scene: &Scene<'_>, _: &Ground) {
    let (first, second) = (&scene.first, &scene.second.on("w"));
    first.says("tryLockWL 0 60000", "true");
    let before = scene.hashes();
    second.says("tryLockW 300", "false");
    second.says("tryLockWL 300 10000", "false");
    // Redisson's locks of several swallow an interrupt.
    if second.side == Side::Rust {
        for wait in [
            "tryLockW 20000",
            "tryLockWL 20000 60000",
            "lockInterruptibly",
        ] {
            let waiting = scene.waits(second, wait);
            second.cancel();
            let cancelled = Instant::now();
            let refusal = waiting.wait(BOUND).expect_err("it was cancelled");
            assert_eq!(refusal.kind, "Cancelled", "{wait}: {refusal}");
            assert!(cancelled.elapsed() < SOON, "{wait}");
        }
    }
    assert_eq!(scene.hashes(), before);
    eventually(BOUND, "nobody listens any more", || !scene.is_listened_to());
    first.says("unlock", "null");
    second.says("tryLock", "true");
    second.says("unlock", "null");
    assert!(scene.is_free());
}

fn killed_holder(scene: &Scene<'_>, _: &Ground) {
    let second = &scene.second.on("w");
    // A process of its own, since it dies.
    let victim = match scene.first.side {
        Side::Java => java_peer(),
        Side::Rust => rust_peer(),
    };
    seat_clients(&victim, CLIENTS[0], &scene.table.servers, WATCHDOG / 2);
    let holder = Party::new(
        &victim,
        scene.first.side,
        scene.kind(),
        CLIENTS[0],
        &scene.names,
    );
    holder.says("tryLock", "true");
    let waiting = scene.waits(second, "tryLockW 15000");
    victim.kill();
    let (left, killed) = (scene.left(), Instant::now());
    got(waiting, "tryLockW");
    let took = killed.elapsed();
    eprintln!("  {left:?} were left, in after {took:?}");
    assert!(took < left + SOON, "{took:?}");
    // A RedLock enters when the second of three has ended.
    let is_all = scene.kind().needed == 3;
    assert!(!is_all || took + SLACK > left, "not before");
    // One that a RedLock can do without may end a moment later.
    eventually(BOUND, "what the dead had is over", || {
        let fields = scene.hashes().into_iter().flatten();
        let holders = second.holders();
        fields
            .into_iter()
            .all(|(field, _)| holders.contains(&field))
    });
    scene.assert_held(second, 1);
    second.says("unlock", "null");
    assert!(scene.is_free());
}

/// Java needs a moment at its first time.
const SOON: Duration = Duration::from_secs(2);

/// What is asked and answered at the ends of a time.
const SLACK: Duration = Duration::from_millis(100);
