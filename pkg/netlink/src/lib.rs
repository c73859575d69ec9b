//! A blocking netlink engine: one request, one answer, one deadline.
//!
//! A plugin lives for a few milliseconds and does one thing after another; it needs no runtime. This engine
//! serves any netlink family ([`NetlinkFamily`]), reads the kernel's extended error text ([`Extack`]), starts an
//! interrupted dump again, skips answers to earlier requests and never waits past its deadline.
//!
//! A socket belongs to the network namespace of the thread that opened it, for ever, whichever thread uses
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
