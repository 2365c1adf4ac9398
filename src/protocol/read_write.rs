//! The read-write lock: a hash with a mode, a field for each reader and for the writer; and for each
//! acquisition of a reader a slot, a key that lives as long as it does.

use std::{sync::Arc, time::Duration};

use super::{
    kind::{
        Acquired, Claim, HandedOver, Holdings, Kind, Left, Part, Released, Renewal, Renewed,
        Standing, Subject,
    },
    names,
    reentrant::{
        Reentrant, acquired, command, handed_over, holdings, millis, released, renewed, script,
    },
    request::{Argument, Ask, Call, Malformed, Reply, Request, Script},
};

/// The half that many may have.
#[derive(Debug)]
pub(crate) struct Read;

/// The half that one has alone.
#[derive(Debug)]
pub(crate) struct Write;

/// Those that look at the readers begin with what all know of them.
macro_rules! script {
    ($file:literal) => {
        Script::new(concat!(
            include_str!("lua/read_write/slots.lua"),
            include_str!(concat!("lua/read_write/", $file, ".lua"))
        ))
    };
}

static READ: Script = script!("read");
static UNREAD: Script = script!("unread");
static RENEW_READS: Script = script!("renew_reads");
static READ_COUNT: Script = script!("read_count");
static IS_READ_LOCKED: Script = Script::new(include_str!("lua/read_write/is_read_locked.lua"));
static WRITE: Script = Script::new(include_str!("lua/read_write/write.lua"));
static UNWRITE: Script = script!("unwrite");
static FORCE_UNLOCK: Script = Script::new(include_str!("lua/read_write/force_unlock.lua"));
static INSPECT: Script = script!("inspect");

const CHANNEL: usize = 0;
const STEM: usize = 1;

/// What a writer's field has behind its holder.
const WRITER: &str = ":write";

