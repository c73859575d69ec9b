//! The RDMA mode of the next boot: what modprobe's configuration and the kernel's command line come to, and how it is
//! changed.
//!
//! [`Modprobe`] reads and writes `options ib_core netns_mode=0|1`, [`Kernel`] says whether that has any say, and
//! [`NextBoot`] what all of it comes to.

#![forbid(unsafe_code)]

mod kernel;
mod modprobe;
mod next_boot;

pub use kernel::{IbCore, Initramfs, Kernel};
pub use modprobe::{Error, Modprobe, Setting, command_line};
pub use next_boot::NextBoot;
