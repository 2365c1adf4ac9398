//! The call: one request, one effect, however often it has to be sent.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use super::{
    connection::{Connection, Fence, Trouble},
    endpoint::Endpoint,
    gate::Lane,
    link::Link,
    notifier::{Listener, Notifier, Subscription},
    pool::Pool,
};
use crate::{
    error::{Error, ErrorKind, Result},
    protocol::{Argument, Call, Reply, Request},
    settings::Settings,
};

/// How long to let a server rest that refused at once.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Transport {
    endpoint: Arc<Endpoint>,
    pool: Pool,
    notifier: Arc<Notifier>,
    response_timeout: Duration,
}

/// How often and how long a call may try.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) attempts: u32,
    pub(crate) deadline: Instant,
    /// Whether a request that may have run is sent again.
    pub(crate) repeats: bool,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    /// Just before the request that was answered was sent.
    pub(crate) sent: Instant,
    /// Whether an earlier copy may have had the effect.
    pub(crate) repeated: bool,
    /// The connections of earlier copies that could not be killed this time.
    pub(crate) loose: Vec<Fence>,
}

/// A call that was given up.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// Whether a copy of the request may have run, or may still run.
    pub(crate) doubtful: bool,
    /// The connections that must be killed before that can be excluded.
    pub(crate) fences: Vec<Fence>,
}

impl Transport {
    pub(crate) fn new(endpoint: Endpoint, client: Arc<str>, settings: &Settings) -> Self {
        let endpoint = Arc::new(endpoint);
        Self {
            notifier: Arc::new(Notifier::new(Arc::clone(&endpoint), client)),
            pool: Pool::new(
                Arc::clone(&endpoint),
                settings.pool_size,
                settings.response_timeout,
            ),
            endpoint,
            response_timeout: settings.response_timeout,
        }
    }

    /// Sends a request until it is answered or the budget is used up.
    ///
    /// Before a repetition, the connection of the doubtful copy is killed at the server. Whoever
    /// gives up in doubt writes `undo` behind the doubtful copy and does not wait for it.
    pub(crate) fn call(
        &self,
        lane: Lane,
        request: &Request,
        undo: Option<&Request>,
        budget: Budget,
    ) -> Result<Answer, Failure> {
        self.call_again(None, lane, request, undo, budget, &|| false)
    }

    /// Sends a request of which earlier copies may have run, or may still run, on connections that
    /// are to be killed first. No attempt is begun after one that failed when it is `over`.
    pub(crate) fn call_again(
        &self,
        earlier: Option<Vec<Fence>>,
        lane: Lane,
        request: &Request,
        undo: Option<&Request>,
        budget: Budget,
        over: &dyn Fn() -> bool,
    ) -> Result<Answer, Failure> {
        let mut doubt = Doubt {
            any: earlier.is_some(),
            fences: earlier.unwrap_or_default(),
            ..Doubt::default()
        };
        let mut attempt = 1;
        let mut reason = None;
        loop {
            let error = match self.attempt(lane, request, budget.deadline, &mut doubt) {
                Ok(answer) => return Ok(answer),
                Err(Setback::Connected(error)) => error,
                // That there was no time for a second connection is no reason; the first was.
                Err(Setback::NoConnection(error)) => match reason {
                    Some(reason) if error.kind() == ErrorKind::Timeout => reason,
                    _ => error,
                },
            };
            let transient = matches!(error.kind(), ErrorKind::Connection | ErrorKind::Timeout);
            if !transient
                || attempt >= budget.attempts
                || Instant::now() >= budget.deadline
                || (doubt.any && !budget.repeats)
                || over()
            {
                return Err(doubt.give_up(error, undo));
            }
            attempt += 1;
            if error.kind() == ErrorKind::Connection && !doubt.last_broken {
                thread::sleep(PAUSE.min(budget.deadline.saturating_duration_since(Instant::now())));
            }
            reason = Some(error);
        }
    }

    /// Whether there is a server that can be used.
    pub(crate) fn probe(&self) -> Result<()> {
        self.endpoint.probe()
    }

    /// Listens to a channel as long as the subscription lives.
    pub(crate) fn listen(
        &self,
        channel: &Arc<str>,
        listener: Arc<dyn Listener>,
        limit: Duration,
    ) -> Subscription {
        let subscription = self.notifier.subscribe(channel, listener);
        self.wake_notifier(limit.min(self.response_timeout));
        subscription
    }

    /// Has the notifier look at what it should listen to. If this fails, its next heartbeat does it.
    pub(crate) fn wake_notifier(&self, limit: Duration) {
        if let Some(channel) = self.notifier.private_channel() {
            let budget = Budget {
                attempts: 1,
                deadline: Instant::now() + limit,
                repeats: false,
            };
            let _ = self.call(Lane::Acquire, &wake(channel), None, budget);
        }
    }

    /// Host and port, or socket.
    pub(crate) fn server(&self) -> &str {
        self.endpoint.server()
    }

    pub(crate) fn notifier(&self) -> &Arc<Notifier> {
        &self.notifier
    }

    /// A connection outside the pool, for a thread that must not wait for one.
    pub(crate) fn link(&self) -> Link {
        Link::new(Arc::clone(&self.endpoint))
    }

    pub(crate) fn trim(&self, idle: Duration) {
        self.pool.trim(idle);
    }

    pub(crate) fn close(&self) {
        self.pool.close();
    }

    pub(crate) fn open_connections(&self) -> usize {
        self.pool.open_connections()
    }

    fn attempt(
        &self,
        lane: Lane,
        request: &Request,
        deadline: Instant,
        doubt: &mut Doubt,
    ) -> Result<Answer, Setback> {
        doubt.last_broken = false;
        let mut connection = self
            .pool
            .lend(lane, deadline)
            .map_err(Setback::NoConnection)?;
        let sent = Instant::now();
        let timeout = self
            .response_timeout
            .min(deadline.saturating_duration_since(sent));
        match connection.call(request, &doubt.fences, timeout) {
            Ok(replied) => {
                let fences = std::mem::take(&mut doubt.fences);
                Ok(Answer {
                    reply: replied.reply,
                    sent,
                    repeated: doubt.any,
                    loose: self.endpoint.loose(replied.unfenced, fences),
                })
            }
            Err(Trouble::Refused(error)) => Err(Setback::Connected(error)),
            Err(Trouble::Broken(error)) => {
                self.pool.distrust(&mut connection, &error);
                doubt.add(connection.take());
                Err(Setback::Connected(error))
            }
        }
    }
}

/// The message that wakes a notifier and shows it that its link lives.
pub(crate) fn wake(private: Arc<str>) -> Request {
    Request {
        call: Call::Command("PUBLISH"),
        keys: vec![private],
        arguments: vec![Argument::Text("1".into())],
    }
}

/// Why an attempt failed: before or after there was a connection.
enum Setback {
    NoConnection(Error),
    Connected(Error),
}

/// The copies of a request of which nobody knows whether they ran.
#[derive(Debug, Default)]
struct Doubt {
    any: bool,
    last_broken: bool,
    fences: Vec<Fence>,
    connections: Vec<Connection>,
}

impl Doubt {
    fn add(&mut self, connection: Connection) {
        self.any = true;
        self.last_broken = true;
        self.fences.extend(connection.fence().cloned());
        self.connections.push(connection);
    }

    fn give_up(mut self, error: Error, undo: Option<&Request>) -> Failure {
        if let Some(undo) = undo {
            for connection in &mut self.connections {
                connection.call_and_leave(undo);
            }
        }
        Failure {
            error,
            doubtful: self.any,
            fences: self.fences,
        }
    }
}
