//! The backend of the running kernel: sysfs and netlink.

use std::{
    fs::OpenOptions,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use dcb::DcbChange;
use identifiers::{LinkName, PciAddress, VfIndex};
use nix::errno::Errno;
use rdma::MoveLock;
use rtnl::{Handle, VfSetting};
use sysfs::{Function, Sysfs};

use crate::{PciBackend, PciBackendError};

/// The interval of polling.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Timeout for a driver to create the link and the RDMA device of a VF after it was bound.
const DEVICE_TIMEOUT: Duration = Duration::from_secs(30);

/// The node's own kernel.
#[derive(Debug, Clone)]
pub struct SysfsBackend {
    /// The node's sysfs.
    pub sysfs: Sysfs,
    /// A command that writes an attribute: its path and the value are added. See [`write_attribute`].
    pub writer: Vec<PathBuf>,
    /// Timeout of one write, which may wait for firmware.
    pub limit: Duration,
}

/// Writes a value to a sysfs attribute of a PCI function, in the process that [`SysfsBackend::writer`] starts.
///
/// A write that waits for firmware cannot be interrupted, and its process cannot exit. A separate process keeps the caller
/// responsive.
///
/// # Errors
/// The kernel's error, or `InvalidInput` if the path is not below `bus/pci` of sysfs.
pub fn write_attribute(sysfs: &Sysfs, path: &Path, value: &str) -> io::Result<()> {
    let plain = path.components().all(|part| !matches!(part, std::path::Component::ParentDir));
    if !plain || !path.starts_with(sysfs.root().join("bus/pci")) {
        let what = format!("{} is not an attribute of a PCI function", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    // The kernel expects the value in one write(2).
    OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes())
}

impl SysfsBackend {
    /// Unbinds a function's driver.
    ///
    /// # Errors
    /// [`PciBackendError`].
    pub fn release(&self, function: PciAddress) -> Result<(), PciBackendError> {
        self.write(self.dir(function).join("driver/unbind"), &function.to_string())
    }

    /// As [`SysfsBackend::probe`], but also works if `sriov_drivers_autoprobe` of the VF's PF is 0. The kernel then refuses
    /// to bind a driver, even on request.
    ///
    /// # Errors
    /// [`PciBackendError`].
    pub fn probe_in_any_case(&self, function: PciAddress, has_rdma: bool) -> Result<(), PciBackendError> {
        let pf = match self.sysfs.pf_of(function)? {
            Some(pf) if self.sysfs.autoprobe(pf)? == Some(false) => pf,
            _ => return self.probe(function, has_rdma),
        };
        self.set_autoprobe(pf, true)?;
        let bound = self.probe(function, has_rdma);
        let restored = self.set_autoprobe(pf, false);
        bound.and(restored)
    }

    /// Binds a function to its driver, and waits for its link and RDMA device.
    ///
    /// # Errors
    /// [`PciBackendError`]. A missing RDMA device is not an error: firmware may have RDMA disabled for VFs.
    pub fn probe(&self, function: PciAddress, has_rdma: bool) -> Result<(), PciBackendError> {
        self.write(self.sysfs.root().join("bus/pci/drivers_probe"), &function.to_string())?;
        if !self.wait(|| Ok(self.sysfs.driver(&Function::Pci(function))?.is_some()))? {
            return Err(PciBackendError::NoDriver { function, limit: self.limit.min(DEVICE_TIMEOUT) });
        }
        self.wait(|| {
            let link = self.link(function)?.is_some();
            Ok(link && (!has_rdma || !self.sysfs.rdma_devices(&Function::Pci(function))?.is_empty()))
        })
        .map(drop)
    }

    /// Resets a function without a driver, by a method that the kernel chooses (`reset_method`).
    ///
    /// # Errors
    /// [`PciBackendError`].
    pub fn reset(&self, function: PciAddress) -> Result<(), PciBackendError> {
        self.write(self.dir(function).join("reset"), "1")
    }

    /// Writes an attribute under the lock of moves: RDMA devices appear and disappear with their functions and take free
    /// numbers, which must not happen while a device moves into a pod or back to the host.
    fn write(&self, path: PathBuf, value: &str) -> Result<(), PciBackendError> {
        let _turn = match MoveLock::acquire(&self.sysfs, Instant::now() + self.limit) {
            Err(rdma::Error::NoRdma) => None,
            taken => Some(taken?),
        };
        let fail = |source| PciBackendError::Write { path: path.clone(), value: value.into(), source };
        let (program, rest) =
            self.writer.split_first().ok_or_else(|| fail(io::ErrorKind::InvalidInput.into()))?;
        let mut command = Command::new(program);
        command
            .args(rest)
            .arg(&path)
            .arg(value)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child =
            command.spawn().map_err(|source| PciBackendError::Helper { program: program.clone(), source })?;
        let until = Instant::now() + self.limit;
        loop {
            match child.try_wait().map_err(fail)? {
                Some(status) if status.success() => return Ok(()),
                Some(_) => return Err(fail(child_error(&mut child))),
                None if Instant::now() >= until => {
                    // It exits once the firmware returns. This is not waited for.
                    let _ = child.kill();
                    let what = format!("write {value} to {}", path.display());
                    return Err(PciBackendError::TimedOut { what, limit: self.limit });
                }
                None => thread::sleep(POLL_INTERVAL),
            }
        }
    }

    fn dir(&self, pci: PciAddress) -> PathBuf {
        self.sysfs.dir(&Function::Pci(pci))
    }

    fn vf(&self, pf: PciAddress, vf: VfIndex) -> Result<PciAddress, PciBackendError> {
        let missing = || sysfs::Error::NotFound {
            what: format!("VF {vf} of PF {pf}"),
            path: self.dir(pf).join(format!("virtfn{vf}")),
        };
        Ok(self.sysfs.vf(pf, vf)?.ok_or_else(missing)?)
    }

    /// Polls until the condition holds or the timeout has passed. Returns whether it holds.
    fn wait(&self, condition: impl Fn() -> Result<bool, sysfs::Error>) -> Result<bool, PciBackendError> {
        let until = Instant::now() + self.limit.min(DEVICE_TIMEOUT);
        while !condition()? {
            if Instant::now() >= until {
                return Ok(false);
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(true)
    }

    fn link(&self, function: PciAddress) -> Result<Option<LinkName>, sysfs::Error> {
        Ok(self.sysfs.links(&Function::Pci(function))?.into_iter().next())
    }

    /// Whether to wait for an RDMA device. Some firmware and drivers (iavf on ice) have none for VFs: if an earlier VF was
    /// bound and has none, later VFs are not waited for.
    fn may_have_rdma(&self, pf: PciAddress, vf: VfIndex) -> Result<bool, PciBackendError> {
        if self.sysfs.rdma_devices(&Function::Pci(pf))?.is_empty() {
            return Ok(false);
        }
        for earlier in (0..vf.0).map(VfIndex) {
            let Some(earlier) = self.sysfs.vf(pf, earlier)?.map(Function::Pci) else { continue };
            let has_none =
                self.sysfs.rdma_devices(&earlier)?.is_empty() && self.sysfs.uverbs(&earlier)?.is_empty();
            if has_none && !self.sysfs.links(&earlier)?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn missing_link(&self, function: PciAddress) -> PciBackendError {
        sysfs::Error::NotFound { what: format!("link of {function}"), path: self.dir(function).join("net") }
            .into()
    }
}

fn is_busy(error: &rtnl::Error) -> bool {
    let rtnl::Error::Netlink(error) = error else { return false };
    matches!(error.errno(), Some(Errno::EAGAIN | Errno::EBUSY))
}

/// Reads the kernel's error from the stderr of a writer that has exited.
fn child_error(child: &mut Child) -> io::Error {
    let mut text = String::new();
    if let Some(stderr) = &mut child.stderr {
        let _ = stderr.read_to_string(&mut text);
    }
    io::Error::other(text.trim().to_owned())
}

impl PciBackend for SysfsBackend {
    fn set_num_vfs(&self, pf: PciAddress, count: u32) -> Result<(), PciBackendError> {
        self.write(self.dir(pf).join("sriov_numvfs"), &count.to_string())?;
        let made = self.sysfs.num_vfs(pf)?;
        if made != count {
            return Err(PciBackendError::Fewer { wanted: count, made });
        }
        self.wait(|| Ok((0..count).map(VfIndex).all(|vf| self.sysfs.vf(pf, vf).is_ok_and(|vf| vf.is_some()))))
            .map(drop)
    }

    fn set_autoprobe(&self, pf: PciAddress, on: bool) -> Result<(), PciBackendError> {
        self.write(self.dir(pf).join("sriov_drivers_autoprobe"), if on { "1" } else { "0" })
    }

    fn configure(&self, pf: PciAddress, vf: VfIndex, change: VfSetting) -> Result<(), PciBackendError> {
        let handle = Handle::open()?;
        let link = handle.link(&self.sysfs.pf_link(pf)?)?;
        let until = Instant::now() + self.limit.min(DEVICE_TIMEOUT);
        loop {
            match handle.set_vf(link.index, vf, change) {
                // The driver is resetting the PF.
                Err(error) if is_busy(&error) && Instant::now() < until => thread::sleep(POLL_INTERVAL),
                result => return Ok(result?),
            }
        }
    }

    fn unbind(&self, pf: PciAddress, vf: VfIndex) -> Result<(), PciBackendError> {
        self.release(self.vf(pf, vf)?)
    }

    fn bind(&self, pf: PciAddress, vf: VfIndex) -> Result<(), PciBackendError> {
        let has_rdma = self.may_have_rdma(pf, vf)?;
        self.probe(self.vf(pf, vf)?, has_rdma)
    }

    fn set_mtu(&self, pf: PciAddress, vf: Option<VfIndex>, mtu: u32) -> Result<(), PciBackendError> {
        let name = match vf {
            None => self.sysfs.pf_link(pf)?,
            Some(vf) => {
                let vf = self.vf(pf, vf)?;
                self.link(vf)?.ok_or_else(|| self.missing_link(vf))?
            }
        };
        let handle = Handle::open()?;
        let link = handle.link(&name)?;
        Ok(handle.set_mtu(link.index, mtu)?)
    }

    fn set_up(&self, pf: PciAddress) -> Result<(), PciBackendError> {
        let handle = Handle::open()?;
        let link = handle.link(&self.sysfs.pf_link(pf)?)?;
        Ok(handle.set_up(link.index, true)?)
    }

    fn change_dcb(&self, pf: PciAddress, change: &DcbChange) -> Result<(), PciBackendError> {
        let link = self.sysfs.pf_link(pf)?;
        Ok(change.make(&dcb::Handle::open()?, &link)?)
    }
}

#[cfg(test)]
mod tests;
