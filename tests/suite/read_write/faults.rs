//! Requests of readers and writers that are lost, repeated or late: one effect, and no slot too many.

use std::{sync::Arc, thread};

use lockson::{Client, ErrorKind, ReadWriteLock};
use redis::Commands;

use super::{SOON, believed, fields, millis, secs, slot, ttl};
use crate::support::{
    Ground, Proxy, Server, Told, connect, connect_to, eventually, proxy::Matcher, script,
};

/// A lock, a client behind a proxy, and another that nothing happens to.
pub(super) struct Scene {
    pub(super) server: Arc<Server>,
    pub(super) proxy: Proxy,
    pub(super) far: Client,
    pub(super) near: Client,
    name: String,
    told: Told,
}

impl Scene {
    pub(super) fn new(ground: &Ground) -> Self {
        let server = ground.server();
        let proxy = Proxy::to(server.addr());
        let told = Told::default();
        let far = connect_to(ground, &proxy.url(), |plain| {
            plain.response_timeout(millis(400)).on_event(told.handler())
        });
        Self {
            near: connect(ground),
            name: ground.name("L"),
            server,
            proxy,
            far,
            told,
        }
    }

    /// The lock as the two clients have it.
    pub(super) fn locks(&self) -> (ReadWriteLock, ReadWriteLock) {
        (
            self.far.read_write_lock(&self.name),
            self.near.read_write_lock(&self.name),
        )
    }

    /// What is there of the lock, under any name.
    pub(super) fn keys(&self) -> Vec<String> {
        let pattern = format!("*{}*", self.name);
        self.server.connection().keys(pattern).expect("KEYS")
    }

    #[track_caller]
    pub(super) fn assert_free(&self) {
        assert_eq!(self.keys(), Vec::<String>::new());
    }

    /// This reader is there so often, with the slots up to that number and no more.
    #[track_caller]
    fn assert_reads(&self, holder: &str, count: usize) {
        let (lock, _) = self.locks();
        assert_eq!(fields(&self.server, &lock)[holder], count.to_string());
        let stem = format!("{{{}}}:{holder}:", self.name);
        let slots = self.keys().into_iter().filter(|key| key.starts_with(&stem));
        assert_eq!(slots.count(), count);
    }

    /// Waits until the server has done, or can never do, what came by connections that are closed.
    #[track_caller]
    pub(super) fn settle(&self) {
        let name = format!("lockson-{}", self.far.id());
        eventually(SOON, "nothing is on its way", || {
            let clients = self.server.clients();
            let there = clients.iter().filter(|one| one.name() == name).count();
            there <= self.proxy.open()
        });
    }
}

/// What stops a request or its reply.
type Order = fn(&Proxy, Box<dyn Matcher>, usize);

const ORDERS: [(&str, Order); 4] = [
    ("reply lost", |proxy, what, n| {
        proxy.swallow_replies(what, n)
    }),
    ("request lost", |proxy, what, n| {
        proxy.drop_requests(what, n)
    }),
    ("cut before", |proxy, what, n| proxy.cut_before(what, n)),
    ("cut after", |proxy, what, n| proxy.cut_after(what, n)),
];

fn met(proxy: &Proxy) -> usize {
    proxy.swallowed() + proxy.dropped() + proxy.cuts()
}

#[test]
fn a_reader_that_waits_is_in_once_however_often_it_asked() {
    let ground = Ground::new();
    let scene = Scene::new(&ground);
    let (lock, other) = scene.locks();
    for lost in [1, 2, 3] {
        let writing = other.write().expect("free");
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let guard = lock.read().expect("let in");
                scene.assert_reads(guard.holder(), 1);
                guard.unlock().expect("held");
            });
            eventually(SOON, "it waits", || scene.far.state().waiters == 1);
            eventually(SOON, "it listens", || {
                let listens = |one: &crate::support::ClientEntry| one.channels() > 0;
                scene.server.clients().iter().any(listens)
            });
            let before = scene.proxy.swallowed();
            scene.proxy.swallow_replies(script(lock.name()), lost);
            writing.unlock().expect("held");
            reader.join().expect("ends well");
            assert_eq!(scene.proxy.swallowed(), before + lost);
        });
        scene.assert_free();
    }
}

