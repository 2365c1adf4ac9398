//! The plain reentrant lock: a hash of holder → count at the lock's own name.

use std::{sync::Arc, time::Duration};

use super::{
    kind::{
        Acquired, Claim, HandedOver, Held, Holdings, Kind, Left, Released, Renewal, Renewed,
        Standing, Subject,
    },
    names,
    request::{Argument, Ask, Call, Malformed, Reply, Request, Script},
};

#[derive(Debug)]
pub(crate) struct Reentrant;

static ACQUIRE: Script = Script::new(include_str!("lua/acquire.lua"));
static RELEASE: Script = Script::new(include_str!("lua/release.lua"));
static HAND_OVER: Script = Script::new(include_str!("lua/hand_over.lua"));
static RENEW: Script = Script::new(include_str!("lua/renew.lua"));
static FORCE_UNLOCK: Script = Script::new(include_str!("lua/force_unlock.lua"));
static INSPECT: Script = Script::new(include_str!("lua/inspect.lua"));

const CHANNEL: usize = 0;

impl Kind for Reentrant {
    fn name(&self) -> &'static str {
        "reentrant"
    }

    fn companions(&self, key: &str) -> Box<[Arc<str>]> {
        Box::new([names::prefixed("redisson_lock__channel", key)])
    }

    fn acquire(&self, subject: &Subject, claim: &Claim<'_>) -> Ask<Acquired> {
        Ask {
            request: script(
                &ACQUIRE,
                subject,
                vec![
                    Argument::Int(millis(claim.lease)),
                    Argument::Text(Arc::clone(claim.holder)),
                    Argument::Int(claim.count.into()),
                ],
            ),
            decode: acquired,
        }
    }

    fn release(&self, subject: &Subject, holder: &Arc<str>, left: Left) -> Ask<Released> {
        Ask {
            request: script(
                &RELEASE,
                subject,
                vec![
                    Argument::Text(Arc::clone(holder)),
                    Argument::Int(left.count.into()),
                    Argument::Text(channel(subject)),
                ],
            ),
            decode: released,
        }
    }

    fn withdraw(&self, subject: &Subject, holder: &Arc<str>, _patience: Duration) -> Ask<Released> {
        self.release(subject, holder, Left::NOTHING)
    }

    fn standing(&self) -> Standing {
        Standing::OneForAll
    }

    fn hand_over(
        &self,
        subject: &Subject,
        holder: &Arc<str>,
        heirs: &[Claim<'_>],
    ) -> Ask<HandedOver> {
        let mut arguments = vec![
            Argument::Text(Arc::clone(holder)),
            Argument::Text(channel(subject)),
        ];
        // The first in line, and nobody else.
        for heir in heirs.iter().take(1) {
            arguments.push(Argument::Text(Arc::clone(heir.holder)));
            arguments.push(Argument::Int(millis(heir.lease)));
        }
        Ask {
            request: script(&HAND_OVER, subject, arguments),
            decode: handed_over,
        }
    }

    fn channel(&self, subject: &Subject, _waiter: &Arc<str>) -> Arc<str> {
        channel(subject)
    }

    fn renew(&self, holds: &[Renewal<'_>]) -> Ask<Vec<Renewed>> {
        Ask {
            request: Request {
                call: Call::Script(&RENEW),
                keys: holds
                    .iter()
                    .map(|hold| Arc::clone(&hold.subject.key))
                    .collect(),
                arguments: holds
                    .iter()
                    .flat_map(|hold| {
                        [
                            Argument::Text(Arc::clone(hold.holder)),
                            Argument::Int(millis(hold.lease)),
                        ]
                    })
                    .collect(),
            },
            decode: |reply| reply.list()?.into_iter().map(renewed).collect(),
        }
    }

    fn force_unlock(&self, subject: &Subject) -> Ask<Released> {
        Ask {
            request: script(
                &FORCE_UNLOCK,
                subject,
                vec![Argument::Text(channel(subject))],
            ),
            decode: released,
        }
    }

    fn is_locked(&self, subject: &Subject) -> Ask<bool> {
        Ask {
            request: command("EXISTS", subject, vec![]),
            decode: |reply| Ok(reply.int()? > 0),
        }
    }

    fn is_held(&self, subject: &Subject, holder: &Arc<str>) -> Ask<bool> {
        Ask {
            request: command("HEXISTS", subject, vec![Argument::Text(Arc::clone(holder))]),
            decode: |reply| Ok(reply.int()? > 0),
        }
    }

    fn hold_count(&self, subject: &Subject, holder: &Arc<str>) -> Ask<u64> {
        Ask {
            request: command("HGET", subject, vec![Argument::Text(Arc::clone(holder))]),
            decode: |reply| match reply {
                Reply::Nil => Ok(0),
                other => count(other),
            },
        }
    }

    fn ttl(&self, subject: &Subject) -> Ask<i64> {
        Ask {
            request: command("PTTL", subject, vec![]),
            decode: Reply::int,
        }
    }

    fn inspect(&self, subject: &Subject) -> Ask<Holdings> {
        Ask {
            request: script(&INSPECT, subject, vec![]),
            decode: holdings,
        }
    }
}

fn channel(subject: &Subject) -> Arc<str> {
    Arc::clone(&subject.companions[CHANNEL])
}

pub(super) fn script(
    script: &'static Script,
    subject: &Subject,
    arguments: Vec<Argument>,
) -> Request {
    Request {
        call: Call::Script(script),
        keys: vec![Arc::clone(&subject.key)],
        arguments,
    }
}

pub(super) fn command(name: &'static str, subject: &Subject, arguments: Vec<Argument>) -> Request {
    Request {
        call: Call::Command(name),
        keys: vec![Arc::clone(&subject.key)],
        arguments,
    }
}

/// Redis counts whole milliseconds, and `PEXPIRE 0` deletes the key: a shorter lease rounds up.
pub(super) fn millis(lease: Duration) -> i64 {
    let whole = lease.as_nanos().div_ceil(1_000_000).max(1);
    i64::try_from(whole).unwrap_or(i64::MAX)
}

pub(super) fn acquired(reply: Reply) -> Result<Acquired, Malformed> {
    match reply {
        Reply::Nil => Ok(Acquired::Held(None)),
        Reply::Int(ttl) => Ok(Acquired::Refused(ttl)),
        Reply::Text(text) if text == b"lost" => Ok(Acquired::Lost),
        other => Err(Malformed(other)),
    }
}

/// A list of one is the number of the heir that got it, counted from 1.
pub(super) fn handed_over(reply: Reply) -> Result<HandedOver, Malformed> {
    let Reply::List(items) = &reply else {
        return Ok(HandedOver::Instead(released(reply)?));
    };
    match items[..] {
        [Reply::Int(number)] if number > 0 => Ok(HandedOver::To(number as usize - 1)),
        _ => Err(Malformed(reply)),
    }
}

pub(super) fn released(reply: Reply) -> Result<Released, Malformed> {
    match reply {
        Reply::Int(-1) => Ok(Released::Gone),
        Reply::Int(-2) => Ok(Released::Unannounced),
        Reply::Int(-3) => Ok(Released::Shared),
        Reply::Int(told) => match u64::try_from(told) {
            Ok(told) => Ok(Released::Done(told)),
            Err(_) => Err(Malformed(reply)),
        },
        other => Err(Malformed(other)),
    }
}

pub(super) fn renewed(reply: Reply) -> Result<Renewed, Malformed> {
    match reply {
        Reply::Int(0) => Ok(Renewed::Gone),
        Reply::Int(_) => Ok(Renewed::Done),
        // The key is something else now, so whatever it was before is gone.
        Reply::Text(text) if text.windows(9).any(|word| word == b"WRONGTYPE") => Ok(Renewed::Gone),
        other => Ok(Renewed::Failed(other.text()?)),
    }
}

/// A count as Redis or anybody else wrote it: text of a number.
pub(super) fn count(reply: Reply) -> Result<u64, Malformed> {
    let text = reply.clone().text()?;
    text.parse().map_err(|_| Malformed(reply))
}

/// The TTL, then the fields and values in turn; a kind with a queue adds to it.
pub(super) fn holdings(reply: Reply) -> Result<Holdings, Malformed> {
    let whole = reply.clone();
    let Ok([ttl, fields]) = <[Reply; 2]>::try_from(reply.list()?) else {
        return Err(Malformed(whole));
    };
    let mut found = Holdings {
        ttl: ttl.int()?,
        mode: None,
        holders: Vec::new(),
        queue: Vec::new(),
    };
    let mut fields = fields.list()?.into_iter();
    while let (Some(field), Some(value)) = (fields.next(), fields.next()) {
        let field = field.text()?;
        if field == "mode" {
            found.mode = Some(value.text()?);
        } else {
            // Foreign values that are no counts are shown as 0, not refused: this is for people.
            found.holders.push(Held {
                holder: field,
                count: count(value).unwrap_or(0),
                writes: false,
                ttl: None,
            });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Subject {
        Subject::new(&Reentrant, "L".into(), "L".into())
    }

    #[test]
    fn asks_as_the_script_expects() {
        let holder = Arc::from("u:1");
        let ask = Reentrant.acquire(
            &subject(),
            &Claim {
                holder: &holder,
                count: 2,
                lease: Duration::from_millis(1500),
                under: None,
                queueing: None,
            },
        );
        assert_eq!(ask.request.keys, [Arc::from("L")]);
        assert_eq!(
            ask.request.arguments,
            [
                Argument::Int(1500),
                Argument::Text(holder.clone()),
                Argument::Int(2)
            ]
        );
        let ask = Reentrant.release(&subject(), &holder, Left::NOTHING);
        assert_eq!(
            ask.request.arguments[2],
            Argument::Text("redisson_lock__channel:{L}".into())
        );
    }

    #[test]
    fn a_lease_rounds_up_and_never_to_zero() {
        assert_eq!(millis(Duration::from_nanos(1)), 1);
        assert_eq!(millis(Duration::from_micros(500)), 1);
        assert_eq!(millis(Duration::from_micros(1001)), 2);
        assert_eq!(millis(Duration::from_secs(30)), 30_000);
        assert_eq!(millis(Duration::MAX), i64::MAX);
    }

    #[test]
    fn reads_each_answer_and_refuses_the_rest() {
        let holder = Arc::from("u:1");
        let claim = Claim {
            holder: &holder,
            count: 1,
            lease: Duration::from_secs(1),
            under: None,
            queueing: None,
        };
        let acquired = Reentrant.acquire(&subject(), &claim).decode;
        assert_eq!(acquired(Reply::Nil), Ok(Acquired::Held(None)));
        assert_eq!(acquired(Reply::Int(-1)), Ok(Acquired::Refused(-1)));
        assert_eq!(acquired(Reply::Text(b"lost".to_vec())), Ok(Acquired::Lost));
        assert!(acquired(Reply::Text(b"what".to_vec())).is_err());
        assert!(acquired(Reply::List(vec![])).is_err());
        assert_eq!(released(Reply::Int(-2)), Ok(Released::Unannounced));
        assert_eq!(released(Reply::Int(7)), Ok(Released::Done(7)));
        assert!(released(Reply::Int(-7)).is_err());
        assert_eq!(
            renewed(Reply::Text(b"ERR at 3: WRONGTYPE Operation".to_vec())),
            Ok(Renewed::Gone)
        );
        assert_eq!(
            renewed(Reply::Text(b"NOPERM no".to_vec())),
            Ok(Renewed::Failed("NOPERM no".into()))
        );
    }

    #[test]
    fn shows_what_others_wrote() {
        let text = |text: &str| Reply::Text(text.into());
        let reply = Reply::List(vec![
            Reply::Int(-1),
            Reply::List(vec![
                text("u:1"),
                text("2"),
                text("mode"),
                text("read"),
                text("x"),
                text("?"),
            ]),
        ]);
        assert_eq!(
            holdings(reply),
            Ok(Holdings {
                ttl: -1,
                mode: Some("read".into()),
                holders: [("u:1", 2), ("x", 0)]
                    .map(|(holder, count)| Held {
                        holder: holder.into(),
                        count,
                        writes: false,
                        ttl: None,
                    })
                    .into(),
                queue: vec![],
            })
        );
        assert!(holdings(Reply::List(vec![Reply::Int(1)])).is_err());
    }
}
