//! DCB settings of drivers, from the bytes of their replies, and of links of the kernel.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]
#![cfg(target_endian = "little")]

mod drivers;
mod links;
mod malformed;
mod replies;