/// Whichever guard goes, and whatever is lost of its release.
#[test]
fn a_reader_that_stays_has_its_slot_whatever_is_lost() {
    let ground = Ground::new();
    let scene = Scene::new(&ground);
    let (lock, other) = scene.locks();
    for (what, order) in ORDERS {
        // The longest that stays may have the slot that goes.
        for (leases, gone, left) in [
            ([20, 60, 40], 1, 40),
            ([20, 40, 60], 2, 40),
            ([20, 40, 60], 0, 60),
            ([40, 20, 60], 1, 60),
        ] {
            let mut guards = Vec::new();
            for lease in leases {
                guards.push(lock.read_with_lease(secs(lease)).expect("its own"));
            }
            let holder = guards[0].holder().to_owned();
            let before = met(&scene.proxy);
            let release = {
                let (about, left) = (script(&holder), script("2"));
                move |request: &[u8]| about(request) && left(request)
            };
            order(&scene.proxy, Box::new(release), 1);
            guards.remove(gone).unlock().expect("held");
            assert_eq!(met(&scene.proxy), before + 1, "{what}");
            scene.assert_reads(&holder, 2);
            let slots = [1, 2].map(|number| slot(&scene.server, &lock, &holder, number));
            let kept = ttl(&scene.server, &lock).min(slots[0].max(slots[1]));
            let remaining = guards[0].remaining();
            assert!(
                remaining <= secs(left) && remaining > secs(left - 20),
                "{remaining:?}"
            );
            assert!(kept >= believed(remaining), "{slots:?} of {remaining:?}");
            assert!(other.try_write().expect("answered").is_none());
            for guard in guards {
                guard.unlock().expect("held");
            }
            scene.settle();
            scene.assert_free();
        }
    }
}

/// The leases of its other guards are over, so that this release takes all away: it is one of a hold
/// that was held.
#[test]
fn who_releases_all_is_not_told_otherwise_when_the_answer_is_lost() {
    let ground = Ground::new();
    let scene = Scene::new(&ground);
    let (lock, _) = scene.locks();
    for (what, order) in ORDERS {
        let short = lock.read_with_lease(millis(1)).expect("free");
        let long = lock.read_with_lease(secs(60)).expect("its own");
        thread::sleep(millis(2));
        let before = met(&scene.proxy);
        let channel = format!("redisson_rwlock:{{{}}}", lock.name());
        order(&scene.proxy, Box::new(script(channel)), 1);
        long.unlock().expect(what);
        assert_eq!(met(&scene.proxy), before + 1, "{what}");
        scene.assert_free();
        assert!(short.unlock().is_err(), "its time was over");
        scene.settle();
    }
}

/// The caller is told, the guards that are left believe in no more than Redis has.
#[test]
fn a_partial_release_that_failed_costs_nobody_the_lock() {
    let ground = Ground::new();
    let scene = Scene::new(&ground);
    let (lock, other) = scene.locks();
    for (what, order) in ORDERS {
        let short = lock.read_with_lease(secs(20)).expect("free");
        let long = lock.read_with_lease(secs(60)).expect("its own");
        let release = {
            let (about, left) = (script(long.holder()), script("1"));
            let channel = script(format!("redisson_rwlock:{{{}}}", lock.name()));
            move |request: &[u8]| about(request) && left(request) && channel(request)
        };
        let before = met(&scene.proxy);
        order(&scene.proxy, Box::new(release), 2);
        let error = long.unlock().expect_err(what);
        let kinds = [ErrorKind::Timeout, ErrorKind::Connection];
        assert!(kinds.contains(&error.kind()), "{what}: {error}");
        assert_eq!(met(&scene.proxy), before + 2, "{what}");
        let slots = [1, 2].map(|number| slot(&scene.server, &lock, short.holder(), number));
        let remaining = short.remaining();
        assert!(
            remaining <= secs(20) && remaining > secs(10),
            "{remaining:?}"
        );
        let kept = slots[0].max(slots[1]);
        assert!(kept >= believed(remaining), "{slots:?} of {remaining:?}");
        assert!(other.try_write().expect("answered").is_none());
        short.unlock().expect("held");
        scene.settle();
        scene.assert_free();
    }
}

