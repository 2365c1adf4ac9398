//! Requests to bytes, and the client library's values to replies.

use redis::Value;

use crate::protocol::{Argument, Call, Reply, Request, Script};

/// Whether a script goes by its digest or by its text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form {
    Digest,
    Text,
}

pub(super) fn pack(buffer: &mut Vec<u8>, request: &Request, form: Form) {
    let parts = request.keys.len() + request.arguments.len();
    match request.call {
        Call::Command(name) => {
            header(buffer, parts + 1);
            bulk(buffer, name.as_bytes());
        }
        Call::Script(script) => {
            header(buffer, parts + 3);
            match form {
                Form::Digest => {
                    bulk(buffer, b"EVALSHA");
                    bulk(buffer, digest(script).as_bytes());
                }
                Form::Text => {
                    bulk(buffer, b"EVAL");
                    bulk(buffer, script.source.as_bytes());
                }
            }
            number(buffer, request.keys.len() as i64);
        }
    }
    for key in &request.keys {
        bulk(buffer, key.as_bytes());
    }
    for argument in &request.arguments {
        match argument {
            Argument::Int(value) => number(buffer, *value),
            Argument::Text(text) => bulk(buffer, text.as_bytes()),
        }
    }
}

pub(super) fn pack_words(buffer: &mut Vec<u8>, words: &[&str]) {
    header(buffer, words.len());
    for word in words {
        bulk(buffer, word.as_bytes());
    }
}

pub(super) fn reply(value: Value) -> Reply {
    match value {
        Value::Nil => Reply::Nil,
        Value::Int(number) => Reply::Int(number),
        Value::Boolean(yes) => Reply::Int(yes.into()),
        Value::BulkString(bytes) => Reply::Text(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Reply::Text(text.into()),
        Value::Okay => Reply::Text(b"OK".to_vec()),
        Value::Array(items) | Value::Set(items) => {
            Reply::List(items.into_iter().map(reply).collect())
        }
        Value::Map(pairs) => Reply::List(
            pairs
                .into_iter()
                .flat_map(|(field, value)| [reply(field), reply(value)])
                .collect(),
        ),
        Value::Attribute { data, .. } => reply(*data),
        Value::ServerError(error) => Reply::Text(error.to_string().into()),
        other => Reply::Text(format!("{other:?}").into()),
    }
}

fn header(buffer: &mut Vec<u8>, parts: usize) {
    buffer.push(b'*');
    buffer.extend_from_slice(decimal(parts as u64, false, &mut [0; LONGEST]));
    buffer.extend_from_slice(b"\r\n");
}

fn bulk(buffer: &mut Vec<u8>, bytes: &[u8]) {
    buffer.push(b'$');
    buffer.extend_from_slice(decimal(bytes.len() as u64, false, &mut [0; LONGEST]));
    buffer.extend_from_slice(b"\r\n");
    buffer.extend_from_slice(bytes);
    buffer.extend_from_slice(b"\r\n");
}

fn number(buffer: &mut Vec<u8>, value: i64) {
    let mut place = [0; LONGEST];
    let digits = decimal(value.unsigned_abs(), value < 0, &mut place);
    bulk(buffer, digits);
}

/// The sign and twenty digits.
const LONGEST: usize = 21;

/// By hand: the formatting of the standard library was a quarter of what a call costs the processor.
fn decimal(mut value: u64, negative: bool, place: &mut [u8; LONGEST]) -> &[u8] {
    let mut start = LONGEST;
    loop {
        start -= 1;
        place[start] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    if negative {
        start -= 1;
        place[start] = b'-';
    }
    &place[start..]
}

fn digest(script: &'static Script) -> &'static str {
    script
        .digest
        .get_or_init(|| redis::Script::new(script.source).get_hash().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    static SCRIPT: Script = Script::new("return 1");

    fn packed(call: Call, form: Form) -> String {
        let mut buffer = Vec::new();
        let request = Request {
            call,
            keys: vec!["k\r\n".into()],
            arguments: vec![Argument::Int(-12), Argument::Text("é".into())],
        };
        pack(&mut buffer, &request, form);
        String::from_utf8(buffer).expect("text")
    }

    #[test]
    fn packs_as_redis_reads_it() {
        assert_eq!(
            packed(Call::Command("HGET"), Form::Digest),
            "*4\r\n$4\r\nHGET\r\n$3\r\nk\r\n\r\n$3\r\n-12\r\n$2\r\né\r\n"
        );
        assert_eq!(
            packed(Call::Script(&SCRIPT), Form::Text),
            "*6\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n1\r\n$3\r\nk\r\n\r\n$3\r\n-12\r\n$2\r\né\r\n"
        );
        for value in [i64::MIN, -10, -1, 0, 9, 10, i64::MAX] {
            let mut buffer = Vec::new();
            number(&mut buffer, value);
            let text = value.to_string();
            let expected = format!("${}\r\n{text}\r\n", text.len());
            assert_eq!(String::from_utf8(buffer), Ok(expected));
        }
        assert!(
            packed(Call::Script(&SCRIPT), Form::Digest)
                .contains("$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n")
        );
    }
}
