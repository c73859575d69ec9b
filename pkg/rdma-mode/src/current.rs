//! The current mode, and the mode of the next boot.

use std::{fs, path::Path};

use modprobe::{IbCoreLocation, KernelModules, ModprobeConfig, NextBootMode};
use rdma::NetnsMode;
use serde::Serialize;
use sysfs::Sysfs;

use crate::Error;

/// The current mode, and the mode of the next boot.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CurrentMode {
    /// The current mode; `None` without RDMA.
    pub mode: Option<NetnsMode>,
    /// The source of the current mode.
    pub source: Option<ModeSource>,
    /// The mode of the next boot, and its source.
    pub next_boot: NextBootMode,
    /// Whether the next boot will have the current mode.
    pub agree: bool,
}

/// The source of the current mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ModeSource {
    /// The kernel, over netlink (`rdma system show`).
    Netlink,
    /// The parameter `netns_mode` of `ib_core` in `/sys/module`.
    Sysfs,
}

impl CurrentMode {
    /// Reads the modes of the node with this root directory.
    ///
    /// # Errors
    /// If the current mode or the configuration cannot be read.
    pub fn read(root: &Path) -> Result<Self, Error> {
        let (mode, source) = match now(&Sysfs::at(root.join("sys")))? {
            Some((mode, source)) => (Some(mode), Some(source)),
            None => (None, None),
        };
        let next = next_boot(root, &KernelModules::running(root))?;
        Ok(Self { mode, source, agree: mode.is_none_or(|mode| mode == next.mode), next_boot: next })
    }
}

/// Reads the current mode over netlink, or else from the parameter in sysfs. `None` without RDMA.
pub(crate) fn now(sysfs: &Sysfs) -> Result<Option<(NetnsMode, ModeSource)>, Error> {
    let error = match rdma::Handle::open(sysfs).and_then(|rdma| rdma.netns_mode()) {
        Ok(mode) => return Ok(Some((mode, ModeSource::Netlink))),
        Err(rdma::Error::NoRdma) => return Ok(None),
        Err(error) => error,
    };
    match sysfs.shared_netns_parameter()? {
        Some(true) => Ok(Some((NetnsMode::Shared, ModeSource::Sysfs))),
        Some(false) => Ok(Some((NetnsMode::Exclusive, ModeSource::Sysfs))),
        None => Err(error.into()),
    }
}

/// Determines the mode of the next boot.
pub(crate) fn next_boot(root: &Path, kernel: &KernelModules) -> Result<NextBootMode, Error> {
    let command_line = fs::read_to_string(root.join("proc/cmdline")).unwrap_or_default();
    let settings = match kernel.ib_core() {
        IbCoreLocation::BuiltIn => Vec::new(), // modprobe does not load it
        IbCoreLocation::Module | IbCoreLocation::Missing => ModprobeConfig::below(root).settings()?,
    };
    Ok(NextBootMode::of(&settings, modprobe::command_line(&command_line)))
}
