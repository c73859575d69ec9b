//! The command as a process: with a terminal, and without one.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, unreachable_pub, reason = "tests")]

mod consent;
mod terminal;
mod top;
