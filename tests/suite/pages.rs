//! What README and docs name is there, their code is what runs, and the package has what it should.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

#[test]
fn links_lead_somewhere() {
    let mut problems = Vec::new();
    for page in pages() {
        let folder = page.path.parent().expect("a page lies in a folder");
        let defined = page.definitions();
        for label in page.labels() {
            if !defined.iter().any(|(known, _)| *known == label) {
                problems.push(format!("{}: [{label}] is not defined", page.name()));
            }
        }
        let targets = defined.iter().map(|(_, target)| target.clone());
        for target in targets.chain(page.targets()) {
            if target.contains("://") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = if file.is_empty() {
                page.path.clone()
            } else {
                folder.join(file)
            };
            let found = match (path.exists(), anchor) {
                (there, "") => there,
                (false, _) => false,
                (true, anchor) => Page::read(path).anchors().contains(anchor),
            };
            if !found {
                problems.push(format!("{}: {target} is not there", page.name()));
            }
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn named_files_are_there() {
    let mut files = Vec::new();
    for folder in ["src", "tests", "examples", "benches", "docs", ".ci"] {
        walk(&root().join(folder), &mut files);
    }
    let mut seen = 0;
    let mut problems = Vec::new();
    for page in pages() {
        for word in page.code().iter().filter_map(|code| code.split(' ').next()) {
            let named = word.trim_end_matches('/');
            let is_file = [".rs", ".lua", ".json"]
                .iter()
                .any(|end| named.ends_with(end));
            let is_ours = ["src/", "tests/", "examples/", "benches/", "docs/", ".ci/"]
                .iter()
                .any(|begin| named.starts_with(begin));
            if !(is_file || is_ours) || named.contains(['*', '<', '…']) {
                continue;
            }
            seen += 1;
            // The pages on the inside say `pool.rs` for one of that name.
            let end = format!("/{named}");
            let there =
                root().join(named).exists() || files.iter().any(|file| file.ends_with(&end));
            if !there {
                problems.push(format!("{}: {named}", page.name()));
            }
        }
    }
    assert!(seen > 30, "only {seen} names were found in the pages");
    assert!(problems.is_empty(), "not there: {problems:#?}");
}

#[test]
fn named_tests_examples_and_benches_are_there() {
    let this = env::current_exe().expect("a test knows its program");
    let listed = Command::new(this)
        .arg("--list")
        .output()
        .expect("it can list its tests");
    let tests = String::from_utf8(listed.stdout).expect("names are text");
    let mut seen = 0;
    let mut problems = Vec::new();
    for page in pages() {
        for line in page.text.lines().filter(|line| line.contains("cargo ")) {
            let words: Vec<&str> = line
                .split([' ', '`'])
                .filter(|word| !word.is_empty())
                .collect();
            for pair in words.windows(2) {
                let there = match pair {
                    ["suite", filter] if filter.starts_with(|c: char| c.is_ascii_lowercase()) => {
                        tests.contains(filter)
                    }
                    ["--example", name] => file_of("examples", name),
                    ["--bench", name] => name.contains('*') || file_of("benches", name),
                    _ => continue,
                };
                seen += 1;
                if !there {
                    problems.push(format!("{}: {} {}", page.name(), pair[0], pair[1]));
                }
            }
        }
    }
    // `module::test`, of a module of the suite.
    for page in pages() {
        for name in page.code().into_iter().filter(|code| is_path(code)) {
            let (module, _) = name.split_once("::").expect("a path has two parts");
            let ours = tests
                .lines()
                .any(|test| test.starts_with(&format!("{module}::")));
            if ours && !tests.contains(name) {
                problems.push(format!("{}: {name}", page.name()));
            }
        }
    }
    assert!(seen > 15, "only {seen} names were found in the pages");
    assert!(problems.is_empty(), "not there: {problems:#?}");
}

/// The suite runs the files (`examples::the_guide_runs`), so the guide shows what runs.
#[test]
fn the_code_of_the_guide_is_that_of_its_example() {
    let page = Page::read(root().join("docs/guide.md"));
    let shown: BTreeSet<String> = page
        .text
        .split("```rust")
        .skip(1)
        .filter_map(|rest| rest.split_once('\n')?.1.split_once("```"))
        .map(|(block, _)| block.to_owned())
        .collect();
    let mut files = Vec::new();
    walk(&root().join("examples/guide"), &mut files);
    let run: BTreeSet<String> = files
        .iter()
        .map(|file| {
            let text = fs::read_to_string(file).expect("an example can be read");
            let (_, code) = text
                .split_once("\n\n")
                .expect("a line that says what it is");
            code.to_owned()
        })
        .collect();
    let differ: Vec<&String> = shown.symmetric_difference(&run).collect();
    assert!(!shown.is_empty() && differ.is_empty(), "{differ:#?}");
}

#[test]
fn every_page_is_in_rustdoc() {
    let source = fs::read_to_string(root().join("src/_docs.rs")).expect("it is there");
    let lacking: Vec<String> = docs()
        .iter()
        .map(Page::name)
        // Its images stand there instead.
        .filter(|name| name != "pictures.md")
        .filter(|name| !source.contains(&format!("include_str!(\"../docs/{name}\")")))
        .collect();
    assert!(lacking.is_empty(), "src/_docs.rs lacks {lacking:?}");
}

/// There a page is a module, and `page.md` is nowhere; a definition can be another one there.
#[test]
fn links_between_pages_have_definitions() {
    let mut problems = Vec::new();
    for page in docs() {
        let known = page.definitions();
        let inline = page
            .targets()
            .into_iter()
            .filter(|target| target.ends_with(".md"));
        let odd = known
            .into_iter()
            .filter(|(label, target)| target.ends_with(".md") && label != target)
            .map(|(_, target)| target);
        problems.extend(
            inline
                .chain(odd)
                .map(|target| format!("{}: {target}", page.name())),
        );
    }
    assert!(
        problems.is_empty(),
        "write [words][page.md] and, at the end, [page.md]: page.md for {problems:#?}"
    );
}

#[test]
fn every_lock_says_the_same_things_about_itself() {
    for (file, locks) in [
        ("any.rs", &["AnyLock"][..]),
        ("fair.rs", &["FairLock"]),
        ("multi.rs", &["MultiLock"]),
        ("read_write.rs", &["ReadWriteLock", "ReadLock", "WriteLock"]),
        ("red.rs", &["RedLock"]),
        ("reentrant.rs", &["ReentrantLock"]),
    ] {
        let source = fs::read_to_string(root().join("src").join(file)).expect("it is there");
        for lock in locks {
            let (before, _) = source
                .split_once(&format!("\npub struct {lock} {{"))
                .unwrap_or_else(|| panic!("{lock} is in {file}"));
            let docs = before.rsplit("\n\n").next().expect("at least one part");
            for section in [
                "Ownership",
                "What Redis holds",
                "When it can be lost",
                "Errors",
                "Examples",
            ] {
                assert!(
                    docs.contains(&format!("/// # {section}\n")),
                    "{lock} lacks {section}"
                );
            }
        }
    }
}

#[test]
fn every_setting_has_its_place_beside_those_of_java() {
    let builder = fs::read_to_string(root().join("src/builder.rs")).expect("it is there");
    let page = Page::read(root().join("docs/migrating-from-java.md"));
    let settings = builder
        .split("    pub fn ")
        .skip(1)
        .filter_map(|rest| rest.split('(').next());
    let names: Vec<&str> = settings.collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        assert!(page.text.contains(&format!("`{name}")), "{name}");
    }
}

#[test]
fn every_script_is_told_of() {
    let page = Page::read(root().join("docs/protocol.md"));
    let mut files = Vec::new();
    walk(&root().join("src/protocol/lua"), &mut files);
    assert!(files.len() > 10, "{files:?}");
    for file in &files {
        let name = file
            .rsplit('/')
            .next()
            .and_then(|name| name.strip_suffix(".lua"));
        let name = name.expect("scripts are Lua");
        // What other scripts begin with.
        if !["queue", "slots"].contains(&name) {
            let told = page
                .code()
                .iter()
                .any(|code| code.rsplit('/').next() == Some(name));
            assert!(told, "{name}");
        }
    }
}

#[test]
fn the_package_has_what_it_should() {
    let listed = Command::new(env!("CARGO"))
        .current_dir(root())
        .args(["package", "--list", "--allow-dirty", "--offline"])
        .output()
        .expect("cargo can be run");
    let said = String::from_utf8_lossy(&listed.stderr);
    assert!(listed.status.success(), "{said}");
    let listed = String::from_utf8(listed.stdout).expect("names are text");
    let files: BTreeSet<&str> = listed.lines().collect();
    for wanted in [
        "Cargo.toml",
        "CHANGELOG.md",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "README.md",
        "benches/workloads.rs",
        "docs/comparison.svg",
        "docs/contended.svg",
        "docs/guide.md",
        "examples/guide/red.rs",
        "examples/seven_schemes/red_lock.rs",
        "src/lib.rs",
        "src/protocol/lua/acquire.lua",
        "tests/golden/lock.json",
        "tests/suite/main.rs",
        "tests/support/mod.rs",
    ] {
        assert!(files.contains(wanted), "{wanted} is not in the package");
    }
    let unwanted: Vec<&&str> = files
        .iter()
        .filter(|file| {
            ["benches/peers/", "tests/interop/", ".ci/", "target/"]
                .iter()
                .any(|no| file.starts_with(no))
        })
        .collect();
    assert!(unwanted.is_empty(), "in the package: {unwanted:?}");
}

/// README, changelog and docs.
fn pages() -> Vec<Page> {
    let top = ["README.md", "CHANGELOG.md"].map(|name| Page::read(root().join(name)));
    top.into_iter().chain(docs()).collect()
}

fn docs() -> Vec<Page> {
    let entries = fs::read_dir(root().join("docs"))
        .expect("it is there")
        .flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .map(Page::read)
        .collect()
}

struct Page {
    path: PathBuf,
    text: String,
}

impl Page {
    fn read(path: PathBuf) -> Self {
        let text =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { path, text }
    }

    fn name(&self) -> String {
        self.path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }

    /// Line by line, without blocks of code.
    fn prose(&self) -> Vec<&str> {
        let mut inside = false;
        self.text
            .lines()
            .filter(|line| {
                let fence = line.trim_start().starts_with("```");
                inside ^= fence;
                !inside && !fence
            })
            .collect()
    }

    /// What stands in backticks.
    fn code(&self) -> Vec<&str> {
        let lines = self.prose().into_iter();
        lines
            .flat_map(|line| line.split('`').skip(1).step_by(2))
            .collect()
    }

    /// Line by line, without what stands in backticks.
    fn words(&self) -> Vec<String> {
        let lines = self.prose().into_iter();
        lines
            .map(|line| line.split('`').step_by(2).collect::<Vec<_>>().join("``"))
            .collect()
    }

    /// Where `[text](target)` leads.
    fn targets(&self) -> Vec<String> {
        let after = |line: &String| -> Vec<String> {
            line.split("](")
                .skip(1)
                .filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()))
                .collect()
        };
        self.words().iter().flat_map(after).collect()
    }

    /// The labels of `[text][label]`.
    fn labels(&self) -> Vec<String> {
        let after = |line: &String| -> Vec<String> {
            line.split("][")
                .skip(1)
                .filter_map(|rest| Some(rest.split_once(']')?.0.to_owned()))
                .collect()
        };
        self.words().iter().flat_map(after).collect()
    }

    /// `[label]: target`.
    fn definitions(&self) -> Vec<(String, String)> {
        let lines = self.prose().into_iter();
        lines
            .filter_map(|line| line.strip_prefix('[')?.split_once("]: "))
            .map(|(label, target)| (label.to_owned(), target.trim().to_owned()))
            .collect()
    }

    /// What its headings are called in links.
    fn anchors(&self) -> BTreeSet<String> {
        let headings = self
            .prose()
            .into_iter()
            .filter(|line| line.starts_with('#'));
        headings
            .map(|line| {
                line.trim_start_matches('#')
                    .trim()
                    .to_lowercase()
                    .chars()
                    .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c))
                    .map(|c| if c == ' ' { '-' } else { c })
                    .collect()
            })
            .collect()
    }
}

fn walk(folder: &Path, files: &mut Vec<String>) {
    for entry in fs::read_dir(folder)
        .expect("a folder can be read")
        .flatten()
    {
        let path = entry.path();
        if path.is_dir() {
            walk(&path, files);
        } else {
            files.push(path.to_string_lossy().into_owned());
        }
    }
}

/// Of lower case, as modules and tests are.
fn is_path(code: &str) -> bool {
    let lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == ':';
    code.contains("::") && code.chars().all(lower)
}

fn file_of(folder: &str, name: &str) -> bool {
    root().join(folder).join(name).with_extension("rs").exists()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
