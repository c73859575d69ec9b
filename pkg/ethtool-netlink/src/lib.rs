//! The physical state of a link, over ethtool netlink: its speed and link modes, why it is down, FEC, pause frames, the
//! error counters of the PHY and the MAC, and the plug-in module. Also those settings of its rings and its coalescing that
//! the ioctl of the crate `ethtool` does not have.
//!
//! The kernel gives all of this in one form for any driver; a value that a driver does not report is `None`. The driver's
//! own counters (`ethtool -S`) are not part of ethtool netlink: see the crate `ethtool`.
//!
//! ```no_run
//! let handle = ethtool_netlink::Handle::open()?;
//! let link = "eth0".parse().expect("a link's name");
//! if let Some(modes) = handle.link_modes(&link)?
//!     && modes.is_below_highest_speed()
//! {
//!     eprintln!("{link} runs at {:?} of {:?} Mb/s", modes.speed, modes.highest_supported_speed);
//! }
//! # Ok::<(), ethtool_netlink::Error>(())
//! ```
//!
//! # Kernel
//! Linux 5.6 has link modes and the link state, 5.7 pause, rings and coalescing, 5.13 FEC, statistics and the module's EEPROM, 5.16 the module's
//! power mode. An older kernel answers the later requests with `EOPNOTSUPP`, as for a driver that does not support them.

#![forbid(unsafe_code)]

mod attributes;
mod bitset;
mod cmis;
mod command;
mod error;
mod fec;
mod genl;
mod handle;
mod header;
mod link_modes;
mod link_state;
mod module;
mod module_eeprom;
mod module_memory;
mod module_reader;
mod pause;
mod ring_settings;
mod sff8472;
mod sff8636;
mod statistics;

pub use error::{Error, Malformed};
pub use fec::{Fec, FecBin, FecCounter, FecMode, FecStatistics};
pub use handle::Handle;
pub use link_modes::{Duplex, LinkModes};
pub use link_state::{ExtendedState, ExtendedSubstate, LinkExtState, LinkState};
pub use module::{Module, ModulePower, PowerMode, PowerModePolicy};
pub use module_eeprom::{
    ManagementInterface, ModuleEeprom, ModuleLane, ModuleThresholds, ModuleVendor, Thresholds,
};
pub use module_memory::{HalfPage, HalfPageAddress, ModuleMemory};
pub use pause::{Pause, PauseStatistics};
pub use ring_settings::RingSettings;
pub use statistics::{LinkStatistics, SizeBucket};
