//! The store of addresses with other file systems, and with several processes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod filesystems;
mod processes;
