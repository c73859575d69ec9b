//! A sysfs of one network namespace, without a mount point.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
};

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::{Sysfs, directory, rdma::CLASS};

/// A read-only mount of sysfs that is attached nowhere in the file system.
///
/// sysfs shows the RDMA devices and links of the network namespace in which it was mounted: this is how a process outside a pod
/// reads what the pod sees. The mount holds the memory of the namespace, but does not keep the namespace alive.
#[derive(Debug)]
pub struct DetachedSysfs {
    sysfs: Sysfs,
    mount: OwnedFd,
}

impl DetachedSysfs {
    /// Mounts sysfs in the calling thread's network namespace. Needs CAP_SYS_ADMIN.
    ///
    /// # Errors
    /// The error of the system call that failed.
    ///
    /// # Kernel
    /// `fsopen(2)`, `fsmount(2)`, since 5.2.
    pub fn mount() -> io::Result<Self> {
        let context = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
            | MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        let sysfs = Sysfs::at(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        Ok(Self { sysfs, mount })
    }

    /// The tree, for as long as `self` lives.
    pub fn sysfs(&self) -> &Sysfs {
        &self.sysfs
    }

    /// Returns the names of the RDMA devices, in any order. The path of [`Self::sysfs`] leads through `/proc`, which takes
    /// longer than the list itself.
    ///
    /// # Errors
    /// The error of the system call that failed.
    pub fn rdma_names(&self) -> io::Result<Vec<String>> {
        Ok(directory::list(&self.mount, Path::new(CLASS))?)
    }
}
