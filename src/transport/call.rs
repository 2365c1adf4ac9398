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
    pool::{Loan, Pool},
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

/// What was done for a request before it is called.
#[expect(
    clippy::large_enum_variant,
    reason = "it lives for one call, and a box would cost one more"
)]
pub(crate) enum Earlier<'a> {
    Nothing,
    /// Copies may have run, or may still run, on these connections, which are to be killed first.
    Copies(Vec<Fence>),
    /// It was written, and its reply is to be read.
    Written(Written<'a>),
}

/// A request of which the reply is to be read. Dropped before that, its connection is closed.
pub(crate) struct Written<'a> {
    loan: Loan<'a>,
    sent: Instant,
    /// How many kills went before it.
    kills: Result<usize, Trouble>,
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
        self.call_again(Earlier::Nothing, lane, request, undo, budget, &|| false)
    }

    /// Writes a request, so that [`call_again`](Self::call_again) need only read its reply. `None`
    /// where that could take its time: no connection is ready.
    pub(crate) fn begin(
        &self,
        lane: Lane,
        request: &Request,
        deadline: Instant,
    ) -> Option<Written<'_>> {
        let loan = self.pool.lend_ready(lane)?;
        Some(self.write(loan, request, &[], deadline))
    }

    /// Sends a request of which something was done earlier. No attempt is begun after one that
    /// failed when it is `over`.
    pub(crate) fn call_again(
        &self,
        earlier: Earlier<'_>,
        lane: Lane,
        request: &Request,
        undo: Option<&Request>,
        budget: Budget,
        over: &dyn Fn() -> bool,
    ) -> Result<Answer, Failure> {
        let mut doubt = Doubt::default();
        let mut written = None;
        match earlier {
            Earlier::Nothing => {}
            Earlier::Copies(fences) => (doubt.any, doubt.fences) = (true, fences),
            Earlier::Written(earlier) => written = Some(earlier),
        }
        let mut attempt = 1;
        let mut reason = None;
        loop {
            let tried = match written.take() {
                Some(written) => {
                    let now = Instant::now();
                    self.read(written, request, (budget.deadline, now), &mut doubt)
                }
                None => self.attempt(lane, request, budget.deadline, &mut doubt),
            };
            let error = match tried {
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
        let loan = self
            .pool
            .lend(lane, deadline)
            .map_err(Setback::NoConnection)?;
        let written = self.write(loan, request, &doubt.fences, deadline);
        let sent = written.sent;
        self.read(written, request, (deadline, sent), doubt)
    }

    fn write<'a>(
        &self,
        mut loan: Loan<'a>,
        request: &Request,
        fences: &[Fence],
        deadline: Instant,
    ) -> Written<'a> {
        let sent = loan.since();
        let kills = loan.write(request, fences, self.timeout(deadline, sent));
        Written { loan, sent, kills }
    }

    /// Reads the reply until the deadline, as seen from this instant.
    fn read(
        &self,
        written: Written<'_>,
        request: &Request,
        (deadline, now): (Instant, Instant),
        doubt: &mut Doubt,
    ) -> Result<Answer, Setback> {
        let Written {
            loan: mut connection,
            sent,
            kills,
        } = written;
        let timeout = self.timeout(deadline, now);
        match kills.and_then(|kills| connection.read(request, kills, now, timeout)) {
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

    /// How long a reply is waited for.
    fn timeout(&self, deadline: Instant, now: Instant) -> Duration {
        let left = deadline.saturating_duration_since(now);
        self.response_timeout.min(left)
    }
}

impl Written<'_> {
    /// What must be killed if nobody will read the reply.
    pub(crate) fn fences(&self) -> Vec<Fence> {
        self.loan.fence().cloned().into_iter().collect()
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