/// Others have lowered the time of a reader, and what raises it again is lost on the way.
#[test]
fn an_assertion_that_is_lost_is_repeated_in_time() {
    let ground = Ground::new();
    let scene = Scene::new(&ground);
    let (lock, other) = scene.locks();
    for (what, order) in ORDERS {
        let guard = lock.read_with_lease(secs(60)).expect("free");
        let before = met(&scene.proxy);
        order(&scene.proxy, Box::new(script(guard.holder())), 2);
        scene.server.cli(&["PEXPIRE", lock.name(), "5000"]);
        eventually(SOON, "two are lost", || met(&scene.proxy) == before + 2);
        eventually(SOON, "it is raised", || ttl(&scene.server, &lock) > 30_000);
        assert!(guard.is_held(), "{what}");
        assert!(other.try_write().expect("answered").is_none());
        guard.unlock().expect("held");
        scene.settle();
        scene.assert_free();
    }
    assert!(scene.told.lost().is_empty());
}

#[test]
fn an_assertion_that_comes_late_makes_no_slot() {
    let ground = Ground::new();
    let scene = Scene::new(&ground);
    let (lock, other) = scene.locks();
    for next_writes in [false, true] {
        let guard = lock.read_with_lease(secs(60)).expect("free");
        let before = scene.proxy.held();
        scene.proxy.hold(script(guard.holder()), 1);
        eventually(SOON, "it is under way", || scene.proxy.held() > before);
        guard.unlock().expect("held");
        scene.assert_free();
        let next = next_writes.then(|| other.write().expect("free"));
        assert_eq!(scene.proxy.release_held(), 1);
        scene.settle();
        if let Some(next) = next {
            assert_eq!(fields(&scene.server, &lock).len(), 2);
            next.unlock().expect("held");
        }
        scene.assert_free();
    }
}

/// The first copy comes when all is over, or when a writer is there.
#[test]
fn a_late_reader_is_fenced() {
    let ground = Ground::new();
    let scene = Scene::new(&ground);
    let (lock, other) = scene.locks();
    for round in 0..6 {
        scene.proxy.hold(script(lock.name()), 1);
        let guard = lock.read_with_lease(secs(60)).expect("at the second try");
        assert_eq!(scene.proxy.held(), round + 1);
        scene.assert_reads(guard.holder(), 1);
        guard.unlock().expect("held");
        let next = (round % 2 == 0).then(|| other.write().expect("free"));
        assert_eq!(scene.proxy.release_held(), 1);
        scene.settle();
        if let Some(next) = next {
            assert_eq!(fields(&scene.server, &lock).len(), 2, "the writer alone");
            next.unlock().expect("held");
        }
        scene.assert_free();
    }
}

/// The second copy finds that it is done: what it adds would be twice.
#[test]
fn a_writers_re_entry_adds_its_lease_once() {
    let ground = Ground::new();
    let scene = Scene::new(&ground);
    let (lock, other) = scene.locks();
    for (what, order) in ORDERS {
        let outer = lock.write_with_lease(secs(20)).expect("free");
        let before = met(&scene.proxy);
        order(
            &scene.proxy,
            Box::new(script(format!("{}:write", outer.holder()))),
            1,
        );
        let inner = lock.write_with_lease(secs(20)).expect("its own");
        assert_eq!(met(&scene.proxy), before + 1, "{what}");
        let left = ttl(&scene.server, &lock);
        let remaining = inner.remaining();
        assert!(left >= believed(remaining) && left <= 40_000, "{left}");
        assert!(remaining > secs(30), "{what}: {remaining:?}");
        inner.unlock().expect("held");
        assert!(other.try_read().expect("answered").is_none());
        outer.unlock().expect("held");
        scene.settle();
        scene.assert_free();
    }
}

/// Its two requests: the right to read is taken, then that to write is given up.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Half {
    Read,
    Unwrite,
}

impl Half {
    fn of(self, lock: &ReadWriteLock, writer: &str) -> Box<dyn Matcher> {
        let of_writer = script(format!("{writer}:write"));
        let tells = script(format!("redisson_rwlock:{{{}}}", lock.name()));
        Box::new(move |request| of_writer(request) && (self == Self::Unwrite) == tells(request))
    }
}

