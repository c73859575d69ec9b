//! Reads a link's speed, statistics and driver settings, and restores the settings, with the ioctl `SIOCETHTOOL`.
//!
//! The driver's own statistics (`ethtool -S`) are not available otherwise: ethtool netlink returns their names, not their
//! values. Ethtool netlink also requires Linux 5.6, and cannot set everything that the ioctl can.
//!
//! ```no_run
//! let socket = ethtool::EthtoolSocket::open()?;
//! let link = "eth0".parse().expect("a link's name");
//! for (name, value) in socket.statistics(&link)? {
//!     eprintln!("{name} {value}");
//! }
//! # Ok::<(), ethtool::Error>(())
//! ```

#![deny(unsafe_code)]

mod error;
mod hex;
#[allow(unsafe_code, reason = "the kernel is given an address to write to")]
mod kernel;
mod layout;
mod setting_block;
mod settings;
mod socket;
mod speed;
mod statistics;

pub use error::Error;
pub use settings::DriverSettings;
pub use socket::EthtoolSocket;
pub use statistics::StatNames;
