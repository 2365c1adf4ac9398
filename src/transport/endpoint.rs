//! Where the server is and how to introduce oneself: from the URL to an open connection.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use redis::{ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo, Value};

use super::{
    connection::{Connection, Fence, Trouble},
    dial, failure, wire,
};
use crate::{
    error::{Error, ErrorKind, Result},
    settings::Settings,
};

pub(crate) struct Endpoint {
    dial: redis::Client,
    /// Host and port or socket path, for messages: the URL itself may carry a password.
    server: Arc<str>,
    tls: bool,
    greeting: RedisConnectionInfo,
    client_name: String,
    settings: Arc<Settings>,
    warned: AtomicBool,
}

/// One command of the greeting, and what its answer is for.
#[derive(Clone, Copy)]
enum Step {
    Authenticate,
    Select,
    Name,
    Identify,
    Role,
}

impl Endpoint {
    /// Reads the URL. No I/O.
    pub(crate) fn parse(url: &str, client_name: String, settings: Arc<Settings>) -> Result<Self> {
        let info = url.into_connection_info().map_err(|cause| {
            if cfg!(not(feature = "tls")) && (url.starts_with("rediss:") || url.starts_with("valkeys:")) {
                return Error::config("TLS needs the crate's feature `tls`");
            }
            // Which part is wrong, but not what it says: that may be a password in the wrong place.
            let words = cause.to_string();
            let what = words.split(" - ").next().unwrap_or_default();
            Error::config(format!(
                "the URL cannot be used ({what}); expected \
                 redis://[user:password@]host[:port][/db][?protocol=resp3], rediss://… or unix:///path"
            ))
        })?;
        let addr = info.addr().clone();
        // The greeting is sent by us, so that its answers can be told apart.
        let greeting = info.redis_settings().clone();
        let plain = info
            .set_redis_settings(RedisConnectionInfo::default().set_skip_set_lib_name())
            .set_tcp_settings(redis::io::tcp::TcpSettings::default().set_nodelay(true));
        Ok(Self {
            server: addr.to_string().into(),
            tls: matches!(addr, ConnectionAddr::TcpTls { .. }),
            dial: dial::dial(plain, &settings)?,
            greeting,
            client_name,
            settings,
            warned: AtomicBool::new(false),
        })
    }

    /// Host and port, or the path of the socket.
    pub(crate) fn server(&self) -> &Arc<str> {
        &self.server
    }

    /// Opens a connection, in this time and the connect timeout at most; one round trip beside
    /// those of TCP and TLS.
    pub(crate) fn open(&self, limit: Duration) -> Result<Connection> {
        match self.reach(limit)? {
            (connection, Role::Primary) => Ok(connection),
            // By then it may have been demoted: whoever calls again may find it promoted.
            (_, Role::Replica) => Err(self.is_replica(ErrorKind::Connection)),
        }
    }

    /// Opens a connection and closes it again, to see whether the server is the right one.
    pub(crate) fn probe(&self) -> Result<()> {
        match self.reach(Duration::MAX)? {
            (_, Role::Primary) => Ok(()),
            (_, Role::Replica) => Err(self.is_replica(ErrorKind::Config)),
        }
    }

    fn is_replica(&self, kind: ErrorKind) -> Error {
        let message = format!("{} is a replica: locks live on the primary", self.server);
        Error::new(kind, message)
    }

    fn reach(&self, limit: Duration) -> Result<(Connection, Role)> {
        let started = Instant::now();
        let limit = limit.min(self.settings.connect_timeout);
        let redis = self
            .dial
            .get_connection_with_timeout(limit)
            .map_err(|cause| match failure::error(&self.server, cause) {
                error if error.kind() == ErrorKind::Timeout => Error::caused_by(
                    ErrorKind::Timeout,
                    format!("no connection to {} in {limit:?}", self.server),
                    error,
                ),
                error => error,
            })?;
        let left = || limit.saturating_sub(started.elapsed());
        let mut connection = Connection::new(redis, Arc::clone(&self.server), left())?;
        let role = self.greet(&mut connection, started, left)?;
        Ok((connection, role))
    }