impl Kind for Read {
    fn name(&self) -> &'static str {
        "read"
    }

    fn companions(&self, key: &str) -> Box<[Arc<str>]> {
        companions(key)
    }

    fn acquire(&self, subject: &Subject, claim: &Claim<'_>) -> Ask<Acquired> {
        let arguments = vec![
            stem(subject),
            Argument::Int(millis(claim.lease)),
            Argument::Text(Arc::clone(claim.holder)),
            Argument::Int(claim.count.into()),
            Argument::Text(writer(claim.under.unwrap_or(claim.holder))),
        ];
        Ask {
            request: script(&READ, subject, arguments),
            decode: acquired,
        }
    }

    fn release(&self, subject: &Subject, holder: &Arc<str>, left: Left) -> Ask<Released> {
        let arguments = vec![
            stem(subject),
            Argument::Text(Arc::clone(holder)),
            Argument::Int(left.count.into()),
            Argument::Int(millis(left.lives)),
            channel(subject),
        ];
        Ask {
            request: script(&UNREAD, subject, arguments),
            decode: released,
        }
    }

    fn withdraw(&self, subject: &Subject, holder: &Arc<str>, _patience: Duration) -> Ask<Released> {
        self.release(subject, holder, Left::NOTHING)
    }

    fn standing(&self) -> Standing {
        Standing::Together
    }

    fn part(&self) -> Part {
        Part::Read
    }

    /// Nobody is waited for who could be an heir: readers do not keep readers out.
    fn hand_over(
        &self,
        subject: &Subject,
        holder: &Arc<str>,
        _heirs: &[Claim<'_>],
    ) -> Ask<HandedOver> {
        Ask {
            request: self.release(subject, holder, Left::NOTHING).request,
            decode: handed_over,
        }
    }

    fn channel(&self, subject: &Subject, _waiter: &Arc<str>) -> Arc<str> {
        Arc::clone(&subject.companions[CHANNEL])
    }

    fn renew(&self, holds: &[Renewal<'_>]) -> Ask<Vec<Renewed>> {
        let arguments = holds.iter().flat_map(|hold| {
            [
                stem(hold.subject),
                Argument::Text(Arc::clone(hold.holder)),
                Argument::Int(millis(hold.lease)),
                Argument::Int(hold.each.into()),
            ]
        });
        Ask {
            request: Request {
                call: Call::Script(&RENEW_READS),
                keys: holds
                    .iter()
                    .map(|hold| Arc::clone(&hold.subject.key))
                    .collect(),
                arguments: arguments.collect(),
            },
            decode: |reply| reply.list()?.into_iter().map(renewed).collect(),
        }
    }

    fn force_unlock(&self, subject: &Subject) -> Ask<Released> {
        force_unlock(subject, "read", "0")
    }

    fn is_locked(&self, subject: &Subject) -> Ask<bool> {
        Ask {
            request: script(&IS_READ_LOCKED, subject, vec![]),
            decode: |reply| Ok(reply.int()? > 0),
        }
    }

    fn is_held(&self, subject: &Subject, holder: &Arc<str>) -> Ask<bool> {
        Ask {
            request: self.hold_count(subject, holder).request,
            decode: |reply| Ok(reply.int()? > 0),
        }
    }

    fn hold_count(&self, subject: &Subject, holder: &Arc<str>) -> Ask<u64> {
        let arguments = vec![stem(subject), Argument::Text(Arc::clone(holder))];
        Ask {
            request: script(&READ_COUNT, subject, arguments),
            decode: |reply| {
                let count = reply.clone().int()?;
                u64::try_from(count).map_err(|_| Malformed(reply))
            },
        }
    }

    fn ttl(&self, subject: &Subject) -> Ask<i64> {
        Reentrant.ttl(subject)
    }

    fn inspect(&self, subject: &Subject) -> Ask<Holdings> {
        inspect(subject)
    }
}

impl Kind for Write {
    fn name(&self) -> &'static str {
        "write"
    }

    fn companions(&self, key: &str) -> Box<[Arc<str>]> {
        companions(key)
    }

    fn acquire(&self, subject: &Subject, claim: &Claim<'_>) -> Ask<Acquired> {
        let arguments = vec![
            Argument::Int(millis(claim.lease)),
            Argument::Text(writer(claim.holder)),
            Argument::Int(claim.count.into()),
        ];
        Ask {
            request: script(&WRITE, subject, arguments),
            decode: written,
        }
    }

    fn release(&self, subject: &Subject, holder: &Arc<str>, left: Left) -> Ask<Released> {
        Ask {
            request: unwrite(subject, holder, left.count, &[]),
            decode: released,
        }
    }

    fn withdraw(&self, subject: &Subject, holder: &Arc<str>, _patience: Duration) -> Ask<Released> {
        self.release(subject, holder, Left::NOTHING)
    }

    fn standing(&self) -> Standing {
        Standing::OneForAll
    }

    fn part(&self) -> Part {
        Part::Write
    }

    fn hand_over(
        &self,
        subject: &Subject,
        holder: &Arc<str>,
        heirs: &[Claim<'_>],
    ) -> Ask<HandedOver> {
        Ask {
            request: unwrite(subject, holder, 0, heirs),
            decode: handed_over,
        }
    }

    fn channel(&self, subject: &Subject, _waiter: &Arc<str>) -> Arc<str> {
        Arc::clone(&subject.companions[CHANNEL])
    }

    fn renew(&self, holds: &[Renewal<'_>]) -> Ask<Vec<Renewed>> {
        let writers: Vec<Arc<str>> = holds.iter().map(|hold| writer(hold.holder)).collect();
        let holds: Vec<Renewal<'_>> = holds
            .iter()
            .zip(&writers)
            .map(|(hold, holder)| Renewal { holder, ..*hold })
            .collect();
        Reentrant.renew(&holds)
    }

    fn force_unlock(&self, subject: &Subject) -> Ask<Released> {
        force_unlock(subject, "write", "1")
    }

    fn is_locked(&self, subject: &Subject) -> Ask<bool> {
        Ask {
            request: command("HGET", subject, vec![Argument::Text("mode".into())]),
            decode: |reply| match reply {
                Reply::Nil => Ok(false),
                other => Ok(other.text()? == "write"),
            },
        }
    }

    fn is_held(&self, subject: &Subject, holder: &Arc<str>) -> Ask<bool> {
        Reentrant.is_held(subject, &writer(holder))
    }

    fn hold_count(&self, subject: &Subject, holder: &Arc<str>) -> Ask<u64> {
        Reentrant.hold_count(subject, &writer(holder))
    }

    fn ttl(&self, subject: &Subject) -> Ask<i64> {
        Reentrant.ttl(subject)
    }

    fn inspect(&self, subject: &Subject) -> Ask<Holdings> {
        inspect(subject)
    }
}

fn companions(key: &str) -> Box<[Arc<str>]> {
    Box::new([names::prefixed("redisson_rwlock", key), names::wrapped(key)])
}

fn channel(subject: &Subject) -> Argument {
    Argument::Text(Arc::clone(&subject.companions[CHANNEL]))
}

fn stem(subject: &Subject) -> Argument {
    Argument::Text(Arc::clone(&subject.companions[STEM]))
}

fn writer(holder: &str) -> Arc<str> {
    format!("{holder}{WRITER}").into()
}

fn unwrite(subject: &Subject, holder: &Arc<str>, left: u32, heirs: &[Claim<'_>]) -> Request {
    let mut arguments = vec![
        stem(subject),
        Argument::Text(writer(holder)),
        Argument::Int(left.into()),
        channel(subject),
    ];
    // The first in line, and nobody else.
    for heir in heirs.iter().take(1) {
        arguments.push(Argument::Text(writer(heir.holder)));
        arguments.push(Argument::Int(millis(heir.lease)));
    }
    script(&UNWRITE, subject, arguments)
}

fn force_unlock(subject: &Subject, mode: &str, message: &str) -> Ask<Released> {
    let arguments = vec![
        Argument::Text(mode.into()),
        channel(subject),
        Argument::Text(message.into()),
    ];
    Ask {
        request: script(&FORCE_UNLOCK, subject, arguments),
        decode: released,
    }
}

/// A list of one is what the hold lives now, in ms.
fn written(reply: Reply) -> Result<Acquired, Malformed> {
    let Reply::List(items) = &reply else {
        return match acquired(reply)? {
            Acquired::Held(_) => Err(Malformed(Reply::Nil)),
            other => Ok(other),
        };
    };
    match items[..] {
        [Reply::Int(ttl)] if ttl > 0 => {
            let lives = Duration::from_millis(ttl.unsigned_abs());
            Ok(Acquired::Held(Some(lives)))
        }
        _ => Err(Malformed(reply)),
    }
}

fn inspect(subject: &Subject) -> Ask<Holdings> {
    Ask {
        request: script(&INSPECT, subject, vec![stem(subject)]),
        decode: inspected,
    }
}

fn inspected(reply: Reply) -> Result<Holdings, Malformed> {
    let whole = reply.clone();
    let Ok([ttl, fields, times]) = <[Reply; 3]>::try_from(reply.list()?) else {
        return Err(Malformed(whole));
    };
    let (fields, times) = (fields.list()?, times.list()?);
    let mode_at = fields
        .chunks(2)
        .position(|field| field[0] == Reply::Text(b"mode".to_vec()));
    let mut found = holdings(Reply::List(vec![ttl, Reply::List(fields)]))?;
    let times = times.into_iter().enumerate();
    let times = times.filter(|(at, _)| Some(*at) != mode_at);
    for (held, (_, time)) in found.holders.iter_mut().zip(times) {
        match held.holder.strip_suffix(WRITER) {
            Some(holder) => {
                held.holder = holder.to_owned();
                held.writes = true;
            }
            None => held.ttl = Some(time.int()?),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Held;

    fn subject(kind: &'static dyn Kind, key: &str) -> Subject {
        Subject::new(kind, key.into(), key.into())
    }

    #[test]
    fn names_are_redissons() {
        let names = |key| subject(&Read, key).companions.join(" ");
        assert_eq!(names("L"), "redisson_rwlock:{L} {L}");
        assert_eq!(names("{a}b"), "redisson_rwlock:{a}b {a}b");
        assert_eq!(names("x{y"), "redisson_rwlock:x{y x{y");
        assert_eq!(&*writer("u:7"), "u:7:write");
    }

    #[test]
    fn a_reader_names_the_writer_that_lets_it_in() {
        let (holder, above) = (Arc::from("u:8"), Arc::from("u:7"));
        let mut claim = Claim {
            holder: &holder,
            count: 1,
            lease: Duration::from_secs(1),
            under: None,
            queueing: None,
        };
        let subject = subject(&Read, "L");
        let named = |claim: &Claim<'_>| Read.acquire(&subject, claim).request.arguments[4].clone();
        assert_eq!(named(&claim), Argument::Text("u:8:write".into()));
        claim.under = Some(&above);
        assert_eq!(named(&claim), Argument::Text("u:7:write".into()));
    }

    #[test]
    fn a_writer_is_told_what_it_lives() {
        let two_seconds = Acquired::Held(Some(Duration::from_secs(2)));
        let reply = Reply::List(vec![Reply::Int(2000)]);
        assert_eq!(written(reply), Ok(two_seconds));
        assert_eq!(written(Reply::Int(-1)), Ok(Acquired::Refused(-1)));
        assert_eq!(written(Reply::Text(b"lost".to_vec())), Ok(Acquired::Lost));
        assert!(written(Reply::Nil).is_err());
        assert!(written(Reply::List(vec![Reply::Int(0)])).is_err());
        assert!(written(Reply::List(vec![])).is_err());
    }

    #[test]
    fn each_reader_has_its_time_and_the_writer_its_name() {
        let text = |text: &str| Reply::Text(text.into());
        let fields = ["u:1:write", "2", "mode", "write", "u:1", "1"].map(text);
        let times = [-2, -2, 4999].map(Reply::Int);
        let reply = Reply::List(vec![
            Reply::Int(5000),
            Reply::List(fields.to_vec()),
            Reply::List(times.to_vec()),
        ]);
        let found = inspected(reply).expect("understood");
        assert_eq!(found.mode.as_deref(), Some("write"));
        let held = |count, writes, ttl| Held {
            holder: "u:1".into(),
            count,
            writes,
            ttl,
        };
        assert_eq!(
            found.holders,
            [held(2, true, None), held(1, false, Some(4999))]
        );
    }
}
