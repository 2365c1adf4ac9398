//! Replies and requests of members that are lost: a member is not asked twice, and nothing stays.

use std::time::{Duration, Instant};

use lockson::{Client, ErrorKind};
use redis::Commands;

use super::{PATIENT, SOON, Scene, is_there};
use crate::support::{Ground, Proxy, eventually, proxy::Matcher, script};

/// What stops a request or its reply.
type Order = fn(&Proxy, Box<dyn Matcher>);

const ORDERS: [(&str, Order); 4] = [
    ("reply lost", |proxy, what| proxy.swallow_replies(what, 1)),
    ("request lost", |proxy, what| proxy.drop_requests(what, 1)),
    ("cut before", |proxy, what| proxy.cut_before(what, 1)),
    ("cut after", |proxy, what| proxy.cut_after(what, 1)),
];

#[test]
fn one_member_of_three_costs_nothing_whatever_is_lost() {
    let ground = Ground::new();
    let (scene, proxies) = Scene::behind_proxies_with(&ground, 3, |plain| plain);
    let lock = scene.warm();
    let proxy = &proxies[0];
    let order = |order: Order| order(proxy, Box::new(script(&scene.name)));
    for (what, lose) in ORDERS {
        let before = met(&proxies);
        order(lose);
        let outer = lock.try_lock().expect("two answer").expect("a majority");
        assert_eq!(met(&proxies), before + 1, "{what}");
        order(lose);
        let inner = lock.try_lock().expect("two answer").expect("its own");
        assert_eq!(met(&proxies), before + 2, "{what}");
        for server in &scene.servers[1..] {
            assert_eq!(counts(server, &scene.name), [2], "{what}");
        }
        order(lose);
        inner.unlock().expect(what);
        for server in &scene.servers[1..] {
            assert_eq!(counts(server, &scene.name), [1], "{what}");
        }
        assert!(outer.is_held());
        order(lose);
        outer.unlock().expect(what);
        proxy.clear();
        scene.assert_released();
        no_holds(&scene.clients);
    }
}

/// Then there is no majority that says so; what the watchdog releases afterwards it did not say.
#[test]
fn a_release_that_two_of_three_do_not_answer_is_an_error_and_is_done() {
    let ground = Ground::new();
    let (scene, proxies) = Scene::behind_proxies_with(&ground, 3, |plain| plain);
    let lock = scene.warm();
    for (what, lose) in &ORDERS[..2] {
        let guard = lock.try_lock().expect("all answer").expect("free");
        let before = met(&proxies);
        for proxy in &proxies[..2] {
            lose(proxy, Box::new(script(&scene.name)));
        }
        let asked = Instant::now();
        let error = guard.unlock().expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Timeout, "{what}: {error}");
        assert!(asked.elapsed() < 2 * PATIENT + SLACK);
        assert_eq!(met(&proxies), before + 2, "{what}");
        scene.assert_released();
        no_holds(&scene.clients);
    }
}

/// An inner release in doubt is put right by the last one.
#[test]
fn an_inner_release_that_two_of_three_do_not_answer_leaves_the_outer_held() {
    let ground = Ground::new();
    let (scene, proxies) = Scene::behind_proxies_with(&ground, 3, |plain| plain);
    let lock = scene.warm();
    for (what, lose) in &ORDERS[..2] {
        let outer = lock.try_lock().expect("all answer").expect("free");
        let inner = lock.try_lock().expect("all answer").expect("its own");
        let before = met(&proxies);
        for proxy in &proxies[..2] {
            lose(proxy, Box::new(script(&scene.name)));
        }
        let error = inner.unlock().expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Timeout, "{what}: {error}");
        assert_eq!(met(&proxies), before + 2, "{what}");
        assert!(outer.is_held());
        outer.verify().expect("all answer");
        outer.unlock().expect("all answer");
        scene.assert_released();
        no_holds(&scene.clients);
    }
}

#[test]
fn lost_replies_of_renewals_cost_nothing() {
    let ground = Ground::alone();
    let (scene, proxies) = Scene::behind_proxies_with(&ground, 3, |plain| {
        plain
            .lock_watchdog_timeout(RENEWED)
            .response_timeout(Duration::from_millis(200))
    });
    let guard = scene.warm().try_lock().expect("all answer").expect("free");
    for (what, lose) in ORDERS {
        let before = met(&proxies);
        for proxy in &proxies {
            lose(proxy, Box::new(script(&scene.name)));
        }
        eventually(SOON, "each has lost one", || met(&proxies) == before + 3);
        let end = Instant::now() + guard.remaining();
        eventually(SOON, "it is renewed", || {
            !guard.is_held() || Instant::now() + guard.remaining() > end + RENEWED / 10
        });
        assert!(guard.is_held(), "{what}");
    }
    assert!(guard.lost_members().is_empty());
    guard.unlock().expect("held");
    scene.assert_free_soon();
    for server in &scene.servers {
        assert!(!is_there(server, &scene.name));
    }
}

fn met(proxies: &[Proxy]) -> usize {
    let met = |proxy: &Proxy| proxy.swallowed() + proxy.dropped() + proxy.cuts();
    proxies.iter().map(met).sum()
}

fn counts(server: &crate::support::Server, name: &str) -> Vec<u64> {
    server.connection().hvals(name).expect("HVALS")
}

#[track_caller]
fn no_holds(clients: &[Client]) {
    for client in clients {
        assert_eq!(client.state().holds, 0);
    }
}

const RENEWED: Duration = Duration::from_millis(2400);
const SLACK: Duration = Duration::from_millis(700);
