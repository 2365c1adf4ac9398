//! How a server is started: its options, its port, and the proof that it is ours that answers.

use std::{
    env, fs,
    fs::File,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use super::{
    Certs, Server,
    certs::Identity,
    process::{TempDir, spawn_tied},
    server::connect,
    within,
};

/// The options of a server: neither persistence nor password unless asked for.
#[derive(Clone, Default)]
pub struct Builder {
    args: Vec<(String, String)>,
    port: Option<u16>,
    preferred_port: Option<u16>,
    pub(super) password: Option<String>,
    pub(super) unix_socket: bool,
    tls: bool,
}

impl Builder {
    /// One option of the configuration file, without dashes.
    pub fn arg(mut self, key: &str, value: impl ToString) -> Self {
        self.args.push((key.to_owned(), value.to_string()));
        self
    }

    /// Keeps every write through a restart.
    pub fn aof(self) -> Self {
        self.arg("appendonly", "yes").arg("appendfsync", "always")
    }

    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.arg("requirepass", password)
    }

    pub fn unix_socket(mut self) -> Self {
        self.unix_socket = true;
        self
    }

    /// Opens a TLS port beside the plain one; clients need no certificate. The certificates must
    /// live as long as the server is restarted.
    pub fn tls(self, certs: &Certs) -> Self {
        self.tls_as(certs, certs.server())
    }

    /// As [`tls`](Self::tls), with another certificate to show.
    pub fn tls_as(mut self, certs: &Certs, shown: &Identity) -> Self {
        self.tls = true;
        self.arg("tls-cert-file", shown.cert_path().display())
            .arg("tls-key-file", shown.key_path().display())
            .arg("tls-ca-cert-file", certs.ca().path().display())
            .arg("tls-auth-clients", "no")
    }

    /// Demands a client certificate of the same authority on the TLS port.
    pub fn tls_client_auth(self) -> Self {
        self.arg("tls-auth-clients", "yes")
    }

    /// Takes this port and no other.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Tries this port first.
    pub fn prefer_port(mut self, port: u16) -> Self {
        self.preferred_port = Some(port);
        self
    }

    #[track_caller]
    pub fn start(mut self) -> Server {
        let dir = TempDir::new();
        let mut failure = String::new();
        for _ in 0..START_TRIES {
            let preferred = self.preferred_port.take();
            let port = self.port.or(preferred).unwrap_or_else(free_port);
            let tls_port = self.tls.then(free_port);
            match self.launch(port, tls_port, &dir) {
                Ok(child) => return Server::started(self, port, tls_port, dir, child),
                Err(error) => failure = error,
            }
        }
        panic!("no server starts, tried {START_TRIES} times: {failure}");
    }

    /// Starts the process and returns when it answers as itself: on a port that was taken meanwhile
    /// somebody else's server would answer as well.
    pub(super) fn launch(
        &self,
        port: u16,
        tls_port: Option<u16>,
        dir: &TempDir,
    ) -> Result<Child, String> {
        let mut child = self.spawn(port, tls_port, dir.path());
        let outcome = within(START_BOUND, || match child.try_wait() {
            Ok(None) => {
                (answering_pid(port, self.password.as_deref()) == Some(child.id())).then_some(true)
            }
            _ => Some(false),
        });
        if outcome == Some(true) {
            return Ok(child);
        }
        let _ = child.kill();
        let status = child.wait();
        let log = fs::read_to_string(dir.path().join(LOG)).unwrap_or_default();
        let tail = log.lines().rev().take(15).collect::<Vec<_>>();
        let tail = tail.into_iter().rev().collect::<Vec<_>>().join("\n");
        Err(format!("port {port}, {status:?}, its log ends:\n{tail}"))
    }

    fn spawn(&self, port: u16, tls_port: Option<u16>, dir: &Path) -> Child {
        let binary = env::var_os("REDIS_SERVER").unwrap_or_else(|| "redis-server".into());
        let log = File::options()
            .create(true)
            .append(true)
            .open(dir.join(LOG))
            .expect("the server's directory is writable");
        let mut command = Command::new(&binary);
        command
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .arg("--dir")
            .arg(dir)
            .stdin(Stdio::null())
            // Without a log file of its own the server writes here, as do the complaints about its
            // options, which come before any log file is open.
            .stdout(log.try_clone().expect("a file can be opened twice"))
            .stderr(log);
        if let Some(tls_port) = tls_port {
            command.args(["--tls-port", &tls_port.to_string()]);
        }
        if self.unix_socket {
            command.arg("--unixsocket").arg(dir.join(SOCKET));
        }
        for (key, value) in &self.args {
            command.arg(format!("--{key}")).arg(value);
        }
        spawn_tied(command).unwrap_or_else(|error| panic!("{binary:?} can be run: {error}"))
    }
}

/// A port on which nobody listened a moment ago.
pub fn free_port() -> u16 {
    loop {
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("the system has a free port")
            .port();
        // The port where a developer's own server lives.
        if port != 6379 {
            return port;
        }
    }
}

fn answering_pid(port: u16, password: Option<&str>) -> Option<u32> {
    let mut redis = connect(port, password).ok()?;
    let info: String = redis::cmd("INFO").arg("server").query(&mut redis).ok()?;
    // While it loads its data a server answers INFO but no command.
    let _: String = redis::cmd("PING").query(&mut redis).ok()?;
    info.lines()
        .find_map(|line| line.strip_prefix("process_id:"))?
        .parse()
        .ok()
}

pub const START_BOUND: Duration = Duration::from_secs(20);
const START_TRIES: usize = 10;
const LOG: &str = "redis.log";
pub const SOCKET: &str = "redis.sock";
