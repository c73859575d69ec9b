//! Waiting for a device to return to the host.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use netlink::Notifications;
use sysfs::{Function, Sysfs};

use crate::{Device, Error, Handle};

/// `NETLINK_KOBJECT_UEVENT`, and the group of the kernel's own messages (2 is udev's).
const UEVENT: isize = 15;
const KERNEL: u32 = 1;

/// The interval of checks without an event: one may be lost, and the socket may not be available.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

impl Handle {
    /// Waits until every RDMA device of `function` is in the calling thread's namespace, and returns them. Returns at once
    /// if they are there already.
    ///
    /// No netlink request is made until sysfs lists them: many calls may be waiting at the same time, and a dump has a
    /// message for each device of the node.
    ///
    /// # Errors
    /// [`Error::NotReturned`] when `deadline` has passed.
    ///
    /// # Kernel
    /// When a namespace is deleted, a work queue moves its devices to the initial namespace, milliseconds to seconds after
    /// the last process and file descriptor have released it. The kernel then sends a `KOBJ_ADD` event there. The RDMA
    /// family's own notifications (`RDMA_NL_GROUP_NOTIFY`, since 6.12) do not include moves.
    pub fn wait_for_return(
        &self,
        sysfs: &Sysfs,
        function: &Function,
        deadline: Instant,
    ) -> Result<Vec<Device>, Error> {
        if let Some(devices) = self.devices_on_host(sysfs, function)? {
            return Ok(devices);
        }
        let begin = Instant::now();
        // Subscribe before the next check, so that no event is missed.
        let events = Notifications::open(UEVENT, KERNEL).ok();
        loop {
            if let Some(devices) = self.devices_on_host(sysfs, function)? {
                return Ok(devices);
            }
            if Instant::now() >= deadline {
                let within = deadline.saturating_duration_since(begin);
                return Err(Error::NotReturned { function: function.clone(), within });
            }
            wait_for_event(events.as_ref(), deadline);
        }
    }

    /// Returns the RDMA devices of `function`, if all of them are in the calling thread's namespace and completely
    /// registered.
    ///
    /// # Errors
    /// [`Error::Netlink`], [`Error::Sysfs`].
    ///
    /// # Kernel
    /// Sysfs lists a returning device before netlink does; it can be used only when both list it. Sysfs lists its character
    /// device regardless of the device's namespace. It is created only after sysfs and netlink list the device.
    pub fn devices_on_host(&self, sysfs: &Sysfs, function: &Function) -> Result<Option<Vec<Device>>, Error> {
        let Some(count) = complete_devices(sysfs, function)? else { return Ok(None) };
        let devices = self.devices_of(sysfs, function)?;
        Ok(Some(devices).filter(|devices| devices.len() >= count))
    }
}

/// Returns the number of RDMA devices of `function`, if sysfs lists all of them in its namespace, and their character devices.
fn complete_devices(sysfs: &Sysfs, function: &Function) -> Result<Option<usize>, Error> {
    let (here, everywhere) = (sysfs.rdma_devices(function)?.len(), sysfs.uverbs(function)?.len());
    let have_uverbs = here <= everywhere || sysfs.all_uverbs()?.is_none();
    Ok(Some(here).filter(|here| *here > 0 && *here >= everywhere && have_uverbs))
}

/// Whether an RDMA device of a function is missing in the namespace of `sysfs`, or lacks one of its character devices. A
/// function without a driver, or in user space, has no devices that could be in another namespace.
///
/// # Errors
/// [`Error::Sysfs`].
///
/// # Kernel
/// `rdma_dev_change_netns` first removes the device from its clients, each of which deletes its character devices; then the
/// device changes the namespace; then the clients get it again, one after another.
pub fn is_moving(sysfs: &Sysfs, function: &Function) -> Result<bool, Error> {
    let here = sysfs.rdma_devices(function)?;
    if here.is_empty() {
        return Ok(sysfs.driver(function)?.is_some() && sysfs.user_space_nodes(function)?.is_none());
    }
    let char_devices = sysfs.char_devices(function)?;
    let devices_with = |kind: &str| {
        let of_kind = char_devices.iter().filter(|(name, _)| name.starts_with(kind));
        of_kind.map(|(_, device)| device).collect::<BTreeSet<_>>().len()
    };
    let lack_uverbs = sysfs.all_uverbs()?.is_some() && devices_with("uverbs") != here.len();
    let lack_umads = sysfs.has_umad()? && {
        let adapters = here.iter().filter(|device| sysfs.is_channel_adapter(device).unwrap_or(false));
        devices_with("umad") < adapters.count()
    };
    Ok(lack_uverbs || lack_umads)
}

