//! From the client library's errors to ours.

use redis::RedisError;

use crate::error::{Error, ErrorKind};

/// Our error for one of the client library's, met while talking to `server`.
pub(super) fn error(server: &str, cause: RedisError) -> Error {
    let kind = kind(&cause);
    let message = match kind {
        ErrorKind::Timeout => format!("no reply from {server} in time"),
        ErrorKind::Connection if cause.is_io_error() => {
            format!("the connection to {server} failed: {cause}")
        }
        ErrorKind::WrongType => format!("{server} has something at this key that is no lock"),
        ErrorKind::Protocol if cause.kind() == redis::ErrorKind::Parse => {
            format!("what answers at {server} does not speak the Redis protocol")
        }
        _ => format!("{server} answered: {}", text(&cause)),
    };
    Error::caused_by(kind, message, cause)
}

/// Whether the server refused because a script has not been loaded.
///
/// By the code: the text differs between servers.
pub(super) fn is_unknown_script(cause: &RedisError) -> bool {
    cause.code() == Some("NOSCRIPT")
}

/// Whether the server says that it is not the one to write to, and will go on saying so.
pub(super) fn is_read_only(cause: &RedisError) -> bool {
    cause.code() == Some("READONLY")
}

fn kind(cause: &RedisError) -> ErrorKind {
    if cause.is_timeout() {
        return ErrorKind::Timeout;
    }
    match cause.kind() {
        redis::ErrorKind::Io => ErrorKind::Connection,
        redis::ErrorKind::AuthenticationFailed => ErrorKind::NoPermission,
        redis::ErrorKind::InvalidClientConfig => ErrorKind::Config,
        redis::ErrorKind::RESP3NotSupported => ErrorKind::Unsupported,
        _ => match cause.code() {
            // Redis 6.2 wraps the errors of a script in one of its own, or begins those that the
            // script hands on with the line: the code is in the text.
            Some(code) if code == "ERR" || code.starts_with("@user_script") => {
                cause.detail().map_or(ErrorKind::Protocol, kind_in_text)
            }
            Some(code) => kind_of_code(code).unwrap_or(ErrorKind::Protocol),
            None => ErrorKind::Protocol,
        },
    }
}

fn kind_of_code(code: &str) -> Option<ErrorKind> {
    Some(match code {
        "READONLY" | "LOADING" | "BUSY" | "NOREPLICAS" | "MISCONF" | "MASTERDOWN" | "TRYAGAIN"
        | "CLUSTERDOWN" => ErrorKind::Connection,
        "NOPERM" | "WRONGPASS" | "NOAUTH" => ErrorKind::NoPermission,
        "OOM" => ErrorKind::OutOfMemory,
        "WRONGTYPE" => ErrorKind::WrongType,
        _ => return None,
    })
}

/// The kind of an error of which there is only the text, as scripts hand it on.
pub(crate) fn kind_in_text(text: &str) -> ErrorKind {
    const REFUSALS: [&str; 4] = [
        "The user executing the script",
        "ACL failure",
        "invalid password",
        "called without any password",
    ];
    if text.starts_with("max number of clients") {
        ErrorKind::Connection
    } else if REFUSALS.iter().any(|refusal| text.contains(refusal)) {
        ErrorKind::NoPermission
    } else {
        text.split(|c: char| !c.is_ascii_uppercase())
            .find_map(kind_of_code)
            .unwrap_or(ErrorKind::Protocol)
    }
}

fn text(cause: &RedisError) -> String {
    match (cause.code(), cause.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => cause.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server_error(line: &str) -> RedisError {
        match redis::parse_redis_value(format!("-{line}\r\n").as_bytes()) {
            Ok(redis::Value::ServerError(error)) => error.into(),
            other => panic!("not an error: {other:?}"),
        }
    }

    #[test]
    fn each_code_has_its_kind() {
        for (line, expected) in [
            ("WRONGTYPE Operation against a key", ErrorKind::WrongType),
            ("OOM command not allowed", ErrorKind::OutOfMemory),
            (
                "NOPERM this user has no permissions",
                ErrorKind::NoPermission,
            ),
            ("NOAUTH Authentication required.", ErrorKind::NoPermission),
            (
                "WRONGPASS invalid username-password pair",
                ErrorKind::NoPermission,
            ),
            ("ERR invalid password", ErrorKind::NoPermission),
            ("READONLY You can't write", ErrorKind::Connection),
            ("LOADING Redis is loading", ErrorKind::Connection),
            ("BUSY Redis is busy running a script", ErrorKind::Connection),
            ("NOREPLICAS Not enough good replicas", ErrorKind::Connection),
            ("MISCONF Redis is configured to save", ErrorKind::Connection),
            ("ERR max number of clients reached", ErrorKind::Connection),
            ("ERR unknown command 'EVALSHA'", ErrorKind::Protocol),
            (
                "ERR Error running script (call to f_1): @user_script:9: WRONGTYPE Operation",
                ErrorKind::WrongType,
            ),
            (
                "ERR Error running script (call to f_1): @user_script:9: -OOM command not allowed",
                ErrorKind::OutOfMemory,
            ),
            (
                "ERR The user executing the script can't run this command or subcommand",
                ErrorKind::NoPermission,
            ),
            (
                "@user_script: 10: The user executing the script can't run this command",
                ErrorKind::NoPermission,
            ),
        ] {
            assert_eq!(error("here", server_error(line)).kind(), expected, "{line}");
        }
        assert!(is_unknown_script(&server_error(
            "NOSCRIPT No matching script"
        )));
        assert!(is_read_only(&server_error("READONLY You can't write")));
    }
}
