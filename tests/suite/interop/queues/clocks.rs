//! A queue in which a Java client stands whose wall clock is ahead.

use std::{thread, time::Duration};

use redis::Commands;

use super::super::{FAIR, is_beside_java, processes::java, seats::Seat, sweep_latches};
use crate::{
    faults::clocks::Clock,
    interop::seats::{BOUND, Side},
    support::{Ground, Peer, connect, eventually},
};

/// Redisson goes by the clock of the client: ours is thrown out of the queue, though it lives. It
/// takes its place again, and nobody is left asleep.
#[test]
fn a_java_client_eleven_minutes_ahead_passes_nobody_for_long() {
    const AHEAD: i64 = 11 * 60;
    if !is_beside_java() {
        return;
    }
    let Some(clock) = Clock::at(AHEAD) else {
        return;
    };
    let ground = Ground::alone();
    let server = ground.server();
    let mut command = java(None);
    clock.rule(&mut command);
    let peer = Peer::start(command);
    let made = peer.call(&format!("client A single {} 30000", server.url()));
    made.expect("a client");
    let ahead = Seat::new(&peer, Side::Java, "A", FAIR);
    let name = &ground.name("L");
    // It is connected from then on.
    ahead.says("isLocked", name, "false");
    let (holding, waiting) = (connect(&ground), connect(&ground));
    let lock = waiting.fair_lock(name);
    let guard = holding.fair_lock(name).lock().expect("free");
    let queue = || -> Vec<String> {
        let key = format!("redisson_lock_queue:{{{name}}}");
        let mut redis = server.connection();
        redis.lrange(key, 0, -1).expect("a list")
    };
    thread::scope(|scope| {
        let ours = scope.spawn(|| {
            let guard = lock.lock().expect("let in");
            thread::sleep(Duration::from_millis(100));
            guard.unlock().expect("held");
        });
        let place = eventually(BOUND, "ours stands there", || queue().pop());
        let theirs = ahead.send("lockL 60000", name);
        let entry = eventually(BOUND, "ours is thrown out", || {
            let queue = queue();
            (!queue.contains(&place)).then_some(queue.first().cloned())?
        });
        let times = format!("redisson_lock_timeout:{{{name}}}");
        let mut redis = server.connection();
        let time: i64 = redis.zscore(times, &entry).expect("a time");
        let (seconds, _): (i64, i64) = redis::cmd("TIME").query(&mut redis).expect("TIME");
        assert!(time / 1000 > seconds + AHEAD, "its clock is ahead");
        eventually(BOUND, "ours has its place again", || {
            queue() == [place.clone(), entry.clone()]
        });
        guard.unlock().expect("held");
        ours.join().expect("ends well");
        assert_eq!(theirs.wait(BOUND).as_deref(), Ok("null"));
    });
    ahead.says("unlock", name, "null");
    sweep_latches(&server);
}
