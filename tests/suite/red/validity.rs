//! What clocks may drift is not counted on.

use std::time::Duration;

use lockson::{Ended, ErrorKind, LostReason};

use super::{SOON, Scene};
use crate::support::Ground;

#[test]
fn a_longer_lease_drifts_more() {
    let ground = Ground::new();
    let scene = Scene::new(&ground, 3);
    let lock = scene.lock();
    let guard = lock.try_lock_with_lease(Duration::from_secs(60));
    let guard = guard.expect("all answer").expect("free");
    guard.extend(Duration::from_secs(1000)).expect("held");
    let validity = guard.validity();
    // Less one hundredth and two milliseconds.
    assert!(validity <= Duration::from_millis(989_998), "{validity:?}");
    assert!(validity > Duration::from_secs(900), "{validity:?}");
    // A shorter one, of the same hold, does not make up for it.
    let again = lock.try_lock_with_lease(Duration::from_secs(60));
    let again = again.expect("all answer").expect("its own");
    let validity = again.validity();
    assert!(validity <= Duration::from_millis(989_998), "{validity:?}");
    again.unlock().expect("held");
    guard.unlock().expect("held");
}

#[test]
fn the_end_of_the_validity_is_told_before_that_of_the_lease() {
    let ground = Ground::alone();
    for members in [1, 3] {
        let scene = Scene::new(&ground, members);
        // A thread that was kept from running for as long as the drift has seen nothing.
        let seen = (0..5).any(|_| ends_before_its_lease(&scene));
        assert!(seen, "{members} members: told when they are lost");
    }
}

/// Whether the members were held when the end was told, and questions were answered accordingly.
fn ends_before_its_lease(scene: &Scene) -> bool {
    let guard = scene.lock().try_lock_with_lease(Duration::from_secs(3));
    let guard = guard.expect("all answer").expect("free");
    let lost = guard.lost();
    assert_eq!(lost.wait(SOON), Ended::Lost(LostReason::Expired));
    assert!(!guard.is_held());
    assert_eq!(guard.validity(), Duration::ZERO);
    let verified = guard.verify();
    // Too short to change anything.
    let extended = guard.extend(Duration::from_millis(1));
    if !guard.lost_members().is_empty() {
        return false;
    }
    for said in [verified, extended] {
        let error = said.expect_err("nothing of it is valid");
        assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    }
    true
}
