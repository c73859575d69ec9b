//! Data Center Bridging settings of a link, over rtnetlink.
//!
//! RoCE needs a network that pauses instead of dropping its frames, or at least a traffic class of its own. That depends on the
//! settings of every port: which priorities have priority-based flow control ([`Pfc`]), which traffic class a priority has
//! ([`Ets`]), which priority a packet has ([`AppPriority`]), and who may change all this ([`DcbxMode`]). This crate reads and
//! sets them for any driver that implements the kernel's interface, `linux/dcbnl.h`.
//!
//! ```no_run
//! let handle = dcb::Handle::open()?;
//! let link = "eth0".parse().expect("a link's name");
//! let settings = handle.settings(&link)?;
//! if settings.pfc.is_some_and(|pfc| pfc.enabled.is_empty()) {
//!     handle.set_pfc(&link, &[3])?;
//! }
//! # Ok::<(), dcb::Error>(())
//! ```
//!
//! What drivers do differently:
//! * Virtual links and the VFs of mlx5 and ice have no DCB ([`Error::Unsupported`]). VFs of bnxt can only read it.
//! * mlx5 has all of it except a trust order, and accepts only DSCPs as application priorities. While its firmware manages DCB
//!   (mode without [`DcbxMode::host`]), a change still succeeds, and the firmware may override it. Its PFC counters are those
//!   of the driver's last update, which reading them here does not start.
//! * bnxt has no maximum rates and no buffers. If the host manages DCB, it reports zeros, and no PFC counters, until something
//!   is set through this interface: what other tools set in the card is not visible. If its firmware manages DCB, it reports
//!   what the firmware had at the first reading for PFC, and refuses every change with `EINVAL`.
//! * ice has no maximum rates and no buffers. While a DSCP has a priority, each priority has the class of its number, and the first
//!   DSCP and the last one that is removed reset the classes and PFC. If its firmware runs LLDP (mode [`DcbxMode::lld_managed`]), it refuses every
//!   change with `EINVAL`.
//!
//! The kernel replies to a change with a success that has a status of one byte in it; this crate returns it as an error
//! ([`Error::Refused`], [`Error::DriverCode`]).

#![forbid(unsafe_code)]

mod app_entry;
mod app_selector;
mod attribute;
mod change;
mod dcb_buffer;
mod dcb_change;
mod dcbx_mode;
mod error;
mod handle;
mod host_mode;
mod ieee_ets;
mod ieee_maxrate;
mod ieee_pfc;
mod message;
mod settings;
mod status;
mod structure;
mod transmission_selection;
mod uapi;
mod wanted;

pub use app_entry::{AppPriority, InvalidApp};
pub use app_selector::AppSelector;
pub use dcb_buffer::PortBuffers;
pub use dcb_change::DcbChange;
pub use dcbx_mode::DcbxMode;
pub use error::Error;
pub use handle::Handle;
pub use host_mode::host_mode_remedy;
pub use ieee_ets::{Ets, InvalidEts};
pub use ieee_pfc::Pfc;
pub use message::DcbMessage;
pub use settings::DcbSettings;
pub use transmission_selection::TransmissionSelection;
pub use wanted::{InvalidWantedDcb, TrafficClass, Trust, WantedDcb};
