//! The public face: what is Send, what is shown, whose types appear.
