//! The public face: what is Send, what is shown, whose types appear.

mod auto_traits;
mod family;
mod foreign;
mod secrets;