    fn greet(
        &self,
        connection: &mut Connection,
        started: Instant,
        left: impl Fn() -> Duration,
    ) -> Result<Role> {
        let (bytes, steps) = self.greeting()?;
        let mut role = Role::Primary;
        if let Err(trouble) = connection.send_packed(&bytes) {
            return Err(self.unheard(trouble));
        }
        for (number, step) in steps.into_iter().enumerate() {
            // Each reply may be late, but all of them together only so much.
            if number > 0 {
                connection.limit(left()).map_err(Trouble::into_error)?;
            }
            let answer = match connection.receive() {
                Ok(answer) => answer,
                Err(trouble) if number == 0 => return Err(self.unheard(trouble)),
                Err(trouble) => return Err(trouble.into_error()),
            };
            match (step, answer) {
                (Step::Identify, Ok(value)) => match fence(value, started) {
                    Some(fence) => connection.set_fence(fence),
                    None => self.warn_once("its CLIENT INFO cannot be read"),
                },
                (Step::Role, Ok(value)) => {
                    if is_replica(&value) {
                        role = Role::Replica;
                    }
                }
                (_, Ok(_)) => {}
                (Step::Authenticate, Err(cause)) => return Err(self.unauthenticated(&cause)),
                (Step::Select, Err(cause)) if cause.code() == Some("ERR") => {
                    let text = cause.detail().unwrap_or_default().to_owned();
                    return Err(Error::caused_by(
                        ErrorKind::Config,
                        format!(
                            "{} refuses database {}: {text}",
                            self.server,
                            self.greeting.db()
                        ),
                        cause,
                    ));
                }
                // A server that does not know or does not allow these is still of use.
                (Step::Name | Step::Identify | Step::Role, Err(cause))
                    if matches!(cause.code(), Some("NOPERM"))
                        || failure::error(&self.server, cause.clone()).kind()
                            == ErrorKind::Protocol =>
                {
                    if matches!(step, Step::Identify) {
                        self.warn_once("it does not answer CLIENT INFO");
                    }
                }
                (_, Err(cause)) => return Err(failure::error(&self.server, cause)),
            }
        }
        Ok(role)
    }

    fn greeting(&self) -> Result<(Vec<u8>, Vec<Step>)> {
        let mut bytes = Vec::with_capacity(256);
        let mut steps = Vec::with_capacity(5);
        let provided = match &self.settings.password_provider {
            // Its panic would end the thread that asks: the pool's, or the watchdog.
            Some(provider) => match catch_unwind(AssertUnwindSafe(|| provider())) {
                Ok(Ok(password)) => Some(password),
                failed => {
                    let why = match failed {
                        Ok(Err(cause)) => format!("failed: {cause}"),
                        _ => "panicked".to_owned(),
                    };
                    let message = format!("the password provider {why}");
                    return Err(Error::new(ErrorKind::NoPermission, message));
                }
            },
            None => None,
        };
        let password = provided.as_deref().or_else(|| self.greeting.password());
        let user = self.greeting.username();
        let resp3 = self.greeting.protocol() == redis::ProtocolVersion::RESP3;
        let mut words = Vec::with_capacity(5);
        if resp3 {
            words.extend(["HELLO", "3"]);
        }
        if let Some(password) = password {
            words.push("AUTH");
            // HELLO asks for a user always, AUTH only where there is one.
            words.extend(user.or_else(|| resp3.then_some("default")));
            words.push(password);
        }
        if !words.is_empty() {
            wire::pack_words(&mut bytes, &words);
            steps.push(Step::Authenticate);
        }
        if self.greeting.db() != 0 {
            wire::pack_words(&mut bytes, &["SELECT", &self.greeting.db().to_string()]);
            steps.push(Step::Select);
        }
        for (step, words) in [
            (
                Step::Name,
                &["CLIENT", "SETNAME", self.client_name.as_str()][..],
            ),
            (Step::Identify, &["CLIENT", "INFO"]),
            (Step::Role, &["ROLE"]),
        ] {
            wire::pack_words(&mut bytes, words);
            steps.push(step);
        }
        Ok((bytes, steps))
    }

