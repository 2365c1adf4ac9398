//! Runs it all: servers, proxies, workers and faults, then the checkers over what was written down.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::{self, ExitCode},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use redis::{Connection, RedisResult};

use crate::{
    crew::{Crew, Orders},
    dice::Dice,
    evil::Evil,
    history::{History, event::Event, leftovers::Remains},
    pen::Pen,
    register, report,
    schedule::{self, Fault},
    support::{Ground, Proxy, Server, within},
    watch,
    worker::LONGEST_LEASE,
};

/// What the command line asks for.
pub(crate) struct Options {
    pub(crate) length: Duration,
    pub(crate) seed: u64,
    pub(crate) workers: u64,
    pub(crate) threads: u64,
    pub(crate) flush: bool,
    pub(crate) red: bool,
    pub(crate) keep: bool,
}

/// Tortures for so long; a success if no checker found anything.
pub(crate) fn run(options: &Options) -> ExitCode {
    println!("seed {}", options.seed);
    let ground = Ground::new();
    // What the dead leave in queues.
    ground.expect_keys_left();
    let dir = new_dir(env::temp_dir(), "");
    // Where there is a disk in memory: servers die here, machines do not.
    let memory = Some(PathBuf::from("/dev/shm")).filter(|dir| dir.is_dir());
    let data = memory.unwrap_or_else(env::temp_dir);
    sweep(&data);
    let data: Vec<PathBuf> = (0..if options.red { 4 } else { 1 })
        .map(|number| new_dir(data.clone(), &format!("-data-{number}")))
        .collect();
    let servers: Vec<Arc<Server>> = data
        .iter()
        .map(|data| ground.server_with(|plain| plain.aof().arg("dir", data.display())))
        .collect();
    let proxies: Vec<Proxy> = (0..options.workers)
        .map(|_| Proxy::to(servers[0].addr()))
        .collect();
    let pen = Pen::new(&dir.join(History::DRIVER)).expect("the directory is writable");
    let ended = AtomicBool::new(false);
    let (trouble, done) = thread::scope(|scope| {
        scope.spawn(|| watch::run(&servers[0], &pen, &ended));
        let outcome = torture(options, &dir, &servers, &proxies, &pen);
        ended.store(true, Ordering::SeqCst);
        outcome
    });
    let remains = remains(&servers);
    report::faults(&done, &proxies);
    let history = History::load(&dir).expect("the histories can be read");
    let sound = report::findings(&history, Some(&remains), &trouble);
    drop(proxies);
    drop(servers);
    drop(ground);
    data.iter().for_each(|dir| drop(fs::remove_dir_all(dir)));
    if sound && !options.keep {
        let _ = fs::remove_dir_all(&dir);
    } else {
        println!("the histories are in {}", dir.display());
    }
    if sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Removes the data of runs that were killed. Histories are left: somebody may want to read them.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let rest = name.strip_prefix("lockson-torture-");
        let owner = rest.and_then(|rest| Some(rest.split_once("-data-")?.0));
        if owner.is_some_and(|owner| !Path::new("/proc").join(owner).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn new_dir(parent: PathBuf, what: &str) -> PathBuf {
    let dir = parent.join(format!("lockson-torture-{}{what}", process::id()));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir(&dir).expect("the directory is writable");
    dir
}

type Done = BTreeMap<schedule::What, usize>;

fn torture(
    options: &Options,
    dir: &PathBuf,
    servers: &[Arc<Server>],
    proxies: &[Proxy],
    pen: &Pen,
) -> (Vec<String>, Done) {
    let orders = Orders {
        dir,
        counters: servers[0].url(),
        members: servers[1..].iter().map(|server| server.url()).collect(),
        seed: options.seed,
        threads: options.threads,
    };
    let mut crew = Crew::new(&orders, proxies.iter().map(Proxy::url).collect());
    let faults = schedule::of(
        options.seed,
        options.length,
        proxies.len(),
        servers.len(),
        options.flush,
    );
    let mut evil = Evil {
        crew: &mut crew,
        servers,
        proxies,
        pen,
        dice: Dice::new(options.seed, 1),
        done: BTreeMap::new(),
    };
    let start = Instant::now();
    let mut trouble = Vec::new();
    for (at, number, begins) in timeline(&faults) {
        while start.elapsed() < at && trouble.is_empty() {
            let left = at.saturating_sub(start.elapsed());
            thread::sleep(left.min(Duration::from_millis(100)));
            trouble = evil.crew.fallen();
        }
        // What has begun is undone in any case.
        let fault = &faults[number];
        if begins && trouble.is_empty() {
            evil.begin(number as u64, fault);
        } else if !begins && evil.done.values().sum::<usize>() > number {
            evil.end(number as u64, fault);
        }
    }
    let done = evil.done;
    trouble.extend(crew.end(HOME));
    pen.note(Event::Figure {
        what: "the-end".to_owned(),
        number: trouble.len() as u64,
    });
    (trouble, done)
}

/// When each fault begins and ends, in this order.
fn timeline(faults: &[Fault]) -> Vec<(Duration, usize, bool)> {
    let mut moments: Vec<(Duration, usize, bool)> = faults
        .iter()
        .enumerate()
        .flat_map(|(number, fault)| {
            [
                (fault.at, number, true),
                (fault.at + fault.lasts, number, false),
            ]
        })
        .collect();
    moments.sort_by_key(|&(at, ..)| at);
    moments
}

fn members(redis: &mut Connection, range: &str, key: &str) -> RedisResult<Vec<String>> {
    redis::cmd(range).arg(key).arg(0).arg(-1).query(redis)
}

/// What the servers have when every lease is over.
fn remains(servers: &[Arc<Server>]) -> Remains {
    let mut remains = Remains::default();
    for server in servers {
        let mut redis = server.connection();
        let mut keys = || -> Vec<String> {
            let all = redis::cmd("KEYS").arg("*").query(&mut redis);
            let mut keys: Vec<String> = all.expect("it answers");
            keys.retain(|key| !key.starts_with(register::PREFIX));
            keys.sort_unstable();
            keys
        };
        let is_of_queue = |key: &String| {
            key.starts_with("redisson_lock_queue:") || key.starts_with("redisson_lock_timeout:")
        };
        let _ = within(LONGEST_LEASE * 2, || keys().iter().all(is_of_queue));
        let left = keys();
        for key in left {
            let queue = members(&mut redis, "LRANGE", &key);
            let holders = queue.or_else(|_| members(&mut redis, "ZRANGE", &key));
            let holders = holders.unwrap_or_default();
            remains.keys.push((key, holders));
        }
        let channels: Vec<String> = redis::cmd("PUBSUB")
            .arg("CHANNELS")
            .query(&mut redis)
            .expect("it answers");
        remains.channels.extend(channels);
        drop(redis);
        // The one that asked a moment ago may still be there.
        let _ = within(Duration::from_secs(5), || server.clients().is_empty());
        let clients = server.clients();
        let lines = clients.iter().map(|client| client.line().to_owned());
        remains.connections.extend(lines);
    }
    remains
}

/// How long those who wait, and those who release on a server that has just come back, may take.
const HOME: Duration = Duration::from_secs(30);
