//! A directory in place of sysfs, and scripts in place of the kernel.

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
    let mut system = system(root.path(), Duration::from_millis(300));
    let moves = fs::File::open(&devices).unwrap();
    moves.lock().unwrap();
    let pf = PF.parse().unwrap();
    let error = system.set_num_vfs(pf, 4).unwrap_err().to_string();
    assert!(error.contains("one at a time") && error.contains("class/infiniband"), "{error}");
    assert!(system.sysfs.dir(&Function::Pci(pf)).join("sriov_numvfs").symlink_metadata().is_err());
    moves.unlock().unwrap();
    system.limit = Duration::from_secs(60);
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
    // Also the limit of each script.
    let system = system(root.path(), Duration::from_secs(1));
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
    assert!(matches!(&error, PciBackendError::NoDriver { .. }) && !error.to_string().contains("firmware"));
    system.probe_in_any_case(vf, false).unwrap();
    assert_eq!(system.sysfs.driver(&Function::Pci(vf)).unwrap().as_deref(), Some("mlx5_core"));
    assert_eq!(fs::read_to_string(&autoprobe).unwrap(), "0", "it has its former value");
    // A VF that no driver takes.
    fs::remove_file(dir.join("driver")).unwrap();
    fs::write(
        root.path().join("write"),
        "case $1 in */drivers_probe) ;; *) printf %s \"$2\" > \"$1\";; esac\n",
    )
    .unwrap();
    assert!(matches!(system.probe_in_any_case(vf, false), Err(PciBackendError::NoDriver { .. })));
    assert_eq!(fs::read_to_string(autoprobe).unwrap(), "0", "also after a failure");
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
    fs::rename(devices.join(PF).join("infiniband"), root.path().join("away")).unwrap();
    assert!(!may(0), "the PF has none");
    fs::rename(root.path().join("away"), devices.join(PF).join("infiniband")).unwrap();
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
    for path in [dir.join("../../../secret"), root.path().join("kernel"), "/etc/passwd".into(), "x".into()] {
        let error = write_attribute(&sysfs, &path, "7").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{}", path.display());
    }
    // An attribute of sysfs may be a link, but no file is created.
    symlink("nowhere", dir.join("y")).unwrap();
    assert!(write_attribute(&sysfs, &dir.join("y"), "7").is_err());
}
