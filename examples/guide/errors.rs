//! A block of docs/guide.md.

use lockson::{Client, ErrorKind, Result};

pub fn what_now(client: &Client) -> Result<()> {
    match client.reentrant_lock("guide:orders:42").try_lock() {
        Ok(Some(guard)) => guard.unlock(),
        Ok(None) => Ok(()), // somebody else has it: that is no error
        Err(error) if error.is_retryable() => {
            eprintln!("not now: {error}");
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::NoPermission => {
            eprintln!("the access list forbids it: {error}");
            Err(error)
        }
        Err(error) => Err(error),
    }
}
