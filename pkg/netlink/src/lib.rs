//! A blocking netlink engine: one request, one reply, one deadline.
//!
//! A plugin runs for a few milliseconds and makes one request after another, so it needs no async runtime. This engine
//! supports any netlink family ([`NetlinkFamily`]), reads the kernel's extended error messages ([`Extack`]), repeats an
//! interrupted dump, skips replies to earlier requests and never waits past its deadline.
//!
//! A socket always belongs to the network namespace of the thread that opened it, regardless of the thread that uses
//! it later.

#![forbid(unsafe_code)]

mod engine;
mod error;
mod extack;
mod notifications;
mod replies;

pub use engine::{NetlinkFamily, Socket};
pub use error::Error;
pub use extack::Extack;
pub use notifications::Notifications;
pub use replies::{Replies, ReplyError};
