//! The thread that keeps holds alive, and releases what was left in doubt.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use super::{
    Shared,
    hold::{Hold, Raised},
    orphan::Orphan,
};
use crate::{
    error::{Error, ErrorKind},
    event::{Event, LostReason},
    protocol::{Renewal, Renewed},
    transport::{HEARTBEAT, Link, kind_in_text, wake},
};

/// How soon a failed renewal or release is tried again; doubled up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Pooled connections idle for longer are closed.
const IDLE: Duration = Duration::from_secs(60);

/// How often holds are asserted whose TTL others may lower. Redisson's watchdog does so to all readers
/// of a lock when its own timeout is shorter; when it stops then, nobody else is in time.
const ASSERTION: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Watchdog {
    state: Mutex<State>,
    changed: Condvar,
    /// The orphans that are not put right yet.
    in_doubt: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    /// That it is over, and until when the last orphans may be put right.
    stopped: Option<Instant>,
    knocked: bool,
    orphans: Vec<Orphan>,
}

impl Watchdog {
    pub(super) fn adopt(&self, orphan: Orphan) {
        self.in_doubt.fetch_add(1, Ordering::Relaxed);
        self.state.lock().orphans.push(orphan);
        self.changed.notify_one();
    }

    pub(super) fn in_doubt(&self) -> usize {
        self.in_doubt.load(Ordering::Relaxed)
    }

    /// Has it look again at when to wake up.
    pub(super) fn knock(&self) {
        self.state.lock().knocked = true;
        self.changed.notify_one();
    }

    /// Ends it after one more round for the orphans, which is over by then.
    pub(super) fn stop(&self, end: Instant) {
        self.state.lock().stopped = Some(end);
        self.changed.notify_one();
    }

    /// Sleeps until then or until somebody calls; `None` when it is over.
    fn sleep(&self, until: Instant) -> Option<Vec<Orphan>> {
        let mut state = self.state.lock();
        while state.stopped.is_none() && !state.knocked && state.orphans.is_empty() {
            if self.changed.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        state.knocked = false;
        let goes_on = state.stopped.is_none();
        goes_on.then(|| std::mem::take(&mut state.orphans))
    }

    fn stopped(&self) -> Option<Instant> {
        self.state.lock().stopped
    }
}

pub(crate) fn run(shared: &Shared) {
    let mut rounds = Rounds {
        shared,
        link: shared.transport.link(),
        // Longer than the interval, an answer would come too late for the next round.
        timeout: shared.settings.response_timeout.min(interval(shared)),
        orphans: Vec::new(),
    };
    let timeout = shared.settings.lock_watchdog_timeout;
    let mut renewals = Pace::new(interval(shared));
    let mut assertions = Pace::new(interval(shared).min(ASSERTION));
    let mut releases = Pace::new(LONGEST_PAUSE);
    let mut beats = Pace::new(HEARTBEAT);
    loop {
        let mut wake = renewals.next;
        if !rounds.orphans.is_empty() {
            wake = wake.min(releases.next);
        }
        let asserts = shared.registry.is_asserting();
        if asserts {
            wake = wake.min(assertions.next);
        }
        if shared.transport.notifier().private_channel().is_some() {
            wake = wake.min(beats.next);
        }
        // What Redis may keep for longer than we believe in it is released as soon as we do not.
        if let Some(end) = shared.registry.earliest_doubtful_deadline() {
            wake = wake.min(end);
        }
        let Some(adopted) = shared.watchdog.sleep(wake) else {
            return rounds.finish();
        };
        if !adopted.is_empty() {
            releases.next = Instant::now();
            rounds.orphans.extend(adopted);
        }
        if renewals.is_due() {
            let began = Instant::now();
            let renewed = rounds.renew(Purpose::Renew(timeout));
            renewals.went(renewed, began);
            shared.transport.trim(IDLE);
        }
        if assertions.is_due() && asserts {
            let began = Instant::now();
            shared.registry.look_for_asserted();
            let asserted = rounds.renew(Purpose::Assert);
            assertions.went(asserted, began);
        }
        if beats.is_due() {
            let began = Instant::now();
            rounds.beat();
            beats.went(true, began);
        }
        shared.lose_expired();
        if releases.is_due() && !rounds.orphans.is_empty() {
            let released = rounds.release_orphans(renewals.next.min(beats.next));
            releases.went(released, Instant::now());
            if released && !rounds.orphans.is_empty() {
                // Broken off, and not for a failure.
                releases.next = Instant::now();
            }
        }
    }
}

fn interval(shared: &Shared) -> Duration {
    (shared.settings.lock_watchdog_timeout / 3).max(Duration::from_millis(1))
}

/// When something is done next: regularly, and soon again after a failure.
struct Pace {
    interval: Duration,
    pause: Duration,
    next: Instant,
}

impl Pace {
    fn new(interval: Duration) -> Self {
        Self {
            interval,
            pause: FIRST_PAUSE,
            next: Instant::now() + interval,
        }
    }

