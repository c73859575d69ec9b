//! What steps are made on: the kernel, or in tests what stands for it.

use std::{io, path::PathBuf, time::Duration};

use identifiers::{PciAddress, VfIndex};
use rtnl::VfSetting;

/// What can be done to a node's functions. Each is one write, and bounded in time.
pub trait PciBackend: Sync {
    /// Sets how many VFs a PF has.
    ///
    /// # Errors
    /// [`PciBackendError`].
    fn set_num_vfs(&self, pf: PciAddress, count: u32) -> Result<(), PciBackendError>;

    /// Sets whether the kernel binds a PF's new VFs.
    ///
    /// # Errors
    /// [`PciBackendError`].
    fn set_autoprobe(&self, pf: PciAddress, on: bool) -> Result<(), PciBackendError>;

    /// Changes a setting of a VF.
    ///
    /// # Errors
    /// [`PciBackendError`].
    fn configure(&self, pf: PciAddress, vf: VfIndex, change: VfSetting) -> Result<(), PciBackendError>;

    /// Lets a VF's driver go.
    ///
    /// # Errors
    /// [`PciBackendError`].
    fn unbind(&self, pf: PciAddress, vf: VfIndex) -> Result<(), PciBackendError>;

    /// Binds a VF to its driver, and waits until its devices are there.
    ///
    /// # Errors
    /// [`PciBackendError`].
    fn bind(&self, pf: PciAddress, vf: VfIndex) -> Result<(), PciBackendError>;

    /// Sets the MTU of a PF's link, or of the link of one of its VFs.
    ///
    /// # Errors
    /// [`PciBackendError`].
    fn set_mtu(&self, pf: PciAddress, vf: Option<VfIndex>, mtu: u32) -> Result<(), PciBackendError>;

    /// Sets a PF's link up.
    ///
    /// # Errors
    /// [`PciBackendError`].
    fn set_up(&self, pf: PciAddress) -> Result<(), PciBackendError>;
}

/// What to do about the failures an operator meets.
fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => " (run it as root)",
        io::ErrorKind::ReadOnlyFilesystem => {
            " (/sys is mounted read-only, as in a container: run it on the node itself)"
        }
        _ => "",
    }
}

/// Why the hardware is not as it was told to be.
#[derive(Debug, thiserror::Error)]
pub enum PciBackendError {
    /// A file of sysfs could not be written.
    #[error("write {value} to {}: {source}{}", path.display(), remedy(source))]
    Write {
        /// The file.
        path: PathBuf,
        /// What was to be written.
        value: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A driver or its firmware does not come back.
    #[error(
        "{what}: no answer within {} s: is its firmware hung? The kernel cannot be interrupted in it; a reset of the \
         card, or a reboot, may be needed",
        limit.as_secs()
    )]
    TimedOut {
        /// What was tried.
        what: String,
        /// How long it was waited.
        limit: Duration,
    },
    /// A function has no driver although the kernel was asked for one.
    #[error(
        "no driver has taken {function} within {} s: is its module loaded (modprobe), and does the kernel's log say why not?",
        limit.as_secs()
    )]
    NoDriver {
        /// The function.
        function: PciAddress,
        /// How long it was waited.
        limit: Duration,
    },
    /// The driver made fewer VFs than it was asked for.
    #[error("{} were asked for, and the driver made {made}: see what it says in the kernel's log", crate::step::vfs(*wanted))]
    Fewer {
        /// What was asked for.
        wanted: u32,
        /// What there is.
        made: u32,
    },
    /// sysfs.
    #[error(transparent)]
    Sysfs(#[from] sysfs::Error),
    /// Netlink.
    #[error(transparent)]
    Links(#[from] rtnl::Error),
    /// RDMA devices move all the time.
    #[error(transparent)]
    Rdma(#[from] rdma::Error),
    /// The program that writes could not be run.
    #[error("run {}: {source}", program.display())]
    Helper {
        /// The program.
        program: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}
