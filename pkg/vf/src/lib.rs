//! A VF or scalable function that moves to a pod and returns: the common part of sriov and ib-sriov.
//!
//! A VF is claimed ([`state::claim`]), so that no other attachment gets it and a late DEL detects that it has a new owner;
//! configured through its PF ([`VfConfigured`], [`VfGuids`]); and its link is moved into the pod ([`LinkMove`]). Each of these is
//! a [`Change`] that can be reverted, regardless of where the VF is by then: in the pod, returning to the host from a namespace that was
//! deleted, or on the host under another name.

#![forbid(unsafe_code)]

mod add;
mod admin_mac;
mod change;
mod check;
pub mod conf;
pub mod device_info;
mod error;
pub mod gratuitous_arp;
mod guids;
mod host_function;
mod host_link;
mod host_link_state;
mod host_vf;
mod link_check;
mod link_move;
mod link_settings;
mod orphans;
mod settings;
mod status;

pub use add::VfAdd;
pub use admin_mac::SavedAdminMac;
pub use change::Change;
pub use check::check;
pub use device_info::DeviceInfoWrite;
pub use guids::{VfGuids, effective_port_guid, wait_for_link};
pub use host_function::{HostFunction, HostSf};
pub use host_link::{host_link, is_claimed_by_other, may_have_link, wait_for_host_link};
pub use host_link_state::{HostLinkState, set_mac};
pub use host_vf::{HostVf, VfParent};
pub use link_move::LinkMove;
pub use orphans::release_orphans;
pub use settings::VfConfigured;
pub use status::status;