    fn is_due(&self) -> bool {
        Instant::now() >= self.next
    }

    fn went(&mut self, well: bool, began: Instant) {
        if well {
            self.pause = FIRST_PAUSE;
            self.next = began + self.interval;
        } else {
            self.next = Instant::now() + self.pause.min(self.interval);
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// What a round over the holds is for.
#[derive(Clone, Copy)]
enum Purpose {
    /// They live as long as they are believed in, whoever lowered that.
    Assert,
    /// Those that are renewed live on for so long.
    Renew(Duration),
}

impl Purpose {
    /// How long it wants this hold to live, if it does.
    fn wants(self, hold: &Hold) -> Option<Duration> {
        match self {
            Self::Assert => hold.asserted(),
            Self::Renew(timeout) => hold.wanted(timeout),
        }
    }

    fn raised(self) -> Raised {
        match self {
            Self::Assert => Raised::Again,
            Self::Renew(_) => Raised::Renewed,
        }
    }
}

struct Rounds<'a> {
    shared: &'a Shared,
    link: Link,
    timeout: Duration,
    orphans: Vec<Orphan>,
}

impl Rounds<'_> {
    /// Shows the notifier that its link lives.
    fn beat(&mut self) {
        if let Some(private) = self.shared.transport.notifier().private_channel() {
            let _ = self
                .link
                .call(&wake(private), &[], self.timeout.min(HEARTBEAT));
        }
    }

    /// Has every hold live on as the purpose wants; false if one has to be tried again soon.
    fn renew(&mut self, purpose: Purpose) -> bool {
        let mut batches = self.batches(purpose);
        let mut well = true;
        while let Some(batch) = batches.pop_front() {
            if self.shared.watchdog.stopped().is_some() {
                return true;
            }
            match self.renew_batch(&batch, purpose) {
                Ok(all) => well &= all,
                Err(error) if is_link_trouble(&error) || !self.link.is_open() => {
                    let rest = batch.into_iter().chain(batches.into_iter().flatten());
                    self.tell(&rest.collect::<Vec<_>>(), error);
                    return false;
                }
                Err(error) if batch.len() == 1 => {
                    self.tell(&batch, error);
                    well = false;
                }
                // The server refused the batch: one of its keys must not cost the others.
                Err(_) => {
                    for hold in batch.into_iter().rev() {
                        batches.push_front(vec![hold]);
                    }
                }
            }
        }
        well
    }

    /// The holds to renew, a kind at a time, the most urgent first.
    fn batches(&self, purpose: Purpose) -> VecDeque<Vec<Arc<Hold>>> {
        let mut kinds: BTreeMap<&str, Vec<Arc<Hold>>> = BTreeMap::new();
        for hold in self.shared.registry.all() {
            if purpose.wants(&hold).is_some() {
                let kind = hold.subject.kind.name();
                kinds.entry(kind).or_default().push(hold);
            }
        }
        let size = self.shared.settings.lock_watchdog_batch_size;
        let mut batches = VecDeque::new();
        for mut holds in kinds.into_values() {
            holds.sort_by_cached_key(|hold| hold.deadline());
            batches.extend(holds.chunks(size).map(<[_]>::to_vec));
        }
        batches
    }

    /// Renews in one request; false if some were not, though the server took the request.
    fn renew_batch(&mut self, batch: &[Arc<Hold>], purpose: Purpose) -> Result<bool, Error> {
        // First the connection, which may take a while: the times below count from now.
        self.link.open(self.timeout)?;
        let wanted: Vec<(&Arc<Hold>, Duration)> = batch
            .iter()
            .filter_map(|hold| Some((hold, purpose.wants(hold)?)))
            .collect();
        let Some((first, _)) = wanted.first() else {
            return Ok(true);
        };
        let renewals: Vec<Renewal<'_>> = wanted
            .iter()
            .map(|(hold, ttl)| Renewal {
                subject: &hold.subject,
                holder: &hold.holder,
                lease: *ttl,
                each: matches!(purpose, Purpose::Renew(_)),
            })
            .collect();
        let ask = first.subject.kind.renew(&renewals);
        let answer = self
            .link
            .call(&ask.request, &[], self.timeout)
            .inspect_err(|_| wanted.iter().for_each(|(hold, _)| self.shared.doubt(hold)))?;
        let sent = answer.sent;
        let results = (ask.decode)(answer.reply).map_err(|reply| self.shared.malformed(reply))?;
        let mut well = true;
        for ((hold, ttl), result) in wanted.into_iter().zip(results) {
            match result {
                Renewed::Done if hold.confirm(purpose.raised(), sent + ttl) => {}
                // Released meanwhile by its own guard: then it was not lost.
                _ if !self.shared.registry.contains(hold) => {}
                Renewed::Done => self.shared.lose(hold, LostReason::Expired),
                Renewed::Gone => self.shared.lose(hold, LostReason::Gone),
                Renewed::Failed(text) => {
                    well = false;
                    let error = Error::new(kind_in_text(&text), format!("not renewed: {text}"));
                    self.tell(std::slice::from_ref(hold), error.about(&hold.subject.key));
                }
            }
        }
        Ok(well)
    }

    /// Puts orphans right until something else is due; false if one has to be tried again.
    fn release_orphans(&mut self, until: Instant) -> bool {
        let mut again = Vec::new();
        let before = self.orphans.len();
        while let Some(orphan) = self.orphans.pop() {
            let now = Instant::now();
            let Some(remedy) = orphan.remedy().filter(|_| now <= orphan.until) else {
                continue;
            };
            let end = self.shared.watchdog.stopped();
            // Half of it: the connection may have to be opened first.
            let left = end.map(|end| end.saturating_duration_since(now) / 2);
            if left.is_some_and(|left| left.is_zero()) {
                break;
            }
            let timeout = left.map_or(self.timeout, |left| left.min(self.timeout));
            match self.link.call(&remedy, &orphan.fences, timeout) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WrongType => {}
                Err(error) => {
                    log::warn!("an abandoned hold could not be released: {error}");
                    again.push(orphan);
                    if is_link_trouble(&error) || !self.link.is_open() {
                        break;
                    }
                }
            }
            if Instant::now() >= until {
                break;
            }
        }
        let well = again.is_empty();
        // Those that were refused come after the others.
        self.orphans.splice(..0, again);
        let done = before - self.orphans.len();
        let in_doubt = &self.shared.watchdog.in_doubt;
        in_doubt.fetch_sub(done, Ordering::Relaxed);
        well
    }

    /// Nobody will come back to what is in doubt now: it gets one attempt.
    fn finish(&mut self) {
        let adopted = std::mem::take(&mut self.shared.watchdog.state.lock().orphans);
        self.orphans.extend(adopted);
        if let Some(end) = self.shared.watchdog.stopped() {
            self.release_orphans(end);
        }
    }

    fn tell(&self, batch: &[Arc<Hold>], error: Error) {
        log::warn!("{} hold(s) not renewed: {error}", batch.len());
        self.shared.raise(|| Event::RenewalFailed {
            names: batch
                .iter()
                .map(|hold| Arc::clone(&hold.subject.name))
                .collect(),
            error,
        });
    }
}

fn is_link_trouble(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Connection | ErrorKind::Timeout)
}
