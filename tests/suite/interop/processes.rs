//! How the two peers are found, built and started.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::SystemTime,
};

use crate::support::Peer;

/// The program of `examples/peer.rs`.
#[track_caller]
pub(crate) fn rust_peer() -> Peer {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    Peer::start(Command::new(PROGRAM.get_or_init(|| example("peer"))))
}

/// Real Redisson, of another version than usual if `LOCKSON_REDISSON` names one. Fails with the
/// reason when it cannot be built.
#[track_caller]
pub(super) fn java_peer() -> Peer {
    java_peer_of(env::var("LOCKSON_REDISSON").ok().as_deref())
}

/// Real Redisson of this version, or of the usual one.
#[track_caller]
pub(super) fn java_peer_of(version: Option<&str>) -> Peer {
    Peer::start(java(version))
}

/// How Redisson of this version, or of the usual one, is started.
#[track_caller]
pub(super) fn java(version: Option<&str>) -> Command {
    let mut java = Command::new("java");
    // It lives for seconds: better to start soon and stay small than to run fast.
    java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx192m"])
        .args(["-cp", &class_path(version)])
        .arg("lockson.interop.Peer");
    java
}

/// Built at the first call for a version; the script sees by itself that nothing is to be done.
fn class_path(version: Option<&str>) -> String {
    let build = Path::new(ROOT).join("tests/interop/build");
    let output = Command::new(&build)
        .args(version)
        .output()
        .unwrap_or_else(|error| panic!("{} can be run: {error}", build.display()));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "no Java peer\n{said}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The program of an example. A plain `cargo test` has built it. `cargo test --test suite` has not, and what an
/// earlier build left there would make the tests speak of an older crate.
pub(crate) fn example(name: &str) -> PathBuf {
    let this = env::current_exe().expect("a test knows its program");
    let profile = this
        .parent()
        .and_then(Path::parent)
        .expect("test programs lie in `deps`, two levels below the target directory");
    let program = profile.join("examples").join(name);
    let examples = Path::new(ROOT).join("examples");
    let parts = fs::read_dir(examples.join(name)).into_iter().flatten();
    let source = parts
        .flatten()
        .map(|part| part.path())
        .chain([examples.join(name).with_extension("rs"), this.clone()])
        .filter_map(|file| modified(&file))
        .max();
    if modified(&program) < source {
        build_in(profile, name);
    }
    program
}

fn build_in(profile: &Path, example: &str) {
    let (Some(target), Some(name)) = (profile.parent(), profile.file_name()) else {
        panic!("{} is no profile's directory", profile.display());
    };
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .current_dir(ROOT)
        .args(["build", "--quiet", "--example", example, "--target-dir"])
        .arg(target);
    match name.to_str() {
        Some("debug") => &mut cargo,
        _ => cargo.arg("--profile").arg(name),
    };
    if cfg!(feature = "tls") {
        cargo.args(["--features", "tls"]);
    }
    // Set by Cargo for this test; a build script that looks at them would run again, and all that
    // depends on it would be built anew.
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&*name);
        }
    }
    let output = cargo.output().expect("Cargo can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "no example {example}\n{said}");
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|file| file.modified()).ok()
}

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
