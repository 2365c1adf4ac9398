//! Ways to a server, and what is said when there is none.
