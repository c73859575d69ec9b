//! The interface through which steps are executed: the kernel, or a fake in tests.

use std::{io, path::PathBuf, time::Duration};

use dcb::DcbChange;
use identifiers::{PciAddress, VfIndex};
use rtnl::VfSetting;

/// Operations on a node's PFs and VFs. Each is one write to the kernel, with a timeout.
pub trait PciBackend: Sync {
    /// Sets the number of VFs of a PF (`sriov_numvfs`).
    ///
    /// # Errors
    /// [`PciBackendError`].
    fn set_num_vfs(&self, pf: PciAddress, count: u32) -> Result<(), PciBackendError>;

    /// Sets whether the kernel binds drivers to VFs of a PF (`sriov_drivers_autoprobe`).
    ///
    /// # Errors
    /// [`PciBackendError`].
    fn set_autoprobe(&self, pf: PciAddress, on: bool) -> Result<(), PciBackendError>;

    /// Changes a setting of a VF.
    ///
    /// # Errors
    /// [`PciBackendError`].
    fn configure(&self, pf: PciAddress, vf: VfIndex, change: VfSetting) -> Result<(), PciBackendError>;

    /// Unbinds a VF's driver.
    ///
    /// # Errors
    /// [`PciBackendError`].
    fn unbind(&self, pf: PciAddress, vf: VfIndex) -> Result<(), PciBackendError>;

    /// Binds a VF to its driver, and waits for its link and RDMA device.
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

    /// Changes a DCB setting of a PF's link.
    ///
    /// # Errors
    /// [`PciBackendError`].
    fn change_dcb(&self, pf: PciAddress, change: &DcbChange) -> Result<(), PciBackendError>;
}

/// A remedy for common errors of writes to sysfs.
fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => " (run it as root)",
        io::ErrorKind::ReadOnlyFilesystem => {
            " (/sys is mounted read-only, as in a container: run it on the node itself)"
        }
        _ => "",
    }
}

/// An operation on a PF or VF failed.
#[derive(Debug, thiserror::Error)]
pub enum PciBackendError {
    /// A file of sysfs could not be written.
    #[error("cannot write {value} to {}: {source}{}", path.display(), remedy(source))]
    Write {
        /// The file.
        path: PathBuf,
        /// The value.
        value: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A write did not complete in time.
    #[error(
        "{what}: timed out after {} s: the firmware may be hung. The write cannot be interrupted in the kernel; a reset of \
         the card, or a reboot, may be needed",
        limit.as_secs()
    )]
    TimedOut {
        /// The operation, such as `write 4 to /sys/…/sriov_numvfs`.
        what: String,
        /// The timeout.
        limit: Duration,
    },
    /// The kernel bound no driver to a function.
    #[error(
        "no driver was bound to {function} within {} s: check that its module is loaded (modprobe), and the kernel log",
        limit.as_secs()
    )]
    NoDriver {
        /// The function.
        function: PciAddress,
        /// The timeout.
        limit: Duration,
    },
    /// The driver created fewer VFs than requested.
    #[error("requested {}, but the driver created {made}: see the kernel log", crate::step::vfs(*wanted))]
    Fewer {
        /// The requested number.
        wanted: u32,
        /// The number after the write.
        made: u32,
    },
    /// An attribute of sysfs could not be read.
    #[error(transparent)]
    Sysfs(#[from] sysfs::Error),
    /// A netlink request for a link failed.
    #[error(transparent)]
    Links(#[from] rtnl::Error),
    /// A netlink request for DCB settings failed.
    #[error(transparent)]
    Dcb(#[from] dcb::Error),
    /// The lock of moves of RDMA devices could not be acquired.
    #[error(transparent)]
    Rdma(#[from] rdma::Error),
    /// The program that writes attributes could not be started.
    #[error("cannot run {}: {source}", program.display())]
    Helper {
        /// The program.
        program: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}
