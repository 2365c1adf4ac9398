//! Nobody else's types in public signatures, and no asynchronous runtime in the tree.
//!
//! A dependency whose type is public cannot be exchanged or raised without breaking every user.

mod source;

use std::{fs, path::Path, process::Command};

use self::source::Source;

/// Crates that work inside and show nowhere.
const FOREIGN: &[&str] = &[
    "crossbeam",
    "crossbeam_channel",
    "parking_lot",
    "r2d2",
    "redis",
    "rustls",
    "uuid",
];

const RUNTIMES: &[&str] = &[
    "async-executor",
    "async-io",
    "async-std",
    "futures-executor",
    "mio",
    "smol",
    "tokio",
];

#[test]
fn no_foreign_type_is_public() {
    let mut files = Vec::new();
    collect(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut files,
    );
    let texts: Vec<(String, String)> = files
        .iter()
        .map(|path| {
            let text = fs::read_to_string(path).expect("the source can be read");
            (path.display().to_string(), text)
        })
        .collect();
    let sources: Vec<Source> = texts.iter().map(|(_, text)| Source::of(text)).collect();
    assert!(
        sources
            .iter()
            .any(|source| !source.imports(FOREIGN).is_empty())
    );
    let declared: usize = sources.iter().map(|one| one.declarations().len()).sum();
    assert!(
        declared > 50,
        "only {declared} public declarations were found"
    );
    let found = leaks(&sources);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn planted_leaks_are_found() {
    for planted in [
        "pub fn f(&self) -> redis::Value { todo!() }",
        "pub fn f(connection: &mut ::redis::Connection);",
        "use redis::{Client as Dial, RedisError};\npub fn f() -> Result<(), RedisError> {}",
        "use redis::{Client as Dial, RedisError};\npub fn f(dial: Dial) {}",
        "use parking_lot::Mutex;\npub struct S { pub state: Mutex<u8> }",
        "use parking_lot::{self, Condvar};\npub struct S(u8, pub Condvar);",
        "use crossbeam_channel::{Receiver, Sender, bounded};\npub enum E { A(Sender<u8>) }",
        "use uuid::Uuid;\npub const ID: Uuid = Uuid::nil();",
        "use uuid::Uuid;\npub static ID: Uuid = Uuid::nil();",
        "pub use redis::Value;",
        "pub use r2d2 as pool;",
        "pub type Pool = r2d2::Pool<Manager>;",
        "use redis::Value;\npub trait T { fn f(&self) -> Option<Value>; }",
        "pub struct E;\nimpl From<redis::RedisError> for E { }",
        "use redis::RedisError;\npub struct E;\nimpl From<RedisError> for E { }",
        "pub struct E;\nimpl std::str::FromStr for E { type Err = redis::RedisError; }",
        "pub struct E;\nimpl From<E> for redis::RedisError { }",
        "type Inner = parking_lot::Mutex<u8>;\npub fn f(inner: &Inner) {}",
        "pub fn f<T>(t: T)\nwhere\n    T: Into<u8>,\n    u8: From<uuid::Uuid>,\n{}",
        "mod m { use redis::*; }\npub fn f() {}",
    ] {
        assert_eq!(leaks(&[Source::of(planted)]).len(), 1, "{planted}");
    }
}

#[test]
fn what_is_private_is_no_leak() {
    for innocent in [
        "pub(crate) fn f() -> redis::Value { todo!() }",
        "pub(super) use redis::Value;",
        "fn f(value: redis::Value) {}",
        "use parking_lot::Mutex;\npub struct S { state: Mutex<u8>, pub name: String }",
        "use parking_lot::Mutex;\npub struct S(Mutex<u8>);",
        "use std::sync::Mutex;\npub fn f(mutex: &Mutex<u8>) {}",
        "/// Like `pub fn f() -> redis::Value`.\npub fn f() {}",
        "pub fn f() { let url = \"pub fn redis::Value\"; redis::cmd(url); }",
        "struct Manager;\nimpl r2d2::ManageConnection for Manager { type Error = redis::Value; }",
        "pub fn f() {}\n#[cfg(test)]\nmod tests { pub fn g() -> redis::Value {} }",
        "use redis::Value;\npub fn f() -> MyValue {}\npub fn value(valued: u8) {}",
        "use redis::Value;\nimpl S { pub fn f<'a>(&'a self, c: char) -> &'a str { '\"'; Value } }",
    ] {
        assert_eq!(leaks(&[Source::of(innocent)]), [""; 0], "{innocent}");
    }
}

#[test]
fn no_asynchronous_runtime() {
    // What this build does not use may not have been fetched.
    let tls = cfg!(feature = "tls");
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "-e", "normal", "--prefix", "none"])
        .args(tls.then_some("--all-features"))
        .arg("--manifest-path")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .output()
        .expect("cargo can be run");
    let errors = String::from_utf8_lossy(&tree.stderr);
    assert!(tree.status.success(), "{errors}");
    let tree = String::from_utf8(tree.stdout).expect("names are text");
    let crates: Vec<&str> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    for needed in ["lockson", "redis", "r2d2"] {
        assert!(crates.contains(&needed), "{tree}");
    }
    assert_eq!(crates.contains(&"rustls"), tls, "{tree}");
    for runtime in RUNTIMES {
        assert!(!crates.contains(runtime), "{runtime} in {tree}");
    }
    assert!(!crates.iter().any(|one| one.starts_with("tokio")), "{tree}");
}

/// Public declarations that name a foreign type.
fn leaks(sources: &[Source]) -> Vec<String> {
    let public: Vec<String> = sources.iter().flat_map(Source::public_types).collect();
    // An alias hides the path, wherever it is used.
    let aliases: Vec<String> = sources
        .iter()
        .flat_map(|source| source.aliases(&source.imports(FOREIGN), FOREIGN))
        .collect();
    let mut found = Vec::new();
    for source in sources {
        let mut names = source.imports(FOREIGN);
        if names.iter().any(|name| name == "*") {
            found.push("everything of a foreign crate is imported".to_owned());
        }
        names.extend(aliases.iter().cloned());
        let declared = source.declarations();
        let implemented = source.implementations(&public, FOREIGN);
        let bad = declared.into_iter().chain(implemented);
        found.extend(bad.filter(|text| source::mentions(text, &names, FOREIGN)));
    }
    found
}

fn collect(dir: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(dir).expect("the source is there") {
        let path = entry.expect("the source can be listed").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
}
