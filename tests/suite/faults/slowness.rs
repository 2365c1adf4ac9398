//! Servers that are slow, have no connection to spare, or close those that rest.

use std::{
    iter, thread,
    time::{Duration, Instant},
};

use lockson::{AnyLock, ErrorKind};

use super::{
    Scene, faults,
    replies::end_of,
    scene::{BOUND, SLACK, taken, timed},
    waiting::{entered, waiter},
};
use crate::support::{ClientEntry, eventually};

faults! {
    alone slow_server_and_a_pool_of_one;
    alone no_connection_left_to_listen;
    new idle_connections_closed_by_the_server;
}

/// Fifty threads share one connection to a server that does nothing for two seconds.
fn slow_server_and_a_pool_of_one(scene: &Scene<'_>) {
    let client = scene.client_with(WATCHDOG, |settings| {
        settings
            .pool_size(1)
            .response_timeout(2 * SLOW)
            .red_lock_member_timeout(2 * SLOW)
    });
    let other = scene.other_client();
    let [kept, released] = [(); 2].map(|()| scene.renamed());
    let kept_guard = taken(&kept.lock(&client));
    let released_guard = taken(&released.lock(&client));
    let theirs = taken(&scene.teller(&other));
    let busy = scene.lock(&client);
    let free_scenes: Vec<Scene<'_>> = (0..25).map(|_| scene.renamed()).collect();
    let free: Vec<AnyLock> = free_scenes.iter().map(|one| one.lock(&client)).collect();
    thread::scope(|scope| {
        scene.server.freeze();
        let began = Instant::now();
        let slow = scope.spawn(move || {
            thread::sleep(SLOW);
            scene.server.thaw();
        });
        // Half of them for what is free, half for what another has.
        let waiting: Vec<_> = free
            .iter()
            .chain(iter::repeat_n(&busy, 25))
            .map(|lock| {
                scope.spawn(move || {
                    let (got, took) = timed(|| lock.try_lock_for(WAIT));
                    (got.map(|guard| guard.is_some()), took)
                })
            })
            .collect();
        for one in waiting {
            let (got, took) = one.join().expect("ends well");
            match got {
                Ok(got) => assert!(!got, "nobody answered"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Timeout, "{error}"),
            }
            assert!(took < WAIT + LEAST + SLACK, "{took:?}");
        }
        assert!(began.elapsed() < SLOW, "it has been slow all the time");
        // Nor does it wait behind them for a connection.
        released_guard.unlock().expect("it was only slow");
        assert!(began.elapsed() >= SLOW);
        slow.join().expect("ends well");
    });
    assert!(kept_guard.is_held());
    let end = end_of(&kept_guard) + Duration::from_millis(100);
    eventually(BOUND, "it is renewed", || end_of(&kept_guard) > end);
    kept_guard.unlock().expect("held");
    theirs.unlock().expect("held");
    for scene in free_scenes.iter().chain([scene, &kept, &released]) {
        scene.eventually_free(BOUND);
    }
    assert_eq!(client.state().holds, 0);
}

/// Who waits cannot listen: it looks by itself now and then, and not all the time.
fn no_connection_left_to_listen(scene: &Scene<'_>) {
    let client = scene.client();
    let other = scene.other_client();
    let theirs = taken(&scene.teller(&other));
    let lock = scene.lock(&client);
    let mut spy = scene.server.connection();
    let rejected = |spy: &mut redis::Connection| {
        let info: String = redis::cmd("INFO").arg("stats").query(spy).expect("INFO");
        let number = info
            .lines()
            .find_map(|line| line.strip_prefix("rejected_connections:"));
        number.expect("told").parse::<u64>().expect("a number")
    };
    let before = rejected(&mut spy);
    allow(&mut spy, 1);
    thread::scope(|scope| {
        let waiting = waiter(scope, &lock);
        eventually(BOUND, "nobody may listen", || rejected(&mut spy) > before);
        let tried = scene.proxy.accepted();
        let quiet = Duration::from_secs(1);
        thread::sleep(quiet);
        let tries = scene.proxy.accepted() - tried;
        assert!(tries < 30, "{tries} connections tried in {quiet:?}");
        let heard: Vec<String> = redis::cmd("PUBSUB")
            .arg("CHANNELS")
            .query(&mut spy)
            .expect("PUBSUB");
        assert_eq!(heard, [""; 0], "nobody listens");
        theirs.unlock().expect("it has its connection");
        let released = Instant::now();
        let late = entered(waiting).saturating_duration_since(released);
        println!("{}: unable to listen, in after {late:?}", scene.kind.name);
        assert!(late < CAP + SLACK, "{late:?}");
    });
    allow(&mut spy, 10_000);
    // And is told again.
    let theirs = taken(&scene.teller(&other));
    thread::scope(|scope| {
        let waiting = waiter(scope, &lock);
        eventually(BOUND, "it listens", || !scene.channels().is_empty());
        theirs.unlock().expect("held");
        entered(waiting);
    });
    scene.eventually_free(BOUND);
}

/// Before an acquisition, and before its release.
fn idle_connections_closed_by_the_server(scene: &Scene<'_>) {
    let client = scene.client();
    let lock = scene.lock(&client);
    let messages = scene.messages();
    let close = || {
        let name = format!("lockson-{}", client.id());
        let connected = || -> Vec<u64> {
            let clients = scene.server.clients();
            let ours = clients.iter().filter(|one| one.name() == name);
            ours.map(ClientEntry::id).collect()
        };
        let before = connected();
        assert!(!before.is_empty());
        scene.server.cli(&["CONFIG", "SET", "timeout", "1"]);
        eventually(BOUND, "what rests is closed", || {
            let now = connected();
            let left = before.iter().filter(|id| now.contains(id)).count();
            // That of the watchdog does not rest where leases are asserted.
            left < before.len() && left <= usize::from(scene.kind.name == "read")
        });
        scene.server.cli(&["CONFIG", "SET", "timeout", "0"]);
    };
    close();
    let guard = taken(&lock);
    scene.assert_held(guard.holder(), 1);
    close();
    guard.unlock().expect("held");
    scene.assert_free();
    assert_eq!(scene.messages() - messages, scene.kind.messages);
}

fn allow(spy: &mut redis::Connection, most: u32) {
    let () = redis::cmd("CONFIG")
        .arg(&["SET", "maxclients"])
        .arg(most)
        .query(spy)
        .expect("CONFIG SET");
}

const SLOW: Duration = Duration::from_secs(2);
const WATCHDOG: Duration = Duration::from_secs(6);
const WAIT: Duration = Duration::from_millis(500);
/// What one attempt is given at least.
const LEAST: Duration = Duration::from_millis(200);
/// No waiter sleeps for longer without asking.
const CAP: Duration = Duration::from_secs(3);
