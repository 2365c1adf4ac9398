//! The fair lock: a plain lock's hash, and beside it a queue that Redis keeps in the order of arrival.

use std::{sync::Arc, time::Duration};

use super::{
    kind::{
        Acquired, Claim, HandedOver, Holdings, Kind, Left, Released, Renewal, Renewed, Standing,
        Subject,
    },
    names,
    reentrant::{Reentrant, acquired, handed_over, holdings, millis, released},
    request::{Argument, Ask, Call, Malformed, Reply, Request, Script},
};

#[derive(Debug)]
pub(crate) struct Fair;

/// Each script begins with what all know of the queue.
macro_rules! script {
    ($file:literal) => {
        Script::new(concat!(
            include_str!("lua/fair/queue.lua"),
            include_str!(concat!("lua/fair/", $file, ".lua"))
        ))
    };
}

static ACQUIRE: Script = script!("acquire");
static RELEASE: Script = script!("release");
static WITHDRAW: Script = script!("withdraw");
static FORCE_UNLOCK: Script = script!("force_unlock");
static INSPECT: Script = script!("inspect");

const CHANNEL: usize = 0;
const QUEUE: usize = 1;
const TIMES: usize = 2;

impl Kind for Fair {
    fn name(&self) -> &'static str {
        "fair"
    }

    fn companions(&self, key: &str) -> Box<[Arc<str>]> {
        Box::new([
            names::prefixed("redisson_lock__channel", key),
            names::prefixed("redisson_lock_queue", key),
            names::prefixed("redisson_lock_timeout", key),
        ])
    }

    fn acquire(&self, subject: &Subject, claim: &Claim<'_>) -> Ask<Acquired> {
        let mut arguments = vec![
            Argument::Int(millis(claim.lease)),
            Argument::Text(Arc::clone(claim.holder)),
            Argument::Int(claim.count.into()),
        ];
        if let Some(queueing) = claim.queueing {
            arguments.extend([
                Argument::Int(millis(queueing.patience)),
                Argument::Int(millis(queueing.longest)),
                Argument::Int(queueing.queued.into()),
                channel(subject),
            ]);
        }
        Ask {
            request: script(&ACQUIRE, subject, arguments),
            decode: acquired,
        }
    }

    fn release(&self, subject: &Subject, holder: &Arc<str>, left: Left) -> Ask<Released> {
        Ask {
            request: release(subject, holder, left.count, &[]),
            decode: freed,
        }
    }

    fn withdraw(&self, subject: &Subject, holder: &Arc<str>, patience: Duration) -> Ask<Released> {
        Ask {
            request: script(
                &WITHDRAW,
                subject,
                vec![
                    Argument::Text(Arc::clone(holder)),
                    Argument::Int(millis(patience)),
                    channel(subject),
                ],
            ),
            decode: released,
        }
    }

    fn standing(&self) -> Standing {
        Standing::Queued
    }

    fn hand_over(
        &self,
        subject: &Subject,
        holder: &Arc<str>,
        heirs: &[Claim<'_>],
    ) -> Ask<HandedOver> {
        Ask {
            request: release(subject, holder, 0, heirs),
            decode: handed,
        }
    }

    fn channel(&self, subject: &Subject, waiter: &Arc<str>) -> Arc<str> {
        format!("{}:{waiter}", subject.companions[CHANNEL]).into()
    }

    fn renew(&self, holds: &[Renewal<'_>]) -> Ask<Vec<Renewed>> {
        Reentrant.renew(holds)
    }

    fn force_unlock(&self, subject: &Subject) -> Ask<Released> {
        Ask {
            request: script(&FORCE_UNLOCK, subject, vec![channel(subject)]),
            decode: released,
        }
    }

    fn is_locked(&self, subject: &Subject) -> Ask<bool> {
        Reentrant.is_locked(subject)
    }

    fn is_held(&self, subject: &Subject, holder: &Arc<str>) -> Ask<bool> {
        Reentrant.is_held(subject, holder)
    }

    fn hold_count(&self, subject: &Subject, holder: &Arc<str>) -> Ask<u64> {
        Reentrant.hold_count(subject, holder)
    }

    fn ttl(&self, subject: &Subject) -> Ask<i64> {
        Reentrant.ttl(subject)
    }

    fn inspect(&self, subject: &Subject) -> Ask<Holdings> {
        Ask {
            request: script(&INSPECT, subject, vec![]),
            decode: inspected,
        }
    }
}

fn script(script: &'static Script, subject: &Subject, arguments: Vec<Argument>) -> Request {
    Request {
        call: Call::Script(script),
        keys: vec![
            Arc::clone(&subject.key),
            Arc::clone(&subject.companions[QUEUE]),
            Arc::clone(&subject.companions[TIMES]),
        ],
        arguments,
    }
}

fn channel(subject: &Subject) -> Argument {
    Argument::Text(Arc::clone(&subject.companions[CHANNEL]))
}

fn release(subject: &Subject, holder: &Arc<str>, left: u32, heirs: &[Claim<'_>]) -> Request {
    let mut arguments = vec![
        Argument::Text(Arc::clone(holder)),
        Argument::Int(left.into()),
        channel(subject),
    ];
    for heir in heirs {
        let patience = heir.queueing.map_or(Duration::ZERO, |line| line.patience);
        arguments.extend([
            Argument::Text(Arc::clone(heir.holder)),
            Argument::Int(millis(heir.lease)),
            Argument::Int(millis(patience)),
        ]);
    }
    script(&RELEASE, subject, arguments)
}

fn handed(reply: Reply) -> Result<HandedOver, Malformed> {
    match &reply {
        Reply::List(items) if items.len() > 1 => Ok(HandedOver::Instead(freed(reply)?)),
        _ => handed_over(reply),
    }
}

fn freed(reply: Reply) -> Result<Released, Malformed> {
    let Reply::List(items) = &reply else {
        return released(reply);
    };
    let [Reply::Int(0), Reply::Int(told), first] = &items[..] else {
        return Err(Malformed(reply));
    };
    match (u64::try_from(*told), first.clone().text()) {
        (Ok(told), Ok(first)) => Ok(Released::Next {
            told,
            first: first.into(),
        }),
        _ => Err(Malformed(reply)),
    }
}

fn inspected(reply: Reply) -> Result<Holdings, Malformed> {
    let whole = reply.clone();
    let Ok([ttl, fields, queue]) = <[Reply; 3]>::try_from(reply.list()?) else {
        return Err(Malformed(whole));
    };
    let mut found = holdings(Reply::List(vec![ttl, fields]))?;
    let mut queue = queue.list()?.into_iter();
    while let (Some(waiter), Some(time)) = (queue.next(), queue.next()) {
        let time = time.text()?.parse().ok();
        found.queue.push((waiter.text()?, time));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Queueing;

    fn subject(key: &str) -> Subject {
        Subject::new(&Fair, key.into(), key.into())
    }

    fn claim(holder: &Arc<str>, queueing: Option<Queueing>) -> Claim<'_> {
        Claim {
            holder,
            count: 1,
            lease: Duration::from_secs(30),
            under: None,
            queueing,
        }
    }

    #[test]
    fn names_are_redissons() {
        let keys = Fair.inspect(&subject("L")).request.keys;
        let names = ["L", "redisson_lock_queue:{L}", "redisson_lock_timeout:{L}"];
        assert_eq!(keys, names.map(Arc::from));
        let waiter = Arc::from("u:7");
        let channel = |key| Fair.channel(&subject(key), &waiter).to_string();
        assert_eq!(channel("L"), "redisson_lock__channel:{L}:u:7");
        assert_eq!(channel("{a}b"), "redisson_lock__channel:{a}b:u:7");
    }

    #[test]
    fn a_single_try_says_nothing_of_a_queue() {
        let holder = Arc::from("u:7");
        let once = Fair.acquire(&subject("L"), &claim(&holder, None));
        assert_eq!(once.request.arguments.len(), 3);
        let queueing = Queueing {
            patience: Duration::from_secs(5),
            longest: Duration::from_secs(300),
            queued: true,
        };
        let waiting = Fair.acquire(&subject("L"), &claim(&holder, Some(queueing)));
        assert_eq!(
            waiting.request.arguments[3..6],
            [5000, 300_000, 1].map(Argument::Int)
        );
    }

    #[test]
    fn each_heir_has_three_words() {
        let (holder, heir) = (Arc::from("u:7"), Arc::from("u:8"));
        let heirs = [claim(&heir, None), claim(&heir, None)];
        let ask = Fair.hand_over(&subject("L"), &holder, &heirs);
        assert_eq!(ask.request.arguments.len(), 3 + 2 * 3);
        let second = Reply::List(vec![Reply::Int(2)]);
        assert_eq!((ask.decode)(second), Ok(HandedOver::To(1)));
        let told = HandedOver::Instead(Released::Done(2));
        assert_eq!((ask.decode)(Reply::Int(2)), Ok(told));
        let first = Reply::Text("u:9".into());
        let reply = Reply::List(vec![Reply::Int(0), Reply::Int(2), first]);
        let next = Released::Next {
            told: 2,
            first: "u:9".into(),
        };
        assert_eq!((ask.decode)(reply), Ok(HandedOver::Instead(next)));
        assert!((ask.decode)(Reply::List(vec![Reply::Int(0)])).is_err());
    }

    #[test]
    fn a_waiter_without_a_time_is_shown_all_the_same() {
        let text = |text: &str| Reply::Text(text.into());
        let queue = ["u:1", "4999", "u:2", ""].map(text).to_vec();
        let reply = Reply::List(vec![
            Reply::Int(-2),
            Reply::List(vec![]),
            Reply::List(queue),
        ]);
        let found = inspected(reply).expect("understood");
        let expected = [("u:1".into(), Some(4999)), ("u:2".into(), None)];
        assert_eq!(found.queue, expected);
    }
}
