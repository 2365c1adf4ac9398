//! Members that hang, lose replies, are slow, or forget.

use std::{
    thread,
    time::{Duration, Instant},
};

use lockson::{Client, ClientBuilder, Ended, ErrorKind, LostReason};

use super::{PATIENT, SLACK, SOON, Scene, clients, is_there, red, start, stop};
use crate::support::{Ground, Proxy, connect_to, eventually, script};

#[test]
fn two_of_five_stopped_cost_one_timeout() {
    let ground = Ground::alone();
    let scene = Scene::hasty(&ground, 5);
    let lock = scene.warm();
    stop(&scene.servers[..2]);
    let mut times: Vec<[Duration; 2]> = (0..9)
        .map(|_| {
            let asked = Instant::now();
            // A machine that is busy with other things may keep one more from answering.
            let guard = lock.try_lock_for(SOON).expect("three answer");
            let guard = guard.expect("a majority");
            let held = asked.elapsed();
            assert!(guard.holder().starts_with("-,-,"), "{}", guard.holder());
            guard.unlock().expect("a majority is released");
            [held, asked.elapsed() - held]
        })
        .collect();
    times.sort_unstable();
    let [held, released] = times[times.len() / 2];
    println!("two of five stopped: held after {held:?}, released after {released:?} (medians)");
    assert!(held < 3 * MEMBER, "{times:?}");
    start(&scene.servers[..2]);
    scene.assert_released();
}

#[test]
fn three_of_five_stopped_refuse_by_the_deadline() {
    const WAIT: Duration = Duration::from_millis(700);
    let ground = Ground::alone();
    let scene = Scene::hasty(&ground, 5);
    let lock = scene.warm();
    stop(&scene.servers[..3]);
    let asked = Instant::now();
    assert!(lock.try_lock().expect("two answer").is_none());
    let once = asked.elapsed();
    let asked = Instant::now();
    assert!(lock.try_lock_for(WAIT).expect("two answer").is_none());
    let waited = asked.elapsed();
    println!("three of five stopped: refused after {once:?}, and after {waited:?} of {WAIT:?}");
    assert!(once < SLACK, "{once:?}");
    assert!((WAIT..WAIT + SLACK).contains(&waited), "{waited:?}");
    // What the members that answer gave was given back before it was refused.
    for server in &scene.servers[3..] {
        assert!(!is_there(server, &scene.name));
    }
    start(&scene.servers[..3]);
    scene.assert_released();
    lock.lock().expect("all answer").unlock().expect("held");
}

#[test]
fn questions_do_not_wait_for_stopped_members() {
    let ground = Ground::alone();
    let scene = Scene::new(&ground, 5);
    let lock = scene.warm();
    let guard = lock.try_lock().expect("all answer").expect("free");
    stop(&scene.servers[..2]);
    let asked = Instant::now();
    guard.verify().expect("a majority says so");
    guard.extend(LONG).expect("a majority is extended");
    assert!(lock.is_held_by_current_thread().expect("three answer"));
    let took = asked.elapsed();
    println!("two of five stopped: three questions in {took:?}");
    assert!(took < 4 * PATIENT + SLACK, "{took:?}");
    assert!(guard.validity() > LONG / 2);
    start(&scene.servers[..2]);
    guard.unlock().expect("held");
    scene.assert_released();
}

#[test]
fn a_lost_reply_leaves_nothing() {
    let ground = Ground::new();
    let (scene, proxies) = Scene::behind_proxies(&ground, 3);
    let lock = scene.warm();
    // One is lost: the others are a majority, and that one is released though it may be held.
    proxies[0].swallow_replies(script(&scene.name), 1);
    let guard = lock.try_lock().expect("two answer").expect("a majority");
    assert_eq!(proxies[0].swallowed(), 1);
    assert!(guard.holder().starts_with("-,"), "{}", guard.holder());
    eventually(SOON, "released where the reply was lost", || {
        !is_there(&scene.servers[0], &scene.name)
    });
    assert!(guard.is_held());
    for server in &scene.servers[1..] {
        assert!(is_there(server, &scene.name));
    }
    guard.unlock().expect("held");
    scene.assert_released();
    // The watchdog releases once more where the reply was lost: that reply must not be the next one.
    eventually(SOON, "nothing is in doubt", || {
        scene.clients[0].state().in_doubt == 0
    });
    // Two are lost: there is no majority, and all is released.
    for proxy in &proxies[..2] {
        proxy.swallow_replies(script(&scene.name), 1);
    }
    assert!(lock.try_lock().expect("one answers").is_none());
    assert_eq!((proxies[0].swallowed(), proxies[1].swallowed()), (2, 1));
    scene.assert_released();
}

