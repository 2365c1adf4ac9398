//! Random readers and writers of both sides: who believes to hold the lock is there.
//!
//! `LOCKSON_SEED=7` repeats a run, `LOCKSON_ROUNDS=10000` makes it longer.

use std::{
    collections::BTreeMap,
    env, thread,
    time::{Duration, Instant, SystemTime},
};

use redis::Commands;

use super::super::{
    Kind, READ, WRITE,
    reads::slot,
    scene::Scene,
    seats::{BOUND, Seat, Side},
};
use crate::support::eventually;

#[test]
fn who_believes_is_there() {
    let seed: u64 = env::var("LOCKSON_SEED").map_or_else(
        |_| {
            let now = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
            now.subsec_nanos().into()
        },
        |seed| seed.parse().expect("LOCKSON_SEED is a number"),
    );
    let rounds: u32 = env::var("LOCKSON_ROUNDS").map_or(1_000, |rounds| {
        rounds.parse().expect("LOCKSON_ROUNDS is a number")
    });
    let Some(scene) = Scene::open(WATCHDOG, "", "") else {
        return;
    };
    println!("LOCKSON_SEED={seed} LOCKSON_ROUNDS={rounds}");
    // For those without a lease: Redisson gives them the last one that its object had.
    let url = scene.ground.server().url();
    let made = format!("client B single {url} {}", WATCHDOG.as_millis());
    scene
        .peer(Side::Java)
        .call(&made)
        .expect("a client is made");
    let mut play = Play {
        lock: scene.ground.name("L"),
        ours: ["t1", "t2", "t3"].map(|thread| Ours {
            seat: scene.sits(Side::Rust, READ, thread),
            guards: Vec::new(),
            wrote: None,
        }),
        theirs: ["A", "A", "B", "B"].map(|client| Theirs {
            seat: Seat::new(scene.peer(Side::Java), Side::Java, client, READ),
            leased: client == "A",
            held: None,
        }),
        random: seed | 1,
        writers: 1,
        entries: [[0; 2]; 2],
        scene: &scene,
    };
    for (one, thread) in play.theirs.iter_mut().zip(["t1", "t2", "t3", "t4"]) {
        one.seat = one.seat.on(thread);
    }
    for round in 0..rounds {
        if round % 40 == 0 {
            // Else the readers would never be gone all at once.
            play.let_go();
            play.writers = 1 + 2 * play.below(2);
        }
        play.step();
        play.check();
    }
    play.let_go();
    let mut redis = scene.ground.server().connection();
    eventually(BOUND, "nothing is left", || {
        let keys: Vec<String> = redis.keys(format!("*{}*", play.lock)).expect("KEYS");
        keys.iter()
            .all(|key| key.starts_with("redisson_unlock_latch:"))
    });
    let [java, rust] = play.entries;
    println!("entries to read and to write: Rust {rust:?}, Java {java:?}");
    let all = play.entries.concat();
    assert!(all.iter().all(|entries| *entries > 0), "{all:?}");
}

struct Play<'a> {
    scene: &'a Scene,
    lock: String,
    ours: [Ours<'a>; 3],
    theirs: [Theirs<'a>; 4],
    random: u64,
    /// Of four who ask, so many ask to write.
    writers: u64,
    /// By side and kind.
    entries: [[u64; 2]; 2],
}

struct Ours<'a> {
    seat: Seat<'a>,
    /// The kinds of its guards, the newest last.
    guards: Vec<Kind>,
    /// Under which name it wrote last.
    wrote: Option<String>,
}

/// One of Java's, which has it once at most.
struct Theirs<'a> {
    seat: Seat<'a>,
    leased: bool,
    /// By which half, until when at least, and under which name; without a lease until it releases.
    held: Option<(Kind, Option<Instant>, String)>,
}

