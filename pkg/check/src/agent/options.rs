//! The configuration of an agent.

use std::net::IpAddr;

use cpufreq::Governors;

use crate::{PortSelector, protocol::CheckToken};

/// Configuration of an [`Agent`](crate::agent::Agent): the options of `silkrail check serve`.
#[derive(Debug)]
pub struct AgentOptions<'a> {
    /// The shared secret that clients must prove to have; `None` accepts every client, on a loopback address only.
    pub token: Option<CheckToken>,
    /// Addresses besides its own by which clients reach this agent, for example behind address translation.
    pub known_as: Vec<IpAddr>,
    /// The device, port and GID to use if a client does not request others.
    pub wanted: PortSelector,
    /// The first TCP port to try for perftest's server.
    pub first_port: u16,
    /// The CPU frequency governors to set during tests; `None` leaves them unchanged.
    pub governors: Option<&'a Governors>,
}
