//! Requests that never arrive, and connections that end before or after them.

use super::{
    Scene, faults,
    replies::{RENEWED, SHORT, end_of, outlives},
    scene::taken,
};

faults! {
    new request_never_forwarded;
    new connection_cut_before;
    new connection_cut_after;
    new connection_cut_inside_the_reply;
    alone renewals_never_forwarded;
    alone connection_cut_before_renewals;
    alone connection_cut_after_renewals;
}

fn request_never_forwarded(scene: &Scene<'_>) {
    meet(scene, |scene| scene.proxy.drop_requests(scene.calls(), 1));
    assert_eq!(scene.proxy.dropped(), 4);
}

fn connection_cut_before(scene: &Scene<'_>) {
    meet(scene, |scene| scene.proxy.cut_before(scene.calls(), 1));
    assert_eq!(scene.proxy.cuts(), 4);
}

fn connection_cut_after(scene: &Scene<'_>) {
    meet(scene, |scene| scene.proxy.cut_after(scene.calls(), 1));
    assert_eq!(scene.proxy.cuts(), 4);
}

fn connection_cut_inside_the_reply(scene: &Scene<'_>) {
    meet(scene, |scene| scene.proxy.cut_reply_at(scene.calls(), 2, 1));
    assert_eq!(scene.proxy.cuts(), 4);
}

fn renewals_never_forwarded(scene: &Scene<'_>) {
    meet_renewals(scene, |scene| scene.proxy.drop_requests(scene.scripts(), 3));
    assert_eq!(scene.proxy.dropped(), 3);
}

fn connection_cut_before_renewals(scene: &Scene<'_>) {
    meet_renewals(scene, |scene| scene.proxy.cut_before(scene.scripts(), 3));
    assert_eq!(scene.proxy.cuts(), 3);
}

fn connection_cut_after_renewals(scene: &Scene<'_>) {
    meet_renewals(scene, |scene| scene.proxy.cut_after(scene.scripts(), 3));
    assert_eq!(scene.proxy.cuts(), 3);
}

/// Breaks an acquire, a re-entry and both releases: each has one effect all the same.
#[track_caller]
fn meet(scene: &Scene<'_>, order: fn(&Scene<'_>)) {
    let client = scene.client();
    let lock = scene.lock(&client);
    let messages = scene.messages();

    order(scene);
    let outer = taken(&lock);
    scene.assert_held(outer.holder(), 1);
    order(scene);
    let inner = taken(&lock);
    scene.assert_held(outer.holder(), 2);
    order(scene);
    inner.unlock().expect("released");
    scene.assert_held(outer.holder(), 1);
    assert_eq!(scene.messages(), messages, "it is still held");
    order(scene);
    outer.unlock().expect("released");
    scene.assert_free();
    assert_eq!(scene.messages() - messages, scene.kind.messages);
}

#[track_caller]
fn meet_renewals(scene: &Scene<'_>, order: fn(&Scene<'_>)) {
    let client = scene.client_with(RENEWED, |settings| settings.response_timeout(SHORT));
    let guard = taken(&scene.lock(&client));
    let end = end_of(&guard);
    order(scene);
    outlives(scene, &guard, end);
    guard.unlock().expect("held");
    scene.assert_free();
}
