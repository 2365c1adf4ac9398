//! The actors of a recording: each a thread of its own with the guards it has.

use std::{
    collections::BTreeMap,
    sync::mpsc::{self, Receiver, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

use lockson::{AnyGuard, AnyLock, CancelToken, Client, Error, MultiLock, RedLock, Result, Ttl};

use super::{
    faces::Face,
    stage::{Stage, key_of},
};
use crate::support::{Ground, watched, within};

/// From a type in the recordings to a handle.
pub(super) const KINDS: &[(&str, Open)] = &[
    ("lock", |order, name| {
        Box::new(order.own.reentrant_lock(name))
    }),
    ("fair", |order, name| Box::new(order.own.fair_lock(name))),
    ("read", |order, name| {
        Box::new(order.own.read_write_lock(name).read_lock())
    }),
    ("write", |order, name| {
        Box::new(order.own.read_write_lock(name).write_lock())
    }),
    ("multi", |order, names| {
        Box::new(MultiLock::new(order.members(names)).expect("there are members"))
    }),
    ("red", |order, names| {
        Box::new(RedLock::new(order.members(names)).expect("servers of their own"))
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

type Open = fn(&Order, &str) -> Box<dyn Face>;
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
    /// Each member of the lock, or the lock itself.
    pub(super) held: Vec<Held>,
    /// What the lock's hash has behind the holder.
    pub(super) suffix: &'static str,
}

/// As whom one key is held.
pub(super) struct Held {
    /// None: the actor's own.
    pub(super) client: Option<String>,
    pub(super) key: String,
    pub(super) holder: Option<String>,
}

/// All actors of one scenario.
pub(super) struct Cast<'a> {
    ground: &'a Ground,
    stage: &'a Stage,
    actors: BTreeMap<String, Actor>,
    clients: BTreeMap<String, Client>,
}

/// What an actor shall do, and the clients for it.
pub(super) struct Order {
    op: String,
    own: Client,
    others: BTreeMap<String, Client>,
}

struct Actor {
    /// None when the actor shall end.
    orders: Option<Sender<Order>>,
    answers: Receiver<Answer>,
    /// The answer to a call that blocked, once it is there.
    returned: Option<Answer>,
    interrupt: CancelToken,
    thread: Option<JoinHandle<()>>,
}

impl<'a> Cast<'a> {
    pub(super) fn new(ground: &'a Ground, stage: &'a Stage) -> Self {
        Self {
            ground,
            stage,
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
        let (client, _) = actor.split_once('/').expect("an actor is client/thread");
        let client = self.client(client);
        let before = client.state().waiters;
        self.order(actor, op);
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
        let (own, _) = actor.split_once('/').expect("an actor is client/thread");
        let members = op.split([' ', ',']);
        let others: Vec<&str> = members
            .filter_map(|member| Some(member.split_once('/')?.0))
            .collect();
        // An actor whose locks are all of other clients needs none of its own.
        let own = others.first().copied().unwrap_or(own);
        let order = Order {
            op: op.to_owned(),
            own: self.client(own),
            others: others
                .into_iter()
                .map(|name| (name.to_owned(), self.client(name)))
                .collect(),
        };
        let actor = self
            .actors
            .entry(actor.to_owned())
            .or_insert_with(|| Actor::start(actor));
        let orders = actor.orders.as_ref().expect("an actor is given orders");
        orders.send(order).expect("the actor listens");
        actor
    }

    fn client(&mut self, name: &str) -> Client {
        let client = self.clients.entry(name.to_owned()).or_insert_with(|| {
            let mut builder = Client::builder().red_lock_member_timeout(PATIENT);
            if let Some((_, timeout)) = WATCHDOG_TIMEOUTS.iter().find(|(one, _)| *one == name) {
                builder = builder.lock_watchdog_timeout(*timeout);
            }
            let url = self.stage.server_of(name).url();
            watched(self.ground, builder.connect(&url))
        });
        client.clone()
    }
}

impl Order {
    fn members(&self, names: &str) -> Vec<AnyLock> {
        let each = names.split(',').map(|member| match member.split_once('/') {
            None => self.own.reentrant_lock(member).into(),
            Some((client, name)) => self.others[client].reentrant_lock(name).into(),
        });
        each.collect()
    }
}

impl Actor {
    fn start(name: &str) -> Self {
        let (orders, inbox) = mpsc::channel::<Order>();
        let (outbox, answers) = mpsc::channel();
        let interrupt = CancelToken::new();
        let token = interrupt.clone();
        let body = move || {
            let mut hands: BTreeMap<String, Vec<AnyGuard>> = BTreeMap::new();
            for order in inbox {
                if outbox.send(perform(&order, &mut hands, &token)).is_err() {
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
    order: &Order,
    hands: &mut BTreeMap<String, Vec<AnyGuard>>,
    interrupt: &CancelToken,
) -> Answer {
    let op = &order.op;
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
    let said = run(&*open(order, name), hand, &numbers, interrupt).unwrap_or_else(Said::Failed);
    Answer {
        said,
        held: match kind {
            "multi" | "red" => of_members(name, hand.last()),
            _ => vec![Held {
                client: None,
                key: name.to_owned(),
                holder: hand.last().map(|guard| guard.holder().to_owned()),
            }],
        },
        suffix: match kind {
            "write" => ":write",
            _ => "",
        },
    }
}

fn of_members(names: &str, guard: Option<&AnyGuard>) -> Vec<Held> {
    let mut holders = guard.map(|guard| guard.holder().split(','));
    let each = names.split(',').map(|member| {
        let holder = holders.as_mut().and_then(Iterator::next);
        Held {
            client: member.split_once('/').map(|(client, _)| client.to_owned()),
            key: key_of(member),
            holder: holder.filter(|one| *one != "-").map(str::to_owned),
        }
    });
    each.collect()
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

/// Members of a RedLock have time to answer on a busy machine.
const PATIENT: Duration = Duration::from_millis(500);

const BLOCKED: Duration = Duration::from_millis(300);
