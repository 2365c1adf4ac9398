//! What the documents say of the tests is true.

use std::{collections::BTreeSet, env, fs, path::Path, process::Command};

#[test]
fn each_test_that_is_named_for_a_fault_exists() {
    let tests = tests();
    let named = named_in_failures();
    assert!(named.len() > 150, "{} were found", named.len());
    let missing: Vec<&String> = named
        .difference(&tests)
        // Not built without the feature.
        .filter(|name| cfg!(feature = "tls") || !name.starts_with("connecting::tls::"))
        .collect();
    assert_eq!(missing, [""; 0], "named in docs/failures.md, and not there");
}

#[test]
fn each_fault_of_the_table_is_named() {
    let tests = tests();
    let of_all_kinds: BTreeSet<String> = tests
        .into_iter()
        .filter(|name| name.starts_with("faults::"))
        .collect();
    assert!(!of_all_kinds.is_empty());
    let named = named_in_failures();
    let missing: Vec<&String> = of_all_kinds.difference(&named).collect();
    assert_eq!(missing, [""; 0], "not named in docs/failures.md");
}

#[test]
fn each_row_of_a_fault_names_a_test() {
    let text = failures();
    let (_, faults) = text
        .split_once("## One row for each fault")
        .expect("a heading");
    let (faults, _) = faults
        .split_once("## What no test provokes")
        .expect("a heading");
    let rows = faults
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| fault |"));
    let mut count = 0;
    for row in rows {
        count += 1;
        let cells = row.trim_matches('|').split(" | ").count();
        assert_eq!(cells, 3, "{row}");
        let tests = row.rsplit(" | ").next().expect("a cell");
        assert!(!names(tests).is_empty(), "{row}");
    }
    assert!(count > 50, "{count} rows were found");
}

/// The tests that this program has.
fn tests() -> BTreeSet<String> {
    let this = env::current_exe().expect("a test knows its program");
    let listed = Command::new(this)
        .args(["--list", "--format", "terse"])
        .output()
        .expect("the program lists its tests");
    assert!(listed.status.success());
    let listed = String::from_utf8(listed.stdout).expect("text");
    let names = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"));
    names.map(str::to_owned).collect()
}

fn named_in_failures() -> BTreeSet<String> {
    names(&failures())
}

/// Paths to tests, which are the only words with `::` between all lower letters.
fn names(text: &str) -> BTreeSet<String> {
    let is_path = |word: &&str| {
        word.contains("::")
            && word
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_:".contains(c))
    };
    let words = text.split('`').skip(1).step_by(2);
    words.filter(is_path).map(str::to_owned).collect()
}

fn failures() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/failures.md");
    fs::read_to_string(path).expect("docs/failures.md can be read")
}
