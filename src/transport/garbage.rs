//! Whatever a server may answer, or anybody publish, is read or refused: nothing panics.

use std::{sync::Arc, time::Duration};

use redis::{PushKind, Value, VerbatimFormat};

use super::{notifier::heard, wire};
use crate::protocol::{
    Claim, Fair, Kind, Left, Read, Reentrant, Renewal, Reply, Subject, Write, joint,
};

const ROUNDS: u32 = 30_000;

#[test]
fn every_reply_is_read_or_refused() {
    let mut random = Random::seeded();
    for _ in 0..ROUNDS {
        let value = random.value(0);
        decode_as_all(&wire::reply(value.clone()));
        let _ = heard(value);
    }
}

/// What stands on the wire, spoiled: a few bytes changed, cut off or put in.
#[test]
fn every_spoiled_line_is_read_or_refused() {
    const GOOD: [&[u8]; 9] = [
        b"*2\r\n:5\r\n*4\r\n$3\r\nu:1\r\n$1\r\n1\r\n$4\r\nmode\r\n$4\r\nread\r\n",
        b"*3\r\n:-1\r\n*2\r\n$3\r\nu:1\r\n$1\r\n2\r\n*2\r\n$3\r\nu:2\r\n$4\r\n4999\r\n",
        b"*3\r\n$7\r\nmessage\r\n$3\r\nabc\r\n$1\r\n0\r\n",
        b">3\r\n$9\r\nsubscribe\r\n$3\r\nabc\r\n:1\r\n",
        b"*1\r\n:1\r\n",
        b":9223372036854775807\r\n",
        b"$4\r\nlost\r\n",
        b"-WRONGTYPE Operation against a key\r\n",
        b"%1\r\n+id\r\n(3492890328409238509324850943850943825024385\r\n",
    ];
    let mut random = Random::seeded();
    for _ in 0..ROUNDS {
        let mut line = random.of(&GOOD).to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(line.len() as u64) as usize;
            match random.below(4) {
                0 => line.truncate(at.max(1)),
                1 => line.insert(at, random.of(b"*:$-+>%~_#,(=|0123456789\r\n\xff")),
                2 => line[at] = random.of(b"*:$-+>%~_#,(=|0123456789\r\n\xff"),
                _ => _ = line.remove(at),
            }
            if line.is_empty() {
                break;
            }
        }
        if let Ok(value) = redis::parse_redis_value(&line) {
            decode_as_all(&wire::reply(value.clone()));
            let _ = heard(value);
        }
    }
}

/// As the reply to each request of each kind.
fn decode_as_all(reply: &Reply) {
    let holder: Arc<str> = "u:1".into();
    for kind in [&Reentrant as &'static dyn Kind, &Fair, &Read, &Write] {
        let subject = Subject::new(kind, "L".into(), "L".into());
        let claim = Claim {
            holder: &holder,
            count: 1,
            lease: Duration::from_secs(1),
            under: None,
            queueing: None,
        };
        let renewal = Renewal {
            subject: &subject,
            holder: &holder,
            lease: Duration::from_secs(1),
            each: true,
        };
        let reply = || reply.clone();
        let _ = (kind.acquire(&subject, &claim).decode)(reply());
        let _ = (kind.release(&subject, &holder, Left::NOTHING).decode)(reply());
        let _ = (kind.withdraw(&subject, &holder, Duration::ZERO).decode)(reply());
        let _ = (kind.hand_over(&subject, &holder, &[claim]).decode)(reply());
        let _ = (kind.renew(&[renewal]).decode)(reply());
        let _ = (kind.force_unlock(&subject).decode)(reply());
        let _ = (kind.is_locked(&subject).decode)(reply());
        let _ = (kind.is_held(&subject, &holder).decode)(reply());
        let _ = (kind.hold_count(&subject, &holder).decode)(reply());
        let _ = (kind.ttl(&subject).decode)(reply());
        let _ = (kind.inspect(&subject).decode)(reply());
    }
    let _ = (joint::acquire(Duration::ZERO, &[]).decode)(reply.clone());
    let _ = (joint::release(&[]).decode)(reply.clone());
}

/// Splitmix64. A fixed seed, unless `LOCKSON_SEED` names one: a failure is one for everybody.
struct Random(u64);

impl Random {
    fn seeded() -> Self {
        let seed = std::env::var("LOCKSON_SEED").ok();
        Self(seed.map_or(7, |seed| seed.parse().expect("LOCKSON_SEED is a number")))
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    fn number(&mut self) -> i64 {
        let odd = [i64::MIN, i64::MAX, -4, -3, -2, -1, 0, 1, 2, 3, 1 << 53];
        self.of(&odd)
    }

    fn bytes(&mut self) -> Vec<u8> {
        const WORDS: [&[u8]; 16] = [
            b"",
            b"lost",
            b"mode",
            b"read",
            b"write",
            b"u:1",
            b"u:1:write",
            b"1",
            b"-1",
            b"nan",
            b"9223372036854775808",
            b"\xff\x00\xc3",
            b"message",
            b"subscribe",
            b"unsubscribe",
            b"WRONGTYPE x",
        ];
        self.of(&WORDS).to_vec()
    }

    fn text(&mut self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    fn values(&mut self, depth: u32) -> Vec<Value> {
        (0..self.below(5)).map(|_| self.value(depth + 1)).collect()
    }

    fn pairs(&mut self, depth: u32) -> Vec<(Value, Value)> {
        let mut pair = || (self.value(depth + 1), self.value(depth + 1));
        vec![pair(), pair()]
    }

    /// Mostly what decoders look into: lists, numbers and texts.
    fn value(&mut self, depth: u32) -> Value {
        match self.below(if depth > 4 { 12 } else { 22 }) {
            0..=3 => Value::Int(self.number()),
            4..=6 => Value::BulkString(self.bytes()),
            7 => Value::Nil,
            8 => Value::SimpleString(self.text()),
            9 => Value::Okay,
            10 => self
                .of(&[f64::NAN, f64::INFINITY, -0.0, 1e308]
                    .map(Value::Double)
                    .each_ref())
                .clone(),
            11 => Value::Boolean(self.below(2) == 0),
            12..=16 => Value::Array(self.values(depth)),
            17 => Value::Set(self.values(depth)),
            18 => Value::Map(self.pairs(depth)),
            19 => {
                let kinds = [
                    PushKind::Message,
                    PushKind::Subscribe,
                    PushKind::Unsubscribe,
                    PushKind::Invalidate,
                ];
                let kind = kinds[self.below(4) as usize].clone();
                Value::Push {
                    kind,
                    data: self.values(depth),
                }
            }
            20 => Value::Attribute {
                data: Box::new(self.value(depth + 1)),
                attributes: self.pairs(depth),
            },
            _ => Value::VerbatimString {
                format: VerbatimFormat::Unknown(self.text()),
                text: self.text(),
            },
        }
    }
}
