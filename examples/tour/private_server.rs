//! A redis-server of one's own for the time of a program.

use std::{
    env, fs,
    net::TcpListener,
    path::PathBuf,
    process::{self, Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The server to talk to; a private one is stopped when this is dropped.
pub(crate) struct PrivateServer {
    url: String,
    child: Option<(Child, PathBuf)>,
}

impl PrivateServer {
    /// The server that REDIS_URL names, or a private one on a free port.
    pub(crate) fn unless_given() -> Self {
        if let Ok(url) = env::var("REDIS_URL") {
            return Self { url, child: None };
        }
        Self::of_its_own()
    }

    /// A private one on a free port, whatever REDIS_URL names.
    #[allow(dead_code)]
    pub(crate) fn of_its_own() -> Self {
        for _ in 0..5 {
            if let Some(server) = Self::start() {
                return server;
            }
        }
        eprintln!("redis-server did not start");
        process::exit(1);
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    fn start() -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0")
            .ok()?
            .local_addr()
            .ok()?
            .port();
        let folder = env::temp_dir().join(format!("lockson-private-{}-{port}", process::id()));
        fs::create_dir_all(&folder).ok()?;
        let program = env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".into());
        let spawned = Command::new(&program)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
            .arg("--dir")
            .arg(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child = match spawned {
            Ok(child) => child,
            Err(cause) => {
                let _ = fs::remove_dir_all(&folder);
                eprintln!("{program} cannot be started ({cause}).");
                eprintln!(
                    "Install Redis (Debian: apt-get install redis-server), or name a server in REDIS_URL,"
                );
                eprintln!("or run .ci/tour, which installs it.");
                process::exit(1);
            }
        };
        let mut server = Self {
            url: format!("redis://127.0.0.1:{port}/"),
            child: Some((child, folder)),
        };
        server.answers().then_some(server)
    }

    fn answers(&mut self) -> bool {
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            // Ended already: somebody else took the port meanwhile, and would answer in its place.
            let ended = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
            if self.child.as_mut().is_some_and(|(child, _)| ended(child)) {
                return false;
            }
            if lockson::Client::connect(&self.url).is_ok() {
                return true;
            }
            thread::sleep(Duration::from_millis(20));
        }
        false
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        if let Some((child, folder)) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
            let _ = fs::remove_dir_all(folder);
        }
    }
}
