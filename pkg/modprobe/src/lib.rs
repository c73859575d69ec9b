//! The RDMA mode of the next boot, as determined by modprobe's configuration and the kernel command line, and how to set
//! it.
//!
//! [`ModprobeConfig`] reads and writes `options ib_core netns_mode=0|1`, [`KernelModules`] determines whether the kernel uses
//! that option, and [`NextBootMode`] is the resulting mode.

#![forbid(unsafe_code)]

mod kernel;
mod modprobe;
mod next_boot;

pub use kernel::{IbCoreLocation, Initramfs, KernelModules};
pub use modprobe::{Error, ModprobeConfig, ModprobeOption, command_line};
pub use next_boot::NextBootMode;
