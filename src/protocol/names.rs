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
}
