//! A real redis-server of the test's own, and what a test does to it.

use std::{
    path::{Path, PathBuf},
    process::Child,
    sync::Mutex,
    time::Duration,
};

use redis::{ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo, RedisResult};

use super::{
    Monitor,
    clients::ClientEntry,
    launch::{Builder, SOCKET, START_BOUND},
    locked,
    process::{self, TempDir},
    within,
};

/// A server on a loopback port that the system chose, killed on drop.
///
/// `REDIS_SERVER` names another binary than `redis-server`; it must be the server itself and not a
/// script around it, because its process id is compared.
pub struct Server {
    options: Builder,
    port: u16,
    tls_port: Option<u16>,
    dir: TempDir,
    child: Mutex<Child>,
}

impl Server {
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(super) fn started(
        options: Builder,
        port: u16,
        tls_port: Option<u16>,
        dir: TempDir,
        child: Child,
    ) -> Self {
        Self {
            options,
            port,
            tls_port,
            dir,
            child: Mutex::new(child),
        }
    }

    pub fn url(&self) -> String {
        format!("redis://{}/", self.addr())
    }

    pub fn addr(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn tls_port(&self) -> u16 {
        self.tls_port.expect("the server was started with TLS")
    }

    pub fn password(&self) -> Option<&str> {
        self.options.password.as_deref()
    }

    pub fn socket_path(&self) -> PathBuf {
        assert!(self.options.unix_socket, "the server has a unix socket");
        self.dir().join(SOCKET)
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn pid(&self) -> u32 {
        locked(&self.child).id()
    }

    pub fn is_running(&self) -> bool {
        matches!(locked(&self.child).try_wait(), Ok(None))
    }

    /// A connection of the test's own, authenticated, that errs rather than hangs.
    #[track_caller]
    pub fn connection(&self) -> redis::Connection {
        self.try_connection()
            .unwrap_or_else(|error| panic!("the server {} answers: {error}", self.addr()))
    }

    pub fn try_connection(&self) -> RedisResult<redis::Connection> {
        connect(self.port, self.password())
    }

    /// Runs one command on a connection of its own.
    #[track_caller]
    pub fn cli(&self, words: &[&str]) -> redis::Value {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(word);
        }
        command
            .query(&mut self.connection())
            .unwrap_or_else(|error| panic!("{words:?} is answered: {error}"))
    }

    /// Everybody who is connected, but for the connection that asks.
    #[track_caller]
    pub fn clients(&self) -> Vec<ClientEntry> {
        ClientEntry::others(&mut self.connection()).expect("CLIENT LIST is answered")
    }

    /// How many scripts clients have asked for. The server's other counters include what scripts
    /// call themselves.
    #[track_caller]
    pub fn script_calls(&self) -> u64 {
        let stats: String = redis::cmd("INFO")
            .arg("commandstats")
            .query(&mut self.connection())
            .expect("INFO commandstats is answered");
        stats
            .lines()
            .filter_map(|line| {
                line.strip_prefix("cmdstat_eval:calls=")
                    .or_else(|| line.strip_prefix("cmdstat_evalsha:calls="))
            })
            .filter_map(|rest| rest.split(',').next()?.parse::<u64>().ok())
            .sum()
    }

    /// Starts to collect what the server is told from now on.
    #[track_caller]
    pub fn monitor(&self) -> Monitor {
        Monitor::of(self)
    }

    /// Stops the process, as a machine that hangs.
    #[track_caller]
    pub fn freeze(&self) {
        process::freeze(self.pid());
    }

    #[track_caller]
    pub fn thaw(&self) {
        process::thaw(self.pid());
    }

    /// Kills the process and waits until it is gone; a frozen one too.
    pub fn kill(&self) {
        let mut child = locked(&self.child);
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Kills the server if it runs and starts it again: same port, directory and options.
    #[track_caller]
    pub fn restart(&self) {
        self.kill();
        let mut failure = String::new();
        // While the server was down its port may have served somebody's outgoing connection.
        let child = within(START_BOUND, || {
            self.options
                .launch(self.port, self.tls_port, &self.dir)
                .map_err(|error| failure = error)
                .ok()
        });
        *locked(&self.child) = child.unwrap_or_else(|| panic!("the server restarts: {failure}"));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn connect(port: u16, password: Option<&str>) -> RedisResult<redis::Connection> {
    // The library's greeting (CLIENT SETINFO) would show in MONITOR.
    let mut settings = RedisConnectionInfo::default().set_skip_set_lib_name();
    if let Some(password) = password {
        settings = settings.set_password(password);
    }
    let info = ConnectionAddr::Tcp("127.0.0.1".to_owned(), port)
        .into_connection_info()?
        .set_redis_settings(settings);
    let connection = redis::Client::open(info)?.get_connection_with_timeout(ANSWER_BOUND)?;
    connection.set_read_timeout(Some(ANSWER_BOUND))?;
    connection.set_write_timeout(Some(ANSWER_BOUND))?;
    Ok(connection)
}

const ANSWER_BOUND: Duration = Duration::from_secs(10);
