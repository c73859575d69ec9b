//! The kernel: sysfs and netlink.

use std::{
    fs::OpenOptions,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use identifiers::{LinkName, PciAddress, VfIndex};
use nix::errno::Errno;
use rdma::MoveLock;
use rtnl::{Handle, VfSetting};
use sysfs::{Function, Sysfs};

use crate::{PciBackend, PciBackendError};

/// How often it is looked whether something has come.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// How long a driver may take to make a link and an RDMA device after it has taken a VF.
const DEVICE_TIMEOUT: Duration = Duration::from_secs(30);

/// The node's own kernel.
#[derive(Debug, Clone)]
pub struct SysfsBackend {
    /// The node's sysfs.
    pub sysfs: Sysfs,
    /// A command that writes an attribute: its path and the value are added. See [`write_attribute`].
    pub writer: Vec<PathBuf>,
    /// How long firmware may take for one write.
    pub limit: Duration,
}

/// Writes a value to an attribute of sysfs: what a [`SysfsBackend::writer`] is for.
///
/// The kernel cannot be interrupted while firmware is asked to make VFs, and a process that is stuck there cannot end. So
/// another one is.
///
/// # Errors
/// The kernel's answer; that the path is no attribute of sysfs.
pub fn write_attribute(sysfs: &Sysfs, path: &Path, value: &str) -> io::Result<()> {
    let plain = path.components().all(|part| !matches!(part, std::path::Component::ParentDir));
    if !plain || !path.starts_with(sysfs.root().join("bus/pci")) {
        let what = format!("{} is no attribute of a PCI function", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    // The kernel takes a value by one write.
    OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes())
}

impl SysfsBackend {
    /// Lets a function's driver go.
    ///
    /// # Errors
    /// [`PciBackendError`].
    pub fn release(&self, function: PciAddress) -> Result<(), PciBackendError> {
        self.write(self.dir(function).join("driver/unbind"), &function.to_string())
    }

    /// As [`SysfsBackend::probe`], also if the function is a VF that the kernel was told not to bind: with
    /// `sriov_drivers_autoprobe` at 0 it lets no driver have one, whoever asks.
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

    /// Binds a function to its driver, and waits until its devices are there.
    ///
    /// # Errors
    /// [`PciBackendError`]. That it has no RDMA device is none: firmware may have that switched off for VFs.
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

    /// Resets a function that no driver has, in the way that the kernel finds it to have.
    ///
    /// # Errors
    /// [`PciBackendError`].
    pub fn reset(&self, function: PciAddress) -> Result<(), PciBackendError> {
        self.write(self.dir(function).join("reset"), "1")
    }

    /// RDMA devices come and go with their functions, and take the numbers that are free: not while one moves into a pod
    /// or home.
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
                Some(_) => return Err(fail(answer(&mut child))),
                None if Instant::now() >= until => {
                    // It ends when the firmware lets it go; nobody waits for that.
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

    /// Waits until something is there, but not for ever. Returns whether it is.
    fn wait(&self, is_there: impl Fn() -> Result<bool, sysfs::Error>) -> Result<bool, PciBackendError> {
        let until = Instant::now() + self.limit.min(DEVICE_TIMEOUT);
        while !is_there()? {
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

    /// Whether an RDMA device is waited for. Firmware or a driver (ice, whose VFs are iavf's) may have none for VFs: then it is
    /// waited for once, and not for each of them.
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

/// What a writer said before it ended: the kernel's answer.
fn answer(child: &mut Child) -> io::Error {
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
        self.wait(|| Ok((0..count).map(VfIndex).all(|vf| self.sysfs.vf(pf, vf).is_ok_and(|vf| vf.is_some())))).map(drop)
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
                // A PF that is being reset by its driver.
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

    /// study case V12; the FIFO stands for firmware that does not answer.
    #[test]
    fn a_write_that_does_not_come_back_is_left_to_its_fate() {
        let root = tempfile::tempdir().unwrap();
        let system = system(root.path(), Duration::from_millis(100));
        let fifo = root.path().join("bus/pci/devices").join(PF).join("sriov_numvfs");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let error = system.set_num_vfs(PF.parse().unwrap(), 4).unwrap_err();
        assert!(matches!(&error, PciBackendError::TimedOut { .. }), "{error}");
        assert!(error.to_string().contains("write 4 to"), "{error}");
    }

    /// study case V11: a driver that makes fewer VFs, as a file does that says so.
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
    fn a_refusal_has_the_kernels_words() {
        let root = tempfile::tempdir().unwrap();
        let system = system(root.path(), Duration::from_secs(10));
        fs::write(root.path().join("write"), "echo 'Device or resource busy' >&2; exit 1\n").unwrap();
        let error = system.set_num_vfs(PF.parse().unwrap(), 4).unwrap_err().to_string();
        assert!(
            error.contains("write 4 to") && error.ends_with("sriov_numvfs: Device or resource busy"),
            "{error}"
        );
    }

    /// The script stands for the kernel: it binds a VF only while its PF allows it.
    #[test]
    fn a_vf_is_bound_also_if_the_kernel_was_told_not_to() {
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
        assert_eq!(fs::read_to_string(autoprobe).unwrap(), "0", "it is as it was");
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
        // What an attribute of sysfs is may be a link, but nothing new is made.
        symlink("nowhere", dir.join("y")).unwrap();
        assert!(write_attribute(&sysfs, &dir.join("y"), "7").is_err());
    }
}