    /// A server that does not know the command repeats its arguments, the password among them:
    /// neither its words nor the cause may go on.
    fn unauthenticated(&self, cause: &redis::RedisError) -> Error {
        let code = cause.code().unwrap_or("an error").to_owned();
        let kind = match failure::error(&self.server, cause.clone()).kind() {
            // No such command, or not in this form: the server cannot do what the URL asks for.
            ErrorKind::Protocol => ErrorKind::Unsupported,
            kind => kind,
        };
        Error::new(
            kind,
            format!("{} refuses the user or the password ({code})", self.server),
        )
    }

    /// The error for a server that did not say a word.
    fn unheard(&self, trouble: Trouble) -> Error {
        let error = trouble.into_error();
        if !self.tls {
            return error;
        }
        // Silence and nonsense are all that a TLS client sees of a port that does not speak TLS.
        Error::caused_by(
            ErrorKind::Connection,
            format!("no TLS with {}: {error}", self.server),
            error,
        )
    }

    /// What is left of the fences after `unfenced` was the answer to the killing.
    ///
    /// Where the server will never do it, nothing: one warning says so. Where it could not just
    /// now, all of them.
    pub(super) fn loose(&self, unfenced: Option<Error>, fences: Vec<Fence>) -> Vec<Fence> {
        match unfenced {
            None => Vec::new(),
            Some(error) if error.is_retryable() => fences,
            Some(error) => {
                self.warn_once(&format!("CLIENT KILL failed ({error})"));
                Vec::new()
            }
        }
    }

    /// Whoever cannot be named cannot be killed, so a request whose reply was lost is repeated
    /// without the fence; that is worth a word, but not one for each connection.
    pub(super) fn warn_once(&self, why: &str) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            log::warn!(
                "{}: {why}; after a lost reply, a late copy of the request may leave a hold that \
                 ends with its lease (allow client|info and client|kill)",
                self.server
            );
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("server", &self.server)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    Primary,
    Replica,
}

/// `id=7 addr=127.0.0.1:40112 …`; the address is copied as it stands, each server writes it in
/// its own way.
fn fence(value: Value, started: Instant) -> Option<Fence> {
    let text = wire::reply(value).text().ok()?;
    let word = |name: &str| {
        text.split_ascii_whitespace()
            .find_map(|word| word.strip_prefix(name))
    };
    Some(Fence {
        id: word("id=")?.parse().ok()?,
        address: word("addr=")?.to_owned(),
        made: (started, Instant::now()),
    })
}

fn is_replica(value: &Value) -> bool {
    let Value::Array(parts) = value else {
        return false;
    };
    match parts.first() {
        Some(Value::BulkString(role)) => role == b"slave" || role == b"replica",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Endpoint> {
        Endpoint::parse(url, "lockson".into(), Arc::default())
    }

    #[test]
    fn a_bad_url_is_refused_without_being_quoted() {
        for url in [
            "",
            "nonsense",
            "http://user:canary@host/",
            "redis://user:canary@host:99999/",
            "redis://:canary@host/notadb",
            "rediss://:canary@host/#insecure",
        ] {
            let error = parse(url).expect_err(url);
            assert_eq!(error.kind(), ErrorKind::Config, "{url}");
            assert!(
                !format!("{error} {error:?}").contains("canary"),
                "{error:?}"
            );
        }
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn tls_needs_the_feature() {
        let error = parse("rediss://host/").expect_err("no feature");
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("feature `tls`"), "{error}");
    }

    #[test]
    fn the_server_is_named_without_credentials() {
        let endpoint = parse("redis://user:canary@localhost:7000/3?protocol=resp3").expect("good");
        assert_eq!(&**endpoint.server(), "localhost:7000");
        assert!(!format!("{endpoint:?}").contains("canary"));
        let (bytes, steps) = endpoint.greeting().expect("greeting");
        assert_eq!(steps.len(), 5);
        assert!(
            String::from_utf8_lossy(&bytes)
                .starts_with("*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH")
        );
    }

    #[test]
    fn reads_the_name_the_server_gives_us() {
        let info = "id=7 addr=[::1]:40112 laddr=[::1]:6379 fd=8 name= db=0\n";
        let read = fence(Value::BulkString(info.into()), Instant::now()).expect("readable");
        assert_eq!((read.id, &*read.address), (7, "[::1]:40112"));
        assert_eq!(fence(Value::Okay, Instant::now()), None);
    }
}