impl Play<'_> {
    fn step(&mut self) {
        match self.below(8) {
            0 => thread::sleep(Duration::from_millis(self.below(120))),
            1..=4 => self.ours_act(),
            _ => self.theirs_act(),
        }
    }

    fn ours_act(&mut self) {
        let kind = self.kind();
        let lease = self.lease();
        let (release, unleased) = (self.below(2) == 0, self.below(3) == 0);
        let one = self.below(3) as usize;
        let Ours {
            seat,
            guards,
            wrote,
        } = &mut self.ours[one];
        let newest = guards.iter().rposition(|one| one.word == kind.word);
        let seat = seat.by(kind);
        if let Some(newest) = newest.filter(|_| release || guards.len() > 3) {
            let asked = Instant::now();
            let remaining = seat.number("remaining", &self.lock).unsigned_abs();
            let answer = seat.ask("unlock", &self.lock);
            let sure = asked.elapsed() + MARGIN < Duration::from_millis(remaining);
            guards.remove(newest);
            assert!(answer.is_ok() || !sure, "it believed: {answer:?}");
            return;
        }
        let operation = match unleased {
            true => "tryLock".to_owned(),
            false => format!("tryLockWL 0 {lease}"),
        };
        if seat.ask(&operation, &self.lock).as_deref() == Ok("true") {
            guards.push(kind);
            if kind.word == "write" {
                *wrote = Some(seat.holder(&self.lock));
            }
            self.count(Side::Rust, kind);
        }
    }

    fn theirs_act(&mut self) {
        let (kind, lease, forget) = (self.kind(), self.lease(), self.below(2) == 0);
        let one = self.below(4) as usize;
        let now = Instant::now();
        let Theirs { seat, leased, held } = &mut self.theirs[one];
        if let Some((kind, until, _)) = held.take() {
            let over = until.is_some_and(|until| until < now);
            if over && forget {
                return;
            }
            let answer = seat.by(kind).ask("unlock", &self.lock);
            let late = until.is_some_and(|until| until < Instant::now() + MARGIN);
            assert!(answer.is_ok() || late, "its time is not over: {answer:?}");
            return;
        }
        let operation = match *leased {
            true => format!("tryLockWL 0 {lease}"),
            false => "tryLock".to_owned(),
        };
        let until = leased.then(|| now + Duration::from_millis(lease));
        let seat = seat.by(kind);
        if seat.ask(&operation, &self.lock).as_deref() == Ok("true") {
            // A short lease may be over already.
            let holder = seat.ask("holder", &self.lock).ok();
            *held = holder.map(|holder| (kind, until, holder));
            self.count(Side::Java, kind);
        }
    }

    /// Who believes after the look was there during it.
    fn check(&self) {
        let seen = self.look();
        let now = Instant::now();
        for Theirs { seat, held, .. } in &self.theirs {
            if let Some((kind, until, holder)) = held
                && until.is_none_or(|until| until > now)
            {
                self.is_there(&seat.by(*kind), holder, None, &seen);
            }
        }
        for Ours {
            seat,
            guards,
            wrote,
        } in &self.ours
        {
            for kind in [READ, WRITE] {
                let seat = seat.by(kind);
                let has = guards.iter().any(|one| one.word == kind.word);
                if has && seat.ask("guardHeld", &self.lock).as_deref() == Ok("true") {
                    let holder = seat.holder(&self.lock);
                    self.is_there(&seat, &holder, wrote.as_deref(), &seen);
                }
            }
        }
    }

    fn is_there(&self, seat: &Seat<'_>, holder: &str, wrote: Option<&str>, (fields, slots): &Seen) {
        let told = || format!("{:?} {}: {fields:?} {slots:?}", seat.side, seat.kind.word);
        let count = fields.get(&format!("{holder}{}", seat.kind.suffix));
        let count: u32 = count
            .unwrap_or_else(|| panic!("{holder} of {}", told()))
            .parse()
            .expect("a count");
        let writers = fields
            .keys()
            .filter(|field| field.ends_with(":write"))
            .count();
        if seat.kind.word == "write" {
            assert_eq!((&*fields["mode"], writers), ("write", 1), "{}", told());
            return;
        }
        let lives = (1..=count).any(|number| slots.contains(&slot(&self.lock, holder, number)));
        assert!(lives, "no slot of {holder}: {}", told());
        // Who reads beside a writer is the writer.
        let own = wrote.is_some_and(|holder| fields.contains_key(&format!("{holder}:write")));
        assert!(
            writers == usize::from(own),
            "a writer beside {holder}: {}",
            told()
        );
    }

    /// The fields and the slots, in one moment.
    fn look(&self) -> Seen {
        let mut redis = self.scene.ground.server().connection();
        let stem = format!("{{{}}}:*", self.lock);
        redis::pipe()
            .atomic()
            .hgetall(&self.lock)
            .keys(stem)
            .query(&mut redis)
            .expect("MULTI")
    }

    fn let_go(&mut self) {
        for Ours { seat, guards, .. } in &mut self.ours {
            for kind in guards.drain(..).rev() {
                let _ = seat.by(kind).ask("unlock", &self.lock);
            }
        }
        for Theirs { seat, held, .. } in &mut self.theirs {
            if let Some((kind, ..)) = held.take() {
                let _ = seat.by(kind).ask("unlock", &self.lock);
            }
        }
    }

    fn count(&mut self, side: Side, kind: Kind) {
        self.entries[side as usize][usize::from(kind.word == "write")] += 1;
    }

    fn kind(&mut self) -> Kind {
        if self.below(4) < self.writers {
            WRITE
        } else {
            READ
        }
    }

    fn lease(&mut self) -> u64 {
        [60, 250, 900, 5000][self.below(4) as usize]
    }

    /// A number below that; xorshift.
    fn below(&mut self, end: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % end
    }
}

type Seen = (BTreeMap<String, String>, Vec<String>);

/// Redisson ticks at a third of it, and ours too.
const WATCHDOG: Duration = Duration::from_secs(2);

const MARGIN: Duration = Duration::from_millis(50);
