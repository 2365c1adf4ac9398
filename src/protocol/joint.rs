//! Many plain locks of one server in one request: all or none.

use std::{sync::Arc, time::Duration};

use super::{
    kind::{Claim, Released, Subject},
    reentrant::{Reentrant, millis, released},
    request::{Argument, Ask, Call, Malformed, Reply, Request, Script},
};

static ACQUIRE: Script = Script::new(include_str!("lua/joint/acquire.lua"));
static RELEASE: Script = Script::new(include_str!("lua/joint/release.lua"));

#[derive(Debug, PartialEq)]
pub(crate) enum Joint {
    Held,
    /// Which one somebody else has.
    Refused(usize),
    /// Which hold to re-enter is gone.
    Lost(usize),
    /// Which one cannot be looked at, and why.
    Failed(usize, String),
}

/// What is left of each.
#[derive(Debug, PartialEq)]
pub(crate) enum Parted {
    Released(Released),
    Failed(String),
}

/// Whether this lock may be one of those.
pub(crate) fn may_join(subject: &Subject) -> bool {
    use super::kind::Kind;
    subject.kind.name() == Reentrant.name()
}

pub(crate) fn acquire(lease: Duration, claims: &[(&Arc<Subject>, Claim<'_>)]) -> Ask<Joint> {
    let mut arguments = vec![Argument::Int(millis(lease))];
    for (_, claim) in claims {
        arguments.push(Argument::Text(Arc::clone(claim.holder)));
        arguments.push(Argument::Int(claim.count.into()));
    }
    Ask {
        request: Request {
            call: Call::Script(&ACQUIRE),
            keys: keys(claims.iter().map(|(subject, _)| *subject)),
            arguments,
        },
        decode: joint,
    }
}

/// Each lock with its holder and the count to leave.
pub(crate) fn release(parts: &[(&Arc<Subject>, &Arc<str>, u32)]) -> Ask<Vec<Parted>> {
    let arguments = parts.iter().flat_map(|(subject, holder, left)| {
        [
            Argument::Text(Arc::clone(holder)),
            Argument::Int((*left).into()),
            Argument::Text(subject.kind.channel(subject, holder)),
        ]
    });
    Ask {
        request: Request {
            call: Call::Script(&RELEASE),
            keys: keys(parts.iter().map(|(subject, ..)| *subject)),
            arguments: arguments.collect(),
        },
        decode: |reply| reply.list()?.into_iter().map(parted).collect(),
    }
}

fn keys<'a>(subjects: impl Iterator<Item = &'a Arc<Subject>>) -> Vec<Arc<str>> {
    subjects.map(|subject| Arc::clone(&subject.key)).collect()
}

fn joint(reply: Reply) -> Result<Joint, Malformed> {
    let items = match &reply {
        Reply::Nil => return Ok(Joint::Held),
        Reply::List(items) => &items[..],
        _ => return Err(Malformed(reply)),
    };
    match *items {
        [Reply::Int(place)] if place > 0 => Ok(Joint::Lost(place as usize - 1)),
        [Reply::Int(place), Reply::Int(_)] if place > 0 => Ok(Joint::Refused(place as usize - 1)),
        [Reply::Int(place), Reply::Text(ref text)] if place > 0 => {
            let text = String::from_utf8_lossy(text).into_owned();
            Ok(Joint::Failed(place as usize - 1, text))
        }
        _ => Err(Malformed(reply)),
    }
}

fn parted(reply: Reply) -> Result<Parted, Malformed> {
    match reply {
        Reply::Text(_) => Ok(Parted::Failed(reply.text()?)),
        other => Ok(Parted::Released(released(other)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_each_answer_and_refuses_the_rest() {
        let list = |numbers: &[i64]| Reply::List(numbers.iter().copied().map(Reply::Int).collect());
        assert_eq!(joint(Reply::Nil), Ok(Joint::Held));
        assert_eq!(joint(list(&[2, 500])), Ok(Joint::Refused(1)));
        assert_eq!(joint(list(&[1])), Ok(Joint::Lost(0)));
        let failed = Reply::List(vec![Reply::Int(2), Reply::Text(b"WRONGTYPE".to_vec())]);
        assert_eq!(joint(failed), Ok(Joint::Failed(1, "WRONGTYPE".into())));
        for wrong in [list(&[0]), list(&[]), list(&[1, 2, 3]), Reply::Int(1)] {
            assert!(joint(wrong).is_err());
        }
        assert_eq!(parted(Reply::Int(-1)), Ok(Parted::Released(Released::Gone)));
        let text = Reply::Text(b"WRONGTYPE".to_vec());
        assert_eq!(parted(text), Ok(Parted::Failed("WRONGTYPE".into())));
    }

    #[test]
    fn each_lock_has_its_words() {
        let subjects = ["A", "B"].map(|name| {
            let subject = Subject::new(&Reentrant, name.into(), name.into());
            Arc::new(subject)
        });
        let holder = Arc::from("u:1");
        let parts: Vec<_> = subjects.iter().map(|one| (one, &holder, 0)).collect();
        let request = release(&parts).request;
        assert_eq!(request.keys, ["A", "B"].map(Arc::from));
        assert_eq!(
            request.arguments[5],
            Argument::Text("redisson_lock__channel:{B}".into())
        );
        let claims: Vec<_> = subjects
            .iter()
            .map(|one| {
                let claim = Claim {
                    holder: &holder,
                    count: 1,
                    lease: Duration::ZERO,
                    under: None,
                    queueing: None,
                };
                (one, claim)
            })
            .collect();
        let request = acquire(Duration::from_secs(1), &claims).request;
        assert_eq!(request.arguments.len(), 5);
        assert!(subjects.iter().all(|one| may_join(one)));
    }
}
