//! What a link's driver tells `ethtool`: its speed, its statistics and its settings, by the ioctl `SIOCETHTOOL`.
//!
//! The driver's own statistics (`ethtool -S`) cannot be had otherwise: netlink tells their names, not their values. And its
//! netlink is younger (5.6), and does not set everything that the ioctl does.
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
mod settings;
mod socket;
mod speed;
mod statistics;

pub use error::Error;
pub use settings::DriverSettings;
pub use socket::EthtoolSocket;
pub use statistics::StatNames;
