//! The reentrant lock as one client sees it.

use crate::support::Ground;
use lockson::Client;

#[test]
fn try_lock_and_unlock() {
    let ground = Ground::new();
    let server = ground.server();
    let client = Client::connect(&server.url()).expect("connect");
    ground.watch_tag(&client.id()[..5]);
    let lock = client.reentrant_lock(ground.name("L"));
    let guard = lock.try_lock().expect("ask").expect("free");
    assert!(guard.is_held());
    assert!(lock.is_locked().expect("ask"));
    guard.unlock().expect("unlock");
    assert!(!lock.is_locked().expect("ask"));
}
