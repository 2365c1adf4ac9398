//! The actors of a recording: each a thread of its own with the guards it has.

use std::{
    collections::BTreeMap,
    sync::mpsc::{self, Receiver, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

use lockson::{
    AnyGuard, AnyLock, CancelToken, Client, Error, FairLock, ReadLock, ReentrantLock, Result, Ttl,
    WriteLock,
};

use crate::support::{Ground, watched, within};

/// From a type in the recordings to a handle.
pub(super) const KINDS: &[(&str, Open)] = &[
    ("lock", |client, name| Box::new(client.reentrant_lock(name))),
    ("fair", |client, name| Box::new(client.fair_lock(name))),
    ("read", |client, name| {
        Box::new(client.read_write_lock(name).read_lock())
    }),
    ("write", |client, name| {
        Box::new(client.read_write_lock(name).write_lock())
    }),
];

/// From a verb in the recordings to a call.
pub(super) const VERBS: &[(&str, Verb)] = &[
    ("lock", |lock, hand, _, _| {
        hand.push(lock.any().lock()?);
        Ok(Said::Nothing)
    }),
    ("lockL", |lock, hand, numbers, _| {
        hand.push(lock.any().lock_with_lease(millis(numbers[0]))?);
        Ok(Said::Nothing)
    }),
    ("lockInterruptibly", |lock, hand, _, interrupt| {
        let taken = lock.any().options().cancel(interrupt).acquire()?;
        assert!(take(hand, taken), "it waits for ever");
        Ok(Said::Nothing)
    }),
    ("tryLock", |lock, hand, _, _| {
        Ok(Said::Truth(take(hand, lock.any().try_lock()?)))
    }),
    ("tryLockW", |lock, hand, numbers, _| {
        let taken = lock.any().try_lock_for(millis(numbers[0]))?;
        Ok(Said::Truth(take(hand, taken)))
    }),
    ("tryLockWL", |lock, hand, numbers, _| {
        let (wait, lease) = (millis(numbers[0]), millis(numbers[1]));
        let taken = lock.any().try_lock_for_with_lease(wait, lease)?;
        Ok(Said::Truth(take(hand, taken)))
    }),
    ("unlock", |_, hand, _, _| match hand.pop() {
        Some(guard) => guard.unlock().map(|()| Said::Nothing),
        None => Ok(Said::NoGuard),
    }),
    ("forceUnlock", |lock, _, _, _| {
        lock.force_unlock().map(Said::Truth)
    }),
    ("isLocked", |lock, _, _, _| {
        lock.is_locked().map(Said::Truth)
    }),
    ("isHeld", |lock, _, _, _| {
        lock.any().is_held_by_current_thread().map(Said::Truth)
    }),
    ("holdCount", |lock, _, _, _| {
        Ok(Said::Number(lock.hold_count()?.cast_signed()))
    }),
    ("ttl", |lock, _, _, _| {
        Ok(Said::Ttl(match lock.remaining_ttl()? {
            Ttl::Free => -2,
            Ttl::NoExpiry => -1,
            Ttl::Left(left) => i64::try_from(left.as_millis()).expect("a TTL is small"),
        }))
    }),
];

/// The settings of a recorded client; any other has the defaults.
const WATCHDOG_TIMEOUTS: &[(&str, Duration)] = &[("W", Duration::from_secs(3))];

type Open = fn(&Client, &str) -> Box<dyn Face>;
type Verb = fn(&dyn Face, &mut Vec<AnyGuard>, &[u64], &CancelToken) -> Result<Said>;

/// What an actor was answered.
#[derive(Debug)]
pub(super) enum Said {
    Nothing,
    Truth(bool),
    Number(i64),
    Ttl(i64),
    Failed(Error),
    /// There was nothing in the hand to call it on.
    NoGuard,
}

/// What an actor was answered, and as whom it holds the lock now.
pub(super) struct Answer {
    pub(super) said: Said,
    pub(super) lock: String,
    pub(super) holder: Option<String>,
    /// What the lock's hash has behind the holder.
    pub(super) suffix: &'static str,
}

/// One lock as the verbs need it, whatever its type.
pub(super) trait Face {
    fn any(&self) -> AnyLock;
    fn is_locked(&self) -> Result<bool>;
    fn hold_count(&self) -> Result<u64>;
    fn remaining_ttl(&self) -> Result<Ttl>;
    fn force_unlock(&self) -> Result<bool>;
}

macro_rules! face {
    ($lock:ty) => {
        impl Face for $lock {
            fn any(&self) -> AnyLock {
                self.into()
            }

            fn is_locked(&self) -> Result<bool> {
                self.is_locked()
            }

            fn hold_count(&self) -> Result<u64> {
                self.hold_count()
            }

            fn remaining_ttl(&self) -> Result<Ttl> {
                self.remaining_ttl()
            }

            fn force_unlock(&self) -> Result<bool> {
                self.force_unlock()
            }
        }
    };
}

face!(ReentrantLock);
face!(FairLock);
face!(ReadLock);
face!(WriteLock);

/// All actors of one scenario.
pub(super) struct Cast<'a> {
    ground: &'a Ground,
    actors: BTreeMap<String, Actor>,
    clients: BTreeMap<String, Client>,
}

struct Actor {
    /// None when the actor shall end.
    orders: Option<Sender<String>>,
    answers: Receiver<Answer>,
    /// The answer to a call that blocked, once it is there.
    returned: Option<Answer>,
    interrupt: CancelToken,
    thread: Option<JoinHandle<()>>,
}

impl<'a> Cast<'a> {
    pub(super) fn new(ground: &'a Ground) -> Self {
        Self {
            ground,
            actors: BTreeMap::new(),
            clients: BTreeMap::new(),
        }
    }

    /// Has an actor do something on its thread, and waits for the answer.
    pub(super) fn perform(&mut self, actor: &str, op: &str) -> Answer {
        self.order(actor, op).answer(op)
    }

    /// Has an actor begin something that blocks.
    pub(super) fn begin(&mut self, actor: &str, op: &str) -> std::result::Result<(), String> {
        let before = self.client(actor).state().waiters;
        self.order(actor, op);
        let client = self.client(actor);
        within(ANSWER_BOUND, || client.state().waiters > before)
            .ok_or_else(|| "does not block".to_owned())?;
        // As long as the recording gave it: what time it leaves is recorded too.
        thread::sleep(BLOCKED);
        match self.actors[actor].answers.try_recv() {
            Ok(answer) => Err(format!("answered {:?} at once", answer.said)),
            Err(_) => Ok(()),
        }
    }

    /// The answer to what an actor began.
    pub(super) fn finish(&mut self, actor: &str, op: &str) -> Answer {
        let actor = self.actors.get_mut(actor).expect("it began something");
        match actor.returned.take() {
            Some(answer) => answer,
            None => actor.answer(op),
        }
    }

    pub(super) fn interrupt(&self, actor: &str) {
        self.actors[actor].interrupt.cancel();
    }

    /// Calls that have returned by now, though nobody asked for their answers yet.
    pub(super) fn returned(&mut self, mut tell: impl FnMut(&str, &Answer)) {
        for (name, actor) in &mut self.actors {
            if let Ok(answer) = actor.answers.try_recv() {
                tell(name, &answer);
                actor.returned = Some(answer);
            }
        }
    }

    fn order(&mut self, actor: &str, op: &str) -> &Actor {
        if !self.actors.contains_key(actor) {
            let new = Actor::start(self.client(actor), actor);
            self.actors.insert(actor.to_owned(), new);
        }
        let actor = &self.actors[actor];
        let orders = actor.orders.as_ref().expect("an actor is given orders");
        orders.send(op.to_owned()).expect("the actor listens");
        actor
    }

    fn client(&mut self, actor: &str) -> Client {
        let (name, _) = actor.split_once('/').expect("an actor is client/thread");
        let client = self.clients.entry(name.to_owned()).or_insert_with(|| {
            let mut builder = Client::builder();
            if let Some((_, timeout)) = WATCHDOG_TIMEOUTS.iter().find(|(one, _)| *one == name) {
                builder = builder.lock_watchdog_timeout(*timeout);
            }
            let url = self.ground.server().url();
            watched(self.ground, builder.connect(&url))
        });
        client.clone()
    }
}

impl Actor {
    fn start(client: Client, name: &str) -> Self {
        let (orders, inbox) = mpsc::channel::<String>();
        let (outbox, answers) = mpsc::channel();
        let interrupt = CancelToken::new();
        let token = interrupt.clone();
        let body = move || {
            let mut hands: BTreeMap<String, Vec<AnyGuard>> = BTreeMap::new();
            for op in inbox {
                if outbox
                    .send(perform(&client, &mut hands, &op, &token))
                    .is_err()
                {
                    return;
                }
            }
        };
        Self {
            orders: Some(orders),
            answers,
            returned: None,
            interrupt,
            thread: Some(
                thread::Builder::new()
                    .name(format!("actor {name}"))
                    .spawn(body)
                    .expect("a thread can be started"),
            ),
        }
    }
}

impl Actor {
    fn answer(&self, op: &str) -> Answer {
        self.answers
            .recv_timeout(ANSWER_BOUND)
            .unwrap_or_else(|error| panic!("{op:?} is answered: {error}"))
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !thread::panicking()
        {
            panic!("an actor panicked");
        }
    }
}

fn perform(
    client: &Client,
    hands: &mut BTreeMap<String, Vec<AnyGuard>>,
    op: &str,
    interrupt: &CancelToken,
) -> Answer {
    let words: Vec<&str> = op.split_whitespace().collect();
    let [verb, kind, name, ref rest @ ..] = words[..] else {
        panic!("{op:?} is a verb, a type and a name");
    };
    let numbers: Vec<u64> = rest
        .iter()
        .map(|word| word.parse().expect("an argument is a number"))
        .collect();
    let open = find(KINDS, kind);
    let run = find(VERBS, verb);
    let hand = hands.entry(format!("{kind} {name}")).or_default();
    let said = run(&*open(client, name), hand, &numbers, interrupt).unwrap_or_else(Said::Failed);
    Answer {
        said,
        lock: name.to_owned(),
        holder: hand.last().map(|guard| guard.holder().to_owned()),
        suffix: match kind {
            "write" => ":write",
            _ => "",
        },
    }
}

fn find<T: Copy>(table: &[(&str, T)], word: &str) -> T {
    table
        .iter()
        .find_map(|(known, what)| (*known == word).then_some(*what))
        .unwrap_or_else(|| panic!("{word:?} is not in the table"))
}

/// Keeps the guard, if there is one.
fn take(hand: &mut Vec<AnyGuard>, taken: Option<AnyGuard>) -> bool {
    let success = taken.is_some();
    hand.extend(taken);
    success
}

fn millis(number: u64) -> Duration {
    Duration::from_millis(number)
}

const ANSWER_BOUND: Duration = Duration::from_secs(20);

const BLOCKED: Duration = Duration::from_millis(300);
