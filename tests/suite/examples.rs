//! The examples do what they show, and leave nothing.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use crate::{
    interop::processes::example,
    support::{Ground, eventually, spawn_tied, within},
};

#[test]
fn one_runner_is_elected() {
    let ground = Ground::new();
    let said = run("elect_one_runner", &[&ground.server().url()], &[]);
    assert!(said.matches(" is elected").count() >= 3, "{said}");
    assert!(said.matches(" runs the job").count() >= 9, "{said}");
    assert!(said.ends_with("never two at the same time\n"), "{said}");
}

#[test]
fn the_cache_is_rebuilt_once() {
    let ground = Ground::new();
    let said = run("cache_rebuild", &[&ground.server().url()], &[]);
    assert_eq!(said.matches("rebuilt by ").count(), 1, "{said}");
    assert_eq!(said.matches(": tea 3, coffee 4").count(), 8, "{said}");
}

#[test]
fn no_money_is_lost() {
    let ground = Ground::new();
    let said = run("transfer", &[&ground.server().url()], &[]);
    assert_eq!(said, "balances [125, 75, 100], together 300\n");
}

#[test]
fn a_guard_goes_to_another_thread() {
    let ground = Ground::new();
    let said = run("hand_to_thread", &[&ground.server().url()], &[]);
    for order in [41, 42] {
        assert!(
            said.contains(&format!("the worker has order {order}, as ")),
            "{said}"
        );
        assert!(said.contains(&format!("order {order} is free")), "{said}");
    }
}

#[test]
fn work_stops_when_the_lock_is_lost() {
    let ground = Ground::new();
    let said = run("stop_when_lost", &[&ground.server().url()], &[]);
    for part in [
        "step 3 is done",
        "somebody unlocks it by force",
        "stopped ",
        "event: Lost { name: \"example:report\"",
        "reason: Gone",
        "unlock: not held",
    ] {
        assert!(said.contains(part), "{part:?} is missing:\n{said}");
    }
}

#[test]
fn who_holds_a_lock_is_told() {
    let ground = Ground::new();
    let server = ground.server();
    let said = run("who_holds", &[&server.url()], &[]);
    let holder = "client f202c191-3c9d-442f-8bd8-39cea24f7f7a, number 25, holds it 1 ×";
    assert!(said.contains(holder), "{said}");
    server.cli(&["DEL", "example:orders:42"]);

    let client = lockson::Client::connect(&server.url()).expect("the server is there");
    let tickets = client.fair_lock("tickets").lock().expect("it is free");
    let prices = client.read_write_lock("prices");
    let writing = prices.write().expect("it is free");
    let reading = prices.read().expect("who writes may read");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| client.fair_lock("tickets").lock().map(drop));
        eventually(BOUND, "it stands in the queue", || {
            client
                .fair_lock("tickets")
                .inspect()
                .is_ok_and(|seen| seen.queue.len() == 1)
        });
        let said = run(
            "who_holds",
            &[&server.url()],
            &["tickets", "prices", "nothing"],
        );
        for part in [
            "tickets is held, for ",
            "holds it 1 ×",
            "1. in its queue: ",
            "prices is held, for ",
            "reads it 1 ×",
            "writes it 1 ×",
            "nothing is free",
        ] {
            assert!(said.contains(part), "{part:?} is missing:\n{said}");
        }
        drop((reading, writing, tickets));
        waiting.join().expect("no panic").expect("its turn comes");
    });
}

/// Each function of it ran: a block of the guide that the example does not call would be a warning, hence
/// an error of clippy.
#[test]
fn the_guide_runs() {
    let ground = Ground::new();
    let urls = [(); 3].map(|()| ground.server_with(|plain| plain).url());
    let said = run("guide", &urls.each_ref().map(String::as_str), &[]);
    assert!(said.contains("a majority holds it for "), "{said}");
    assert!(said.ends_with("all of the guide ran\n"), "{said}");
}

#[test]
fn an_example_without_a_url_has_a_server_of_its_own() {
    let _ground = Ground::new();
    let folder = Folder::new("own-server");
    let said = run_in(&folder.0, "hand_to_thread", &[], &[]);
    assert!(said.contains("order 42 is free"), "{said}");
    folder.nothing_is_left();
}

/// Every flaw happens, this crate does what the table says, and the page has the same table.
#[test]
fn the_seven_schemes_show_their_flaws() {
    let _ground = Ground::new();
    let folder = Folder::new("seven-schemes");
    let said = run_in(&folder.0, "seven_schemes", &[], &[]);
    folder.nothing_is_left();
    assert!(!said.contains("?!"), "{said}");
    let rows = table(&said);
    assert!(
        rows.iter().skip(2).all(|row| row.contains("| yes |")),
        "{said}"
    );
    for scheme in 1..=7 {
        let begin = format!("| {scheme} ");
        assert!(
            rows.iter().any(|row| row.starts_with(&begin)),
            "scheme {scheme}:\n{said}"
        );
    }
    let page = include_str!("../../docs/seven-schemes.md");
    assert_eq!(
        rows,
        table(page),
        "docs/seven-schemes.md has the table that the program prints"
    );
}

/// The rows of the only table in a text.
fn table(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| line.starts_with("| ") || line.starts_with("|-"))
        .collect()
}

/// Runs an example to its end, which must be a good one; answers what it said.
pub(crate) fn run(name: &str, urls: &[&str], words: &[&str]) -> String {
    run_in(&env::temp_dir(), name, urls, words)
}

fn run_in(folder: &Path, name: &str, urls: &[&str], words: &[&str]) -> String {
    let mut command = Command::new(example(name));
    command
        .args(words)
        .env("TMPDIR", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    if urls.is_empty() {
        command.env_remove("REDIS_URL");
    } else {
        command.env("REDIS_URL", urls.join(" "));
    }
    let mut child = spawn_tied(command).expect("an example can be run");
    let pipe = child.stdout.take().expect("a pipe was asked for");
    // Read beside it: it must not wait for a full pipe.
    let (sender, said) = mpsc::channel();
    thread::spawn(move || sender.send(std::io::read_to_string(pipe)));
    let ended = within(BOUND, || child.try_wait().expect("it is ours"));
    if ended.is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    let said = said
        .recv()
        .expect("it is read to the end")
        .expect("it writes text");
    assert!(
        ended.is_some_and(|status| status.success()),
        "{name}: {ended:?}\n{said}"
    );
    said
}

/// Where an example has its temporary files.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = env::temp_dir().join(format!("lockson-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a temporary folder can be made");
        Self(folder)
    }

    /// Neither a file nor a server, whose working directory was in here.
    fn nothing_is_left(&self) {
        eventually(BOUND, "the example's servers are gone", || {
            let processes = fs::read_dir("/proc").expect("the system lists its processes");
            !processes.flatten().any(|process| {
                fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(&self.0))
            })
        });
        let left = fs::read_dir(&self.0).expect("it is there").flatten();
        let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The longest takes eleven seconds on a machine with nothing else to do.
const BOUND: Duration = Duration::from_secs(120);
