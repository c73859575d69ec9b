//! Silkrail's plugins next to the Go plugins of Debian, with the same input: the differences are those of `tests/parity.md`.
//! ipvlan is compared in the lab.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod macvlan;