fn wait_for_event(events: Option<&Notifications>, deadline: Instant) {
    let has_waited = events.is_some_and(|events| events.wait(deadline, POLL_INTERVAL).is_ok());
    if !has_waited {
        std::thread::sleep(POLL_INTERVAL.min(deadline.saturating_duration_since(Instant::now())));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A sysfs of a function that has a driver, with the classes of the loaded modules.
    struct SysfsPresence {
        tree: tempfile::TempDir,
        function: Function,
    }

    impl SysfsPresence {
        fn new(classes: &[&str]) -> Self {
            let tree = tempfile::tempdir().unwrap();
            let shown = Self { tree, function: "0000:01:10.0".parse().unwrap() };
            let driver = shown.path("bus/pci/drivers/mlx5_core");
            fs::create_dir_all(&driver).unwrap();
            fs::create_dir_all(shown.device("")).unwrap();
            std::os::unix::fs::symlink(driver, shown.device("driver")).unwrap();
            for class in classes {
                shown.write(&format!("class/{class}/abi_version"), "6\n");
            }
            shown
        }

        fn path(&self, path: &str) -> std::path::PathBuf {
            self.tree.path().join(path)
        }

        fn device(&self, path: &str) -> std::path::PathBuf {
            Sysfs::at(self.tree.path()).dir(&self.function).join(path)
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn has(&self, device: &str, node_type: &str) {
            fs::create_dir_all(self.device("infiniband").join(device)).unwrap();
            self.write(&format!("class/infiniband/{device}/node_type"), node_type);
        }

        fn has_char_device(&self, class: &str, name: &str, of: &str) {
            let dir = self.device(class).join(name);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("ibdev"), of).unwrap();
        }

        fn is_between(&self) -> bool {
            is_moving(&Sysfs::at(self.tree.path()), &self.function).unwrap()
        }
    }

    const VERBS: &str = "infiniband_verbs";
    const MAD: &str = "infiniband_mad";

    #[test]
    fn a_device_is_moving_until_it_has_its_last_character_device_again() {
        let shown = SysfsPresence::new(&[VERBS, MAD]);
        assert!(shown.is_between(), "it has none, and is in the pod");
        shown.has_char_device(VERBS, "uverbs3", "mlx5_3\n");
        assert!(shown.is_between(), "it is in a pod that is gone");
        fs::remove_dir_all(shown.device(VERBS)).unwrap();
        shown.has("mlx5_3", "1: CA\n");
        assert!(shown.is_between(), "it is here without any");
        shown.has_char_device(VERBS, "uverbs3", "mlx5_3\n");
        assert!(shown.is_between(), "it is here without its umad");
        shown.has_char_device(MAD, "issm3", "mlx5_3\n");
        assert!(shown.is_between(), "an issm does not count as a umad");
        shown.has_char_device(MAD, "umad3", "mlx5_3\n");
        assert!(!shown.is_between());
        shown.has("mlx5_3twin", "1: CA\n");
        assert!(shown.is_between(), "another device of the function is here without any");
        shown.has_char_device(VERBS, "uverbs4", "mlx5_3twin\n");
        assert!(shown.is_between(), "the other one is here without its umad");
        shown.has_char_device(MAD, "umad4", "mlx5_3twin\n");
        assert!(!shown.is_between());
    }

    #[test]
    fn character_devices_that_the_kernel_does_not_create_are_not_expected() {
        let shown = SysfsPresence::new(&[]);
        shown.has("mlx5_3", "1: CA\n");
        assert!(!shown.is_between(), "neither module is loaded");
        let shown = SysfsPresence::new(&[VERBS, MAD]);
        shown.has("irdma0", "4: RNIC\n");
        shown.has_char_device(VERBS, "uverbs0", "irdma0\n");
        assert!(!shown.is_between(), "iWARP has no umad");
        let shown = SysfsPresence::new(&[VERBS]);
        fs::remove_file(shown.device("driver")).unwrap();
        assert!(!shown.is_between(), "without a driver there is no device");
        std::os::unix::fs::symlink("../../drivers/vfio-pci", shown.device("driver")).unwrap();
        assert!(!shown.is_between(), "in user space there is none either");
    }

    #[test]
    fn a_function_is_complete_when_each_of_its_devices_is_here_with_its_uverbs() {
        let shown = SysfsPresence::new(&[VERBS]);
        let complete = || complete_devices(&Sysfs::at(shown.tree.path()), &shown.function).unwrap();
        assert_eq!(complete(), None, "none is here");
        shown.has("mlx5_3", "1: CA\n");
        assert_eq!(complete(), None, "its uverbs is not created yet");
        shown.has_char_device(VERBS, "uverbs3", "mlx5_3\n");
        assert_eq!(complete(), Some(1));
        shown.has_char_device(VERBS, "uverbs4", "mlx5_3twin\n");
        assert_eq!(complete(), None, "the other one is still in the pod");
        shown.has("mlx5_3twin", "1: CA\n");
        assert_eq!(complete(), Some(2));
        fs::remove_dir_all(shown.device(VERBS)).unwrap();
        assert_eq!(complete(), None);
        fs::remove_dir_all(shown.path("class/infiniband_verbs")).unwrap();
        assert_eq!(complete(), Some(2), "without ib_uverbs there is none");
    }
}
