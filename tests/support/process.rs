//! Child processes that cannot outlive the tests, signals to them, and directories that go with them.

use std::{
    fs, io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{self, Child, Command},
    sync::{
        Mutex, Once, OnceLock,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use super::{eventually, locked};

/// Spawns a child that the kernel kills when this process ends, however it ends.
///
/// It reaches the child alone: a script that starts the real program must `exec` it.
pub fn spawn_tied(mut command: Command) -> io::Result<Child> {
    tie_to_parent(&mut command);
    let (answer, answered) = mpsc::channel();
    locked(spawner())
        .send((command, answer))
        .expect("the spawner thread never ends");
    answered
        .recv()
        .expect("the spawner thread answers each order")
}

/// Sends a signal; a process that is already gone is an error.
#[allow(unsafe_code)]
pub fn signal(pid: u32, signal: libc::c_int) -> io::Result<()> {
    let pid = libc::pid_t::try_from(pid).expect("a process id fits");
    // SAFETY: kill takes two integers and touches no memory of ours.
    match unsafe { libc::kill(pid, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Stops a process and returns when all its threads stand still.
#[track_caller]
pub fn freeze(pid: u32) {
    signal(pid, libc::SIGSTOP).expect("a process to freeze is running");
    eventually(SIGNAL_BOUND, "the process stands still", || {
        let states = thread_states(pid);
        !states.is_empty() && states.iter().all(|&state| state == 'T')
    });
}

/// Lets a stopped process go on and returns when none of its threads is stopped.
#[track_caller]
pub fn thaw(pid: u32) {
    signal(pid, libc::SIGCONT).expect("a process to thaw is running");
    eventually(SIGNAL_BOUND, "the process runs again", || {
        let states = thread_states(pid);
        !states.is_empty() && !states.contains(&'T')
    });
}

/// A directory of the test's own, removed on drop.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    pub fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        static SWEEP: Once = Once::new();
        SWEEP.call_once(sweep);

        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("{DIR_PREFIX}{}-{number}", process::id()));
        // Left by an earlier process that had the same id and was killed.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("the temporary directory is writable");
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

type Order = (Command, mpsc::Sender<io::Result<Child>>);

/// The one thread that spawns: the kernel's "parent death" is the death of the spawning *thread*,
/// and a test's own thread ends long before the process does.
fn spawner() -> &'static Mutex<mpsc::Sender<Order>> {
    static SPAWNER: OnceLock<Mutex<mpsc::Sender<Order>>> = OnceLock::new();
    SPAWNER.get_or_init(|| {
        let (orders, inbox) = mpsc::channel::<Order>();
        thread::Builder::new()
            .name("ground-spawner".to_owned())
            .spawn(move || {
                for (mut command, answer) in inbox {
                    let _ = answer.send(command.spawn());
                }
            })
            .expect("a thread can be started");
        Mutex::new(orders)
    })
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn tie_to_parent(command: &mut Command) {
    let parent = libc::pid_t::try_from(process::id()).expect("a process id fits");
    // SAFETY: between fork and exec the closure makes two system calls and builds errors from
    // integers; it neither allocates nor takes a lock.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The parent may have died before the call above: then nobody would ever kill this child.
            if libc::getppid() != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
}

#[cfg(not(target_os = "linux"))]
fn tie_to_parent(_: &mut Command) {}

fn thread_states(pid: u32) -> Vec<char> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("stat")).ok())
        // The name before the state is in parentheses and may itself contain some.
        .filter_map(|stat| stat.rsplit_once(") ")?.1.chars().next())
        .collect()
}

/// Removes what killed test processes could not.
fn sweep() {
    for entry in fs::read_dir(std::env::temp_dir())
        .into_iter()
        .flatten()
        .flatten()
    {
        let name = entry.file_name();
        let owner = name
            .to_str()
            .and_then(|name| name.strip_prefix(DIR_PREFIX))
            .and_then(|rest| rest.split('-').next());
        if let Some(pid) = owner
            && Path::new("/proc/self").exists()
            && !Path::new("/proc").join(pid).exists()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

const DIR_PREFIX: &str = "lockson-ground-";
const SIGNAL_BOUND: Duration = Duration::from_secs(10);
