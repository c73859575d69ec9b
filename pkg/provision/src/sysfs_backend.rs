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
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    const PF: &str = "0000:af:00.0";

    fn system(root: &Path, limit: Duration) -> SysfsBackend {
        let script = root.join("write");
        fs::write(&script, "printf %s \"$2\" > \"$1\"\n").unwrap();
        let dir = root.join("bus/pci/devices").join(PF);
        fs::create_dir_all(&dir).unwrap();
        SysfsBackend { sysfs: Sysfs::at(root), writer: vec!["sh".into(), script], limit }
    }

    /// study case V12; a FIFO simulates firmware that does not respond.
    #[test]
    fn a_write_that_does_not_return_times_out() {
        let root = tempfile::tempdir().unwrap();
        let system = system(root.path(), Duration::from_millis(100));
        let fifo = root.path().join("bus/pci/devices").join(PF).join("sriov_numvfs");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let error = system.set_num_vfs(PF.parse().unwrap(), 4).unwrap_err();
        assert!(matches!(&error, PciBackendError::TimedOut { .. }), "{error}");
        assert!(error.to_string().contains("write 4 to"), "{error}");
    }

    /// study case V11: a script simulates a driver that creates fewer VFs.
    #[test]
    fn fewer_vfs_than_asked_for_are_an_error() {
        let root = tempfile::tempdir().unwrap();
        let mut system = system(root.path(), Duration::from_secs(10));
        fs::write(root.path().join("write"), "printf 2 > \"$1\"\n").unwrap();
        let error = system.set_num_vfs(PF.parse().unwrap(), 4).unwrap_err();
        assert!(matches!(error, PciBackendError::Fewer { wanted: 4, made: 2 }), "{error}");
        system.writer = vec!["/nonexistent".into()];
        assert!(matches!(system.set_num_vfs(PF.parse().unwrap(), 4), Err(PciBackendError::Helper { .. })));
    }

    #[test]
    fn invariant_11_no_function_comes_or_goes_while_an_rdma_device_moves() {
        let root = tempfile::tempdir().unwrap();
        let devices = root.path().join("class/infiniband");
        fs::create_dir_all(&devices).unwrap();
        let system = system(root.path(), Duration::from_millis(300));
        let moves = fs::File::open(&devices).unwrap();
        moves.lock().unwrap();
        let pf = PF.parse().unwrap();
        let error = system.set_num_vfs(pf, 4).unwrap_err().to_string();
        assert!(error.contains("one at a time") && error.contains("class/infiniband"), "{error}");
        assert!(system.sysfs.dir(&Function::Pci(pf)).join("sriov_numvfs").symlink_metadata().is_err());
        moves.unlock().unwrap();
        system.reset(pf).unwrap();
    }

    #[test]
    fn a_refusal_contains_the_kernels_error() {
        let root = tempfile::tempdir().unwrap();
        let system = system(root.path(), Duration::from_secs(10));
        fs::write(root.path().join("write"), "echo 'Device or resource busy' >&2; exit 1\n").unwrap();
        let error = system.set_num_vfs(PF.parse().unwrap(), 4).unwrap_err().to_string();
        assert!(
            error.contains("write 4 to") && error.ends_with("sriov_numvfs: Device or resource busy"),
            "{error}"
        );
    }

    /// The script simulates the kernel: it binds a VF only while its PF allows it.
    #[test]
    fn a_vf_is_bound_even_if_autoprobe_is_off() {
        let root = tempfile::tempdir().unwrap();
        let system = system(root.path(), Duration::from_millis(200));
        let (pf, vf) = (root.path().join("bus/pci/devices").join(PF), "0000:af:00.2");
        let dir = root.path().join("bus/pci/devices").join(vf);
        fs::create_dir_all(dir.join("net/eth7")).unwrap();
        symlink(format!("../{PF}"), dir.join("physfn")).unwrap();
        let autoprobe = pf.join("sriov_drivers_autoprobe");
        fs::write(&autoprobe, "0").unwrap();
        let script = format!(
            "case $1 in */drivers_probe) [ $(cat {}) = 0 ] || ln -s ../../drivers/mlx5_core {}/driver;; \
             *) printf %s \"$2\" > \"$1\";; esac\n",
            autoprobe.display(),
            dir.display()
        );
        fs::write(root.path().join("write"), script).unwrap();
        let vf = vf.parse().unwrap();
        let error = system.probe(vf, false).unwrap_err();
        assert!(
            matches!(&error, PciBackendError::NoDriver { .. }) && !error.to_string().contains("firmware")
        );
        system.probe_in_any_case(vf, false).unwrap();
        assert_eq!(system.sysfs.driver(&Function::Pci(vf)).unwrap().as_deref(), Some("mlx5_core"));
        assert_eq!(fs::read_to_string(autoprobe).unwrap(), "0", "it has its former value");
    }

    #[test]
    fn a_card_whose_vfs_have_no_rdma_is_waited_for_once() {
        let root = tempfile::tempdir().unwrap();
        let system = system(root.path(), Duration::ZERO);
        let (pf, devices) = (PF.parse().unwrap(), root.path().join("bus/pci/devices"));
        fs::create_dir_all(devices.join(PF).join("infiniband/irdma0")).unwrap();
        for (index, vf) in ["0000:af:00.2", "0000:af:00.3"].iter().enumerate() {
            fs::create_dir_all(devices.join(vf)).unwrap();
            symlink(format!("../{vf}"), devices.join(PF).join(format!("virtfn{index}"))).unwrap();
        }
        let may = |vf| system.may_have_rdma(pf, VfIndex(vf)).unwrap();
        assert!(may(0) && may(1), "the first is not bound yet");
        fs::create_dir_all(devices.join("0000:af:00.2/net/eth7")).unwrap();
        assert!(may(0) && !may(1), "the first was bound, and has none");
        fs::create_dir_all(devices.join("0000:af:00.2/infiniband_verbs/uverbs7")).unwrap();
        assert!(may(1), "the first has one, in a pod");
    }

    #[test]
    fn only_attributes_of_pci_functions_are_written() {
        let root = tempfile::tempdir().unwrap();
        let sysfs = Sysfs::at(root.path());
        let dir = root.path().join("bus/pci/devices");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("x"), "").unwrap();
        write_attribute(&sysfs, &dir.join("x"), "7").unwrap();
        assert_eq!(fs::read_to_string(dir.join("x")).unwrap(), "7");
        for path in
            [dir.join("../../../secret"), root.path().join("kernel"), "/etc/passwd".into(), "x".into()]
        {
            let error = write_attribute(&sysfs, &path, "7").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{}", path.display());
        }
        // An attribute of sysfs may be a link, but no file is created.
        symlink("nowhere", dir.join("y")).unwrap();
        assert!(write_attribute(&sysfs, &dir.join("y"), "7").is_err());
    }
}
