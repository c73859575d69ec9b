//! The RDMA mode of the next boot: what modprobe's configuration and the kernel's command line come to, and how it is
//! changed.
//!
//! [`ModprobeConfig`] reads and writes `options ib_core netns_mode=0|1`, [`KernelModules`] says whether that has any say, and
//! [`NextBootMode`] what all of it comes to.

#![forbid(unsafe_code)]

mod kernel;
mod modprobe;
mod next_boot;

pub use kernel::{IbCoreLocation, Initramfs, KernelModules};
pub use modprobe::{Error, ModprobeConfig, ModprobeOption, command_line};
pub use next_boot::NextBootMode;
