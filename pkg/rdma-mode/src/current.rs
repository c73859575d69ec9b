//! The mode of now, and of the next boot.

use std::{fs, path::Path};

use modprobe::{IbCoreLocation, KernelModules, ModprobeConfig, NextBootMode};
use rdma::NetnsMode;
use serde::Serialize;
use sysfs::Sysfs;

use crate::Error;

/// The mode of now, and of the next boot.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CurrentMode {
    /// The mode of now; `None` without RDMA.
    pub mode: Option<NetnsMode>,
    /// Who told it.
    pub source: Option<ModeSource>,
    /// The mode of the next boot, and why.
    pub next_boot: NextBootMode,
    /// Whether the next boot will have the mode of now.
    pub agree: bool,
}

/// Who told the mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ModeSource {
    /// The kernel, by netlink.
    Netlink,
    /// The kernel's parameter in `/sys`.
    Sysfs,
}

impl CurrentMode {
    /// The mode of the node whose root directory this is.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(root: &Path) -> Result<Self, Error> {
        let (mode, source) = match now(&Sysfs::at(root.join("sys")))? {
            Some((mode, source)) => (Some(mode), Some(source)),
            None => (None, None),
        };
        let next = next_boot(root, &KernelModules::running(root))?;
        Ok(Self { mode, source, agree: mode.is_none_or(|mode| mode == next.mode), next_boot: next })
    }
}

/// The mode of now, and who says so: the kernel by netlink, or else its parameter in sysfs. `None` without RDMA.
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

/// The mode that the next boot will have, and why.
pub(crate) fn next_boot(root: &Path, kernel: &KernelModules) -> Result<NextBootMode, Error> {
    let command_line = fs::read_to_string(root.join("proc/cmdline")).unwrap_or_default();
    let settings = match kernel.ib_core() {
        IbCoreLocation::BuiltIn => Vec::new(), // modprobe has nothing to load
        IbCoreLocation::Module | IbCoreLocation::Missing => ModprobeConfig::below(root).settings()?,
    };
    Ok(NextBootMode::of(&settings, modprobe::command_line(&command_line)))
}