#[test]
fn members_that_eat_the_lease_are_refused() {
    const DELAY: Duration = Duration::from_millis(150);
    let ground = Ground::alone();
    let (scene, proxies) = Scene::behind_proxies(&ground, 3);
    let lock = scene.warm();
    let before: Vec<u64> = scene.servers.iter().map(|one| one.script_calls()).collect();
    for proxy in &proxies[..2] {
        proxy.delay(DELAY);
    }
    let asked = Instant::now();
    let eaten = lock.try_lock_with_lease(DELAY).expect("all answer");
    let took = asked.elapsed();
    assert!(eaten.is_none(), "nothing is left of it");
    assert!(took < PATIENT + DELAY * 4, "{took:?}");
    assert!(proxies[..2].iter().all(|proxy| proxy.delayed() > 0));
    for (server, before) in scene.servers.iter().zip(before) {
        assert!(server.script_calls() > before, "it was given");
    }
    eventually(SOON, "nothing is left", || scene.is_free());
    let wait = DELAY * 4;
    let asked = Instant::now();
    let eaten = lock.try_lock_for_with_lease(wait, DELAY);
    assert!(eaten.expect("all answer").is_none());
    assert!(asked.elapsed() >= wait);
    eventually(SOON, "nothing is left", || scene.is_free());

    // A lease that is longer than they are slow is shorter by as much.
    let lease = Duration::from_secs(10);
    let guard = lock.try_lock_with_lease(lease).expect("all answer");
    let guard = guard.expect("in time");
    let validity = guard.validity();
    println!("members late by {DELAY:?}: {validity:?} of {lease:?} are valid");
    assert!(validity < lease - DELAY, "{validity:?}");
    guard.unlock().expect("held");
}

/// Why a server that comes back without its data must stay away for the longest lease.
#[test]
fn a_member_that_forgot_lets_another_majority_in() {
    let ground = Ground::new();
    let scene = Scene::new(&ground, 3);
    let lease = LONG;
    let other = red(
        &clients(&ground, &scene.servers, |plain| plain),
        &scene.name,
    );
    // The first two agree; somebody has the third for a moment.
    let third = scene.clients[2].reentrant_lock(&scene.name);
    let taken = thread::scope(|scope| {
        let owned = scope.spawn(|| third.lock_owned().expect("free"));
        owned.join().expect("ends well")
    });
    let guard = scene.lock().try_lock_with_lease(lease);
    let guard = guard.expect("all answer").expect("a majority");
    taken.unlock().expect("held");
    assert!(other.try_lock().expect("all answer").is_none());

    scene.servers[1].restart();
    let second = other.try_lock_for_with_lease(SOON, lease);
    let second = second.expect("all answer").expect("another majority");
    assert!(guard.is_held() && second.is_held(), "both believe it");
    println!("{} beside {}", guard.holder(), second.holder());
    // Who asks is told.
    let error = guard.verify().expect_err("one of two forgot");
    assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
    assert!(!guard.is_held());
    second.verify().expect("it has its majority");
    assert!(guard.unlock().is_err());
    second.unlock().expect("held");
    scene.assert_free_soon();
}

/// With the watchdog nobody has to ask; and where more than a majority agreed, one may forget.
#[test]
fn a_member_that_forgot_is_found_by_the_watchdog() {
    let ground = Ground::new();
    let scene = Scene::with(&ground, 3, |plain| plain.lock_watchdog_timeout(RENEWED));
    let guard = scene.lock().try_lock().expect("all answer").expect("free");
    let lost = guard.lost();
    scene.servers[2].restart();
    eventually(SOON, "the watchdog finds it gone", || {
        !guard.lost_members().is_empty()
    });
    assert_eq!(lost.wait(2 * RENEWED), Ended::TimedOut, "two are renewed");
    scene.servers[1].restart();
    assert_eq!(lost.wait(SOON), Ended::Lost(LostReason::Gone));
    assert!(!guard.is_held());
    assert_eq!(guard.validity(), Duration::ZERO);
    assert!(guard.unlock().is_err());
    scene.assert_free_soon();
}

