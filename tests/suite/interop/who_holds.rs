//! The example that tells who holds a lock, beside a Java service that does.

use std::time::Duration;

use super::{FAIR, LOCK, READ, WRITE, scene::Scene, seats::Side};
use crate::examples::run;

#[test]
fn the_example_tells_of_a_java_holder() {
    let Some(scene) = Scene::open(Duration::from_secs(30), "", "") else {
        return;
    };
    let url = scene.ground.server().url();
    for (kind, does) in [
        (LOCK, "holds"),
        (FAIR, "holds"),
        (READ, "reads"),
        (WRITE, "writes"),
    ] {
        let lock = &scene.ground.name(kind.word);
        let java = scene.sits(Side::Java, kind, "t1");
        java.says("tryLockWL 0 60000", lock, "true");
        let holder = java.holder(lock);
        let (client, thread) = holder.split_once(':').expect("a uuid and a number");
        let said = run("who_holds", &[&url], &[lock]);
        let line = format!("client {client}, number {thread}, {does} it 1 ×");
        assert!(said.contains(&line), "{line:?} is missing:\n{said}");
        java.says("unlock", lock, "null");
    }
}
