//! How Redisson derives the names of channels and companion keys from the name of a lock.

use std::sync::Arc;

/// `prefix:{name}`, or `prefix:name` where the name has a brace of its own.
///
/// Any brace counts, also one that makes no hash tag: that is Redisson's rule, and both sides must
/// meet on the same channel.
pub(crate) fn prefixed(prefix: &str, name: &str) -> Arc<str> {
    format!("{prefix}:{}", wrapped(name)).into()
}

/// `{name}`, or the name itself where it has a brace of its own: what the names of keys begin with
/// that belong to a lock.
pub(crate) fn wrapped(name: &str) -> Arc<str> {
    if name.contains('{') {
        name.into()
    } else {
        format!("{{{name}}}").into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_unless_there_is_a_brace() {
        let channel = |name| prefixed("redisson_lock__channel", name).to_string();
        assert_eq!(channel("L"), "redisson_lock__channel:{L}");
        assert_eq!(channel("{a}b"), "redisson_lock__channel:{a}b");
        assert_eq!(channel("x{a}y"), "redisson_lock__channel:x{a}y");
        assert_eq!(channel("{a"), "redisson_lock__channel:{a");
        assert_eq!(channel("a}"), "redisson_lock__channel:{a}}");
    }

    /// Java's rule wraps without regard to hash tags; where a name has none, or a proper one, all its
    /// keys lie in one slot of a cluster nevertheless.
    #[test]
    fn companions_lie_in_the_slot_of_the_key() {
        let names = [
            "L", " ", "a b", "größe", "a\0b", "a\r\nb", "{a}b", "a{b}c", "{a}{b}", "x{{a}}y",
        ];
        for name in names {
            for companion in [prefixed("redisson_lock_queue", name), wrapped(name)] {
                assert_eq!(slot(&companion), slot(name), "{companion}");
            }
        }
        // Java's own limits, which are ours: no cluster takes these.
        for name in ["a}b", "x{a", "{}x"] {
            let companion = prefixed("redisson_lock_queue", name);
            assert_ne!(slot(&companion), slot(name), "{companion}");
        }
    }

    /// As Redis Cluster: CRC16 of what stands in the first braces, or of the whole.
    fn slot(key: &str) -> u16 {
        let tag = key
            .split_once('{')
            .and_then(|(_, rest)| rest.split_once('}'));
        let hashed = tag.map_or(key, |(tag, _)| if tag.is_empty() { key } else { tag });
        let crc = hashed.bytes().fold(0u16, |crc, byte| {
            (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
                (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
            })
        });
        crc % 16384
    }

    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!(slot("123456789"), 0x31c3);
        assert_eq!(slot("foo"), 12182);
        assert_eq!(slot("{foo}bar"), 12182);
    }
}