#[test]
fn a_renewal_without_a_majority_is_a_loss_in_time() {
    let ground = Ground::alone();
    let scene = Scene::with(&ground, 5, |plain| {
        plain
            .lock_watchdog_timeout(RENEWED)
            .response_timeout(Duration::from_millis(300))
    });
    let guard = scene.lock().try_lock().expect("all answer").expect("free");
    let lost = guard.lost();
    stop(&scene.servers[..2]);
    assert_eq!(lost.wait(3 * RENEWED), Ended::TimedOut, "three are renewed");
    stop(&scene.servers[2..3]);
    let stopped = Instant::now();
    assert_eq!(lost.wait(SOON), Ended::Lost(LostReason::Expired));
    let told = stopped.elapsed();
    println!("no majority renewed: told after {told:?} of {RENEWED:?}");
    // Less by what clocks may drift, and not later than the last renewal allows.
    assert!(told < RENEWED + SLACK, "{told:?}");
    assert!(!guard.is_held());
    // Each by its own clock, which is not over before that of the guard.
    eventually(SOON, "three are lost", || guard.lost_members().len() == 3);
    start(&scene.servers[..3]);
    let error = guard.unlock().expect_err("three were lost");
    assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
    scene.assert_free_soon();
}

#[test]
fn one_client_of_three_may_be_shut_down() {
    let ground = Ground::new();
    let scene = Scene::with(&ground, 3, |plain| plain.lock_watchdog_timeout(RENEWED));
    let lock = scene.lock();
    let guard = lock.try_lock().expect("all answer").expect("free");
    let lost = guard.lost();
    scene.clients[0].shutdown();
    assert!(guard.is_held());
    assert_eq!(guard.lost_members().len(), 1);
    assert_eq!(lost.wait(RENEWED), Ended::TimedOut);
    guard.unlock().expect("a majority is released");
    assert_eq!(lost.wait(SOON), Ended::Released);

    // Two go on without the third.
    let guard = lock.try_lock().expect("two answer").expect("a majority");
    assert!(guard.holder().starts_with("-,"), "{}", guard.holder());
    let lost = guard.lost();
    let ended = thread::scope(|scope| {
        let waiting = scope.spawn(|| lost.wait(SOON));
        scene.clients[1].shutdown();
        waiting.join().expect("ends well")
    });
    assert_eq!(ended, Ended::Lost(LostReason::Closed));
    assert!(!guard.is_held());
    drop(guard);
    let error = lock.lock().expect_err("there is no majority any more");
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    // A shutdown releases nothing: what is left ends by itself.
    scene.assert_free_soon();
}

impl Scene {
    /// With the default for how long a member is waited for.
    fn hasty(ground: &Ground, members: usize) -> Self {
        Self::with(ground, members, |plain| {
            plain.red_lock_member_timeout(MEMBER)
        })
    }

    fn behind_proxies(ground: &Ground, members: usize) -> (Self, Vec<Proxy>) {
        Self::behind_proxies_with(ground, members, |plain| plain)
    }

    pub(super) fn behind_proxies_with(
        ground: &Ground,
        members: usize,
        settings: impl Fn(ClientBuilder) -> ClientBuilder,
    ) -> (Self, Vec<Proxy>) {
        let mut scene = Self::new(ground, members);
        let servers = scene.servers.iter();
        let proxies: Vec<Proxy> = servers.map(|one| Proxy::to(one.addr())).collect();
        let connected = |proxy: &Proxy| -> Client {
            connect_to(ground, &proxy.url(), |plain| {
                settings(plain.red_lock_member_timeout(PATIENT))
            })
        };
        scene.clients = proxies.iter().map(connected).collect();
        (scene, proxies)
    }
}

const MEMBER: Duration = Duration::from_millis(50);

const LONG: Duration = Duration::from_secs(60);

const RENEWED: Duration = Duration::from_millis(1500);
