//! The command line on nodes that are directories.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod doctor;
mod mode;
mod shell;
mod texts;
