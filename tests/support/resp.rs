//! Where a request or a reply ends on the wire, for RESP2 and RESP3.

/// The length of the first whole message in `bytes`; `None` while it is incomplete.
pub fn message_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    let mut missing = 1_usize;
    while missing > 0 {
        missing -= 1;
        let line = line_at(bytes, at)?;
        let end = at + line.len() + 2;
        let count = count_in(line);
        match line.first() {
            // A body that may contain line ends itself; null has none.
            Some(b'$' | b'=' | b'!') => at = count.map_or(end, |len| end + len + 2),
            Some(b'*' | b'~' | b'>') => {
                missing += count.unwrap_or(0);
                at = end;
            }
            Some(b'%') => {
                missing += 2 * count.unwrap_or(0);
                at = end;
            }
            // Attributes stand before the reply that they belong to.
            Some(b'|') => {
                missing += 2 * count.unwrap_or(0) + 1;
                at = end;
            }
            _ => at = end,
        }
        if at > bytes.len() {
            return None;
        }
    }
    Some(at)
}

/// The words of a request: an array of bulk strings.
pub fn words(request: &[u8]) -> Vec<&[u8]> {
    let mut words = Vec::new();
    let Some(head) = line_at(request, 0) else {
        return words;
    };
    let mut at = head.len() + 2;
    while let Some(line) = line_at(request, at) {
        let start = at + line.len() + 2;
        let Some(word) = count_in(line).and_then(|len| request.get(start..start + len)) else {
            break;
        };
        words.push(word);
        at = start + word.len() + 2;
    }
    words
}

/// What a message of the server is, apart from its content.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Message {
    /// Of a subscribe or unsubscribe: one for each channel.
    Confirmation,
    /// Published; answers no request.
    Push,
    Reply,
}

impl Message {
    /// `subscriber` says whether the connection has ever subscribed: RESP2 has no type of its own
    /// for what is pushed, and an ordinary reply may look the same.
    pub fn of(bytes: &[u8], subscriber: bool) -> Self {
        let otherwise = match bytes.first() {
            Some(b'>') => Self::Push,
            Some(b'*') if subscriber => Self::Reply,
            _ => return Self::Reply,
        };
        match words(bytes).first() {
            Some(word) if word.ends_with(b"subscribe") => Self::Confirmation,
            Some(word) if word.ends_with(b"message") => Self::Push,
            _ => otherwise,
        }
    }
}

fn line_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let rest = bytes.get(at..)?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    Some(&rest[..end])
}

/// The number in a header line; `None` for null.
fn count_in(line: &[u8]) -> Option<usize> {
    str::from_utf8(line.get(1..)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_ends_where_it_ends_and_not_before() {
        let messages: &[&[u8]] = &[
            b"+OK\r\n",
            b"-ERR no\r\n",
            b":12\r\n",
            b"$-1\r\n",
            b"*-1\r\n",
            b"_\r\n",
            b"$4\r\na\r\nb\r\n",
            b"*2\r\n$1\r\na\r\n*2\r\n:1\r\n$0\r\n\r\n",
            b"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n#t\r\n",
            b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n",
            b"|1\r\n+ttl\r\n:9\r\n$1\r\nx\r\n",
            b"=5\r\ntxt:a\r\n",
            b"*0\r\n",
        ];
        for message in messages {
            for end in 0..message.len() {
                assert_eq!(message_len(&message[..end]), None, "{end} of {message:?}");
            }
            assert_eq!(message_len(message), Some(message.len()));
            let two = [*message, b"+next\r\n"].concat();
            assert_eq!(message_len(&two), Some(message.len()));
        }
    }

    #[test]
    fn only_a_subscriber_is_pushed_arrays() {
        let message = b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n";
        let confirmation = b"*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n";
        assert_eq!(Message::of(message, true), Message::Push);
        assert_eq!(Message::of(message, false), Message::Reply);
        assert_eq!(Message::of(confirmation, true), Message::Confirmation);
        assert_eq!(
            Message::of(b"*2\r\n$4\r\npong\r\n$0\r\n\r\n", true),
            Message::Reply
        );
        assert_eq!(Message::of(b">1\r\n+invalidate\r\n", false), Message::Push);
        assert_eq!(
            words(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"),
            [&b"GET"[..], b"k"]
        );
    }
}
