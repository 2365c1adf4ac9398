//! The life of a client: shutdown, last drop, fork, exit.
