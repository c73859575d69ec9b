//! The CNI protocol, versions 0.1.0 to 1.1.0, without I/O.
//!
//! A plugin is a [`Plugin`]; [`serve()`] reads its environment and standard input, checks them in the order
//! and with the texts that runtimes know from the reference implementation, calls the plugin and writes one
//! JSON object. Environment and streams are arguments, so the whole protocol is tested without a process.
//!
//! Specification: <https://github.com/containernetworking/cni/blob/main/SPEC.md>.

#![forbid(unsafe_code)]

mod args;
mod conf;
mod environment;
mod error;
mod fields;
mod plugin;
mod request;
mod result;
mod serve;
mod verb;
mod version;

pub use args::Args;
pub use conf::NetConf;
pub use error::{Code, Error};
pub use fields::Fields;
pub use plugin::Plugin;
pub use request::{Add, Check, Common, Del, Gc, Request, Status};
pub use result::{AddResult, Dns, Interface, IpConfig, Route};
pub use serve::{Outcome, Streams, serve};
pub use verb::Verb;
pub use version::Version;
