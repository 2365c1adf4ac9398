//! Redis servers of the program's own, which end with it however it ends.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    net::TcpListener,
    path::PathBuf,
    process::{self, Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use redis::Connection;

use crate::Outcome;

pub(crate) struct Server {
    port: u16,
    folder: PathBuf,
    options: Vec<String>,
    process: Process,
}

impl Server {
    pub(crate) fn start() -> Outcome<Self> {
        Self::with(Vec::new())
    }

    /// A server that copies another one, and has its data when this returns.
    pub(crate) fn replica_of(primary: &Self) -> Outcome<Self> {
        let port = primary.port.to_string();
        let replica = Self::with(vec!["--replicaof".into(), "127.0.0.1".into(), port])?;
        wait_until("the replica follows", || {
            replica
                .info("replication", "master_link_status")
                .is_ok_and(|link| link == "up")
                && primary
                    .info("replication", "slave0")
                    .is_ok_and(|slave| slave.contains("state=online"))
        })?;
        Ok(replica)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    pub(crate) fn connection(&self) -> Outcome<Connection> {
        let client = redis::Client::open(self.url())?;
        Ok(client.get_connection_with_timeout(Duration::from_secs(5))?)
    }

    /// One line of INFO.
    pub(crate) fn info(&self, section: &str, field: &str) -> Outcome<String> {
        let info: String = redis::cmd("INFO")
            .arg(section)
            .query(&mut self.connection()?)?;
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        Ok(line.unwrap_or_default().to_owned())
    }

    /// How often clients sent these commands, or scripts called them.
    pub(crate) fn calls(&self, commands: &[&str]) -> Outcome<u64> {
        let mut sum = 0;
        for command in commands {
            let line = self.info("commandstats", &format!("cmdstat_{command}"))?;
            let calls = line.split(',').find_map(|part| part.strip_prefix("calls="));
            sum += calls.map_or(Ok(0), str::parse::<u64>)?;
        }
        Ok(sum)
    }

    /// Stops the process, as a machine that hangs.
    pub(crate) fn freeze(&self) -> Outcome<()> {
        self.process.signal("-STOP")?;
        wait_until("the server stands still", || {
            self.process
                .state()
                .is_ok_and(|state| state.starts_with('T'))
        })
    }

    pub(crate) fn thaw(&self) -> Outcome<()> {
        self.process.signal("-CONT")
    }

    /// Ends the process, as a machine that loses its power.
    pub(crate) fn kill(&mut self) {
        self.process.end();
    }

    /// Starts a killed server again, at its port and without its data.
    pub(crate) fn start_again(&mut self) -> Outcome<()> {
        self.process = Process::start(&self.arguments())?;
        self.answers()
    }

    fn with(options: Vec<String>) -> Outcome<Self> {
        let mut failure = None;
        // Somebody else may take the port before the server does.
        for _ in 0..5 {
            let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
            let folder = env::temp_dir().join(format!("lockson-schemes-{}-{port}", process::id()));
            fs::create_dir_all(&folder)?;
            let mut server = Self {
                port,
                folder,
                options: options.clone(),
                process: Process::none(),
            };
            match server.start_again() {
                Ok(()) => return Ok(server),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.expect("it was tried"))
    }

    fn arguments(&self) -> Vec<String> {
        let port = self.port.to_string();
        let folder = self.folder.display().to_string();
        let own = ["--port", &port, "--bind", "127.0.0.1", "--dir", &folder];
        let none = [
            "--save",
            "",
            "--appendonly",
            "no",
            "--repl-diskless-sync-delay",
            "0",
        ];
        own.iter()
            .chain(&none)
            .map(|&word| word.to_owned())
            .chain(self.options.clone())
            .collect()
    }

    fn answers(&self) -> Outcome<()> {
        let pid = self.process.pid.to_string();
        wait_until("redis-server answers", || {
            // On a port that was taken meanwhile, another server would answer.
            self.info("server", "process_id")
                .is_ok_and(|its| its == pid)
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.end();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A redis-server beside a shell that waits for us to go, and then takes it along.
struct Process {
    shell: Option<Child>,
    pid: u32,
}

impl Process {
    fn none() -> Self {
        Self {
            shell: None,
            pid: 0,
        }
    }

    fn start(arguments: &[String]) -> Outcome<Self> {
        let program = env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".into());
        if let Err(cause) = Command::new(&program).arg("--version").output() {
            return Err(format!("{program} cannot be started ({cause}): install Redis").into());
        }
        let mut shell = Command::new("sh")
            .args(["-c", UNTIL_WE_GO, &program])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut line = String::new();
        let said = shell.stdout.take().expect("a pipe was asked for");
        BufReader::new(said).read_line(&mut line)?;
        let pid = line.trim().parse()?;
        Ok(Self {
            shell: Some(shell),
            pid,
        })
    }

    fn signal(&self, signal: &str) -> Outcome<()> {
        let status = Command::new("kill")
            .args([signal, &self.pid.to_string()])
            .status()?;
        if status.success() {
            Ok(())
        } else {
            Err("no such process".into())
        }
    }

    fn state(&self) -> Outcome<String> {
        let pid = self.pid.to_string();
        let said = Command::new("ps")
            .args(["-o", "stat=", "-p", &pid])
            .output()?;
        Ok(String::from_utf8(said.stdout)?.trim().to_owned())
    }

    fn end(&mut self) {
        if let Some(mut shell) = self.shell.take() {
            // What it waits for.
            drop(shell.stdin.take());
            let _ = shell.wait();
        }
    }
}

const UNTIL_WE_GO: &str = r#"
trap '' INT TERM HUP
"$0" "$@" </dev/null >/dev/null 2>&1 &
echo $!
read -r _
kill -9 $!
wait
"#;

/// Waits for a fact, with a bound.
pub(crate) fn wait_until(what: &str, mut fact: impl FnMut() -> bool) -> Outcome<()> {
    let bound = Instant::now() + Duration::from_secs(10);
    while !fact() {
        if Instant::now() >= bound {
            return Err(format!("not within ten seconds: {what}").into());
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