#[test]
fn a_downgrade_stands_whichever_half_is_repeated() {
    let ground = Ground::new();
    let scene = Scene::new(&ground);
    let (lock, other) = scene.locks();
    for half in [Half::Read, Half::Unwrite] {
        for (what, order) in ORDERS {
            let writing = lock.write().expect("free");
            let before = met(&scene.proxy);
            order(&scene.proxy, half.of(&lock, writing.holder()), 1);
            let reading = writing.downgrade().expect("held");
            assert_eq!(met(&scene.proxy), before + 1, "{half:?} {what}");
            scene.assert_reads(reading.holder(), 1);
            let found = fields(&scene.server, &lock);
            assert_eq!((found.len(), &*found["mode"]), (2, "read"));
            let beside = other.try_read().expect("answered").expect("shared");
            assert!(other.try_write().expect("answered").is_none());
            reading.unlock().expect("held");
            beside.unlock().expect("held");
            scene.settle();
            scene.assert_free();
        }
    }
}

#[test]
fn a_downgrade_that_fails_writes_on_or_reads() {
    let ground = Ground::new();
    let scene = Scene::new(&ground);
    let (lock, other) = scene.locks();
    for (what, order) in ORDERS {
        let writing = lock.write().expect("free");
        let before = met(&scene.proxy);
        order(&scene.proxy, Half::Read.of(&lock, writing.holder()), 2);
        let (error, writing) = writing.downgrade().expect_err(what);
        let kinds = [ErrorKind::Timeout, ErrorKind::Connection];
        assert!(kinds.contains(&error.kind()), "{what}: {error}");
        assert_eq!(met(&scene.proxy), before + 2, "{what}");
        writing.verify().expect("it writes");
        assert!(other.try_read().expect("answered").is_none());
        eventually(SOON, "what it did is taken back", || {
            fields(&scene.server, &lock).len() == 2 && scene.keys().len() == 1
        });

        order(&scene.proxy, Half::Unwrite.of(&lock, writing.holder()), 2);
        let reading = writing.downgrade().expect("it reads");
        assert_eq!(met(&scene.proxy), before + 4, "{what}");
        let beside = eventually(SOON, "writing is given up", || {
            other.try_read().expect("answered")
        });
        reading.verify().expect("it reads");
        beside.unlock().expect("held");
        reading.unlock().expect("held");
        scene.settle();
        scene.assert_free();
    }
    assert_eq!(scene.told.unreleased().len(), ORDERS.len());
    assert!(scene.told.lost().is_empty());
}

/// What puts the count right of a re-entry that was given up may come after the next re-entry: it
/// once lowered the time of all that is left to what was left before.
#[test]
fn a_re_entry_given_up_does_not_cost_the_next_its_time() {
    let ground = Ground::new();
    let scene = Scene::new(&ground);
    let (lock, other) = scene.locks();
    for (what, order) in ORDERS {
        let outer = lock.read_with_lease(secs(5)).expect("free");
        let holder = outer.holder().to_owned();
        let tells = || script(format!("redisson_rwlock:{{{}}}", lock.name()));
        let (about, count, telling) = (script(&holder), script("2"), tells());
        let re_entry = move |request: &[u8]| about(request) && count(request) && !telling(request);
        let before = met(&scene.proxy);
        order(&scene.proxy, Box::new(re_entry), 2);
        // Whatever would lower it comes late.
        scene.proxy.hold(tells(), 1);
        lock.try_read().expect_err(what);
        assert_eq!(met(&scene.proxy), before + 2, "{what}");
        let long = lock.read_with_lease(secs(60)).expect("its own");
        // It has had the time to send that.
        thread::sleep(millis(100));
        scene.proxy.clear();
        scene.proxy.release_held();
        scene.settle();
        let found = slot(&scene.server, &lock, &holder, 2);
        assert!(
            found > 30_000 && ttl(&scene.server, &lock) > 30_000,
            "{what}: {found}"
        );
        assert!(other.try_write().expect("answered").is_none());
        outer.unlock().expect("held");
        scene.assert_reads(&holder, 1);
        long.unlock().expect("held");
        scene.settle();
        scene.assert_free();
    }
}
