//! RDMA devices of a function, and settings of the RDMA core.

use std::{io, path::PathBuf};

use identifiers::PciAddress;
use rustix::fs::CWD;

use crate::{
    Error, Function, Sysfs, directory,
    root::{is_there, link, names, parsed, text},
};

/// The classes of the character devices, which are visible in every namespace.
const VERBS: &str = "infiniband_verbs";
const MAD: &str = "infiniband_mad";

/// The class of the RDMA devices, below the root.
pub(crate) const CLASS: &str = "class/infiniband";

impl Sysfs {
    /// Returns whether the RDMA core of the kernel is loaded.
    ///
    /// This takes only one system call, for nodes without RDMA.
    ///
    /// # Errors
    /// [`Error::Io`] if that cannot be determined.
    pub fn has_rdma(&self) -> Result<bool, Error> {
        is_there(&self.root().join(CLASS))
    }

    /// Returns whether there is `rdma_cm`, the device of the connection manager, which all RDMA devices share.
    ///
    /// # Errors
    /// [`Error::Io`] if that cannot be determined.
    pub fn has_connection_manager(&self) -> Result<bool, Error> {
        is_there(&self.root().join("class/misc/rdma_cm"))
    }

    /// Returns the names of the RDMA devices in the namespace that this sysfs shows, in any order.
    ///
    /// # Errors
    /// The error of the system call that failed.
    pub fn rdma_names(&self) -> io::Result<Vec<String>> {
        Ok(directory::list(CWD, &self.root().join(CLASS))?)
    }

    /// Returns the RDMA devices of the function in the namespace that this sysfs shows, sorted.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn rdma_devices(&self, function: &Function) -> Result<Vec<String>, Error> {
        names(&self.dir(function).join("infiniband"))
    }

    /// Returns the software RDMA devices, which have no function, in the namespace that this sysfs shows, sorted.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn virtual_rdma_devices(&self) -> Result<Vec<String>, Error> {
        names(&self.root().join("devices/virtual/infiniband"))
    }

    /// Returns the link of a software device; `None` if its driver does not report it. rxe does.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::NotFound`] if `device` is not a valid name.
    pub fn rdma_link(&self, device: &str) -> Result<Option<String>, Error> {
        text(&self.rdma_dir(device)?.join("parent"))
    }

    /// Returns the port numbers of an RDMA device.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::NotFound`] if `device` is not a valid name.
    pub fn rdma_ports(&self, device: &str) -> Result<Vec<u32>, Error> {
        let path = self.rdma_dir(device)?.join("ports");
        names(&path)?.into_iter().map(|name| parsed(&path, name, "a number")).collect()
    }

    /// Returns the other functions in the slot of a PCI function. A card may have one RDMA device for several of them.
    pub fn functions_beside(&self, function: &Function) -> Vec<Function> {
        let beside = |pci: PciAddress| pci.slot().filter(move |other| *other != pci).map(Function::Pci);
        function.pci().into_iter().flat_map(beside).collect()
    }

    /// Returns the `uverbsN` devices of the function, regardless of the namespace of its RDMA devices, sorted.
    ///
    /// If [`Sysfs::rdma_devices`] is empty and this is not, the RDMA device is in another namespace.
    ///
    /// # Errors
    /// [`Error::Io`].
    #[doc(alias = "infiniband_verbs")]
    pub fn uverbs(&self, function: &Function) -> Result<Vec<String>, Error> {
        names(&self.dir(function).join(VERBS))
    }

    /// Returns the character devices (`uverbsN`, `umadN`, `issmN`) of the RDMA devices of a function, regardless of
    /// the namespace of these, each with the name of its RDMA device.
    ///
    /// # Errors
    /// [`Error::Io`].
    #[doc(alias = "ibdev")]
    pub fn char_devices(&self, function: &Function) -> Result<Vec<(String, String)>, Error> {
        let mut found = Vec::new();
        for class in [VERBS, MAD] {
            let dir = self.dir(function).join(class);
            for name in names(&dir)? {
                // The file is missing if the device has just been removed.
                found.extend(text(&dir.join(&name).join("ibdev"))?.map(|device| (name, device)));
            }
        }
        Ok(found)
    }

    /// Returns the character devices of a software RDMA device.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn software_char_devices(&self, device: &str) -> Result<Vec<String>, Error> {
        let mut found = Vec::new();
        for class in [VERBS, MAD] {
            let dir = self.root().join("class").join(class);
            for name in self.devices_of_class(class)? {
                if text(&dir.join(&name).join("ibdev"))?.as_deref() == Some(device) {
                    found.push(name);
                }
            }
        }
        Ok(found)
    }

    /// Returns the `uverbsN` of all RDMA devices, regardless of their namespace; `None` if the module `ib_uverbs` is not
    /// loaded.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn all_uverbs(&self) -> Result<Option<Vec<String>>, Error> {
        let is_loaded = is_there(&self.root().join("class").join(VERBS))?;
        is_loaded.then(|| self.devices_of_class(VERBS)).transpose()
    }

    /// Returns the name of the RDMA device of a `uverbsN`, regardless of its namespace; `None` if it was just removed.
    ///
    /// # Errors
    /// [`Error::Io`].
    #[doc(alias = "ibdev")]
    pub fn device_of_uverbs(&self, uverbs: &str) -> Result<Option<String>, Error> {
        text(&self.root().join("class").join(VERBS).join(uverbs).join("ibdev"))
    }

    /// Returns the `umadN` and `issmN` of all RDMA devices, regardless of their namespace.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn all_umads(&self) -> Result<Vec<String>, Error> {
        self.devices_of_class(MAD)
    }

    /// Returns the devices of a class of character devices, which has the file `abi_version`, too.
    fn devices_of_class(&self, class: &str) -> Result<Vec<String>, Error> {
        let mut all = names(&self.root().join("class").join(class))?;
        all.retain(|name| name != "abi_version");
        Ok(all)
    }

    /// Returns whether the module `ib_umad` is loaded, which creates `umadN` and `issmN`.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn has_umad(&self) -> Result<bool, Error> {
        is_there(&self.root().join("class").join(MAD))
    }

    /// Returns the function of an RDMA device that is visible here; `None` for a software device.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::NotFound`] if `device` is not a valid name.
    pub fn function_of_rdma(&self, device: &str) -> Result<Option<Function>, Error> {
        let target = link(&self.rdma_dir(device)?.join("device"))?;
        Ok(target.and_then(|target| target.parse().ok()))
    }

    /// Returns the driver of the function of an RDMA device that is visible here.
    ///
    /// # Errors
    /// As [`Sysfs::function_of_rdma`].
    pub fn rdma_driver(&self, device: &str) -> Result<Option<String>, Error> {
        link(&self.rdma_dir(device)?.join("device/driver"))
    }

    /// Returns the node GUID of an RDMA device that is visible here, as `0c42:a103:0065:1234`.
    ///
    /// # Errors
    /// As [`Sysfs::function_of_rdma`].
    pub fn node_guid(&self, device: &str) -> Result<Option<String>, Error> {
        text(&self.rdma_dir(device)?.join("node_guid"))
    }

    /// Returns whether an RDMA device that is visible here is a channel adapter (InfiniBand or RoCE). Other devices, such as
    /// iWARP devices, have no management datagrams and no `umadN`.
    ///
    /// # Errors
    /// As [`Sysfs::function_of_rdma`].
    #[doc(alias = "node_type")]
    pub fn is_channel_adapter(&self, device: &str) -> Result<bool, Error> {
        Ok(text(&self.rdma_dir(device)?.join("node_type"))?.is_some_and(|kind| kind.starts_with("1:")))
    }

    /// Returns whether all namespaces share the RDMA devices, according to `ib_core`; `None` if the module is not
    /// loaded, or does not have the parameter.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Malformed`] if the parameter is neither `Y` nor `N`.
    ///
    /// # Kernel
    /// `module_param_named(netns_mode, ib_devices_shared_netns, bool, 0444)`. It reflects a change over
    /// netlink. Reading it requires no privileges.
    #[doc(alias = "netns_mode")]
    pub fn shared_netns_parameter(&self) -> Result<Option<bool>, Error> {
        let path = self.root().join("module/ib_core/parameters/netns_mode");
        match text(&path)?.as_deref() {
            None => Ok(None),
            Some("Y") => Ok(Some(true)),
            Some("N") => Ok(Some(false)),
            Some(other) => Err(Error::Malformed { path, text: other.to_owned(), expected: "Y or N" }),
        }
    }

    /// Returns the directory of an RDMA device. Validates the name, which may be user input.
    pub(crate) fn rdma_dir(&self, device: &str) -> Result<PathBuf, Error> {
        let class = self.root().join(CLASS);
        if matches!(device, "" | "." | "..") || device.contains(['/', '\0']) {
            return Err(Error::NotFound { what: format!("RDMA device {device:?}"), path: class });
        }
        Ok(class.join(device))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::{Error, Function, test_fixture::SysfsFixture};

    fn function(text: &str) -> Function {
        text.parse().unwrap()
    }

    #[test]
    fn a_device_in_a_pod_has_uverbs_on_the_host() {
        let tree = SysfsFixture::mlx5();
        assert_eq!(tree.sysfs.rdma_devices(&function("0000:af:00.2")).unwrap(), ["mlx5_2"]);
        assert!(tree.sysfs.rdma_devices(&function("0000:af:00.3")).unwrap().is_empty());
        assert_eq!(tree.sysfs.uverbs(&function("0000:af:00.3")).unwrap(), ["uverbs3"]);
    }

    #[test]
    fn the_character_devices_of_a_device_in_a_pod_are_visible() {
        let tree = SysfsFixture::mlx5();
        let of = |text| tree.sysfs.char_devices(&function(text)).unwrap();
        let pair = |name: &str, device: &str| (name.to_owned(), device.to_owned());
        assert_eq!(of("0000:af:00.2"), [pair("uverbs2", "mlx5_2")]);
        tree.file("devices/pci0000:ae/0000:ae:00.0/0000:af:00.3/infiniband_mad/umad3/ibdev", "mlx5_3\n");
        tree.file("devices/pci0000:ae/0000:ae:00.0/0000:af:00.3/infiniband_verbs/uverbs3/ibdev", "mlx5_3\n");
        assert_eq!(of("0000:af:00.3"), [pair("uverbs3", "mlx5_3"), pair("umad3", "mlx5_3")]);
        assert_eq!(of("0000:af:00.4"), []);
    }

    #[test]
    fn a_software_device_has_the_character_devices_with_its_name() {
        let tree = SysfsFixture::mlx5();
        for (file, device) in [
            ("infiniband_verbs/uverbs3", "rxe0"),
            ("infiniband_verbs/uverbs4", "rxe00"),
            ("infiniband_mad/umad3", "rxe0"),
            ("infiniband_mad/issm3", "rxe0"),
        ] {
            tree.file(&format!("class/{file}/ibdev"), &format!("{device}\n"));
        }
        for class in ["infiniband_verbs", "infiniband_mad"] {
            tree.file(&format!("class/{class}/abi_version"), "5\n");
        }
        assert_eq!(tree.sysfs.software_char_devices("rxe0").unwrap(), ["uverbs3", "issm3", "umad3"]);
        assert_eq!(tree.sysfs.device_of_uverbs("uverbs4").unwrap().as_deref(), Some("rxe00"));
        assert_eq!(tree.sysfs.device_of_uverbs("uverbs5").unwrap(), None);
        assert_eq!(tree.sysfs.all_uverbs().unwrap().unwrap(), ["uverbs3", "uverbs4"]);
        assert_eq!(tree.sysfs.all_umads().unwrap(), ["issm3", "umad3"]);
    }

    #[test]
    fn devices_of_scalable_functions_are_on_the_auxiliary_bus() {
        let tree = SysfsFixture::mlx5();
        assert_eq!(tree.sysfs.rdma_devices(&function("mlx5_core.sf.2")).unwrap(), ["mlx5_4"]);
    }

    #[test]
    fn a_devices_ports_and_software_devices_are_listed() {
        let tree = SysfsFixture::mlx5();
        assert_eq!(tree.sysfs.rdma_ports("mlx5_0").unwrap(), [1]);
        assert!(tree.sysfs.virtual_rdma_devices().unwrap().is_empty());
        fs::create_dir_all(tree.sysfs.root().join("devices/virtual/infiniband/rxe0")).unwrap();
        fs::create_dir_all(tree.sysfs.root().join("class/infiniband/rxe0")).unwrap();
        assert_eq!(tree.sysfs.virtual_rdma_devices().unwrap(), ["rxe0"]);
        assert_eq!(tree.sysfs.rdma_link("rxe0").unwrap(), None);
        fs::write(tree.sysfs.root().join("class/infiniband/rxe0/parent"), "eth7\n").unwrap();
        assert_eq!(tree.sysfs.rdma_link("rxe0").unwrap().as_deref(), Some("eth7"));
    }

    #[test]
    fn functions_beside_a_function_are_in_its_slot() {
        let tree = SysfsFixture::mlx5();
        let beside = tree.sysfs.functions_beside(&function("0000:af:00.1"));
        assert_eq!(beside.len(), 7);
        assert!(beside.contains(&function("0000:af:00.0")) && !beside.contains(&function("0000:af:00.1")));
        assert!(tree.sysfs.functions_beside(&function("mlx5_core.sf.2")).is_empty());
    }

    #[test]
    fn a_device_has_a_function_and_a_driver() {
        let tree = SysfsFixture::mlx5();
        assert_eq!(tree.sysfs.function_of_rdma("mlx5_0").unwrap(), Some(function("0000:af:00.0")));
        assert_eq!(tree.sysfs.rdma_driver("mlx5_0").unwrap().as_deref(), Some("mlx5_core"));
        assert_eq!(tree.sysfs.rdma_driver("rxe0").unwrap(), None);
        assert!(tree.sysfs.rdma_driver("../net/lo").unwrap_err().is_not_found());
    }

    #[test]
    fn the_mode_parameter_is_y_or_n_or_absent() {
        let tree = SysfsFixture::mlx5();
        assert_eq!(tree.sysfs.shared_netns_parameter().unwrap(), Some(true));
        let file = tree.sysfs.root().join("module/ib_core/parameters/netns_mode");
        fs::write(&file, "N\n").unwrap();
        assert_eq!(tree.sysfs.shared_netns_parameter().unwrap(), Some(false));
        fs::write(&file, "?\n").unwrap();
        assert!(matches!(tree.sysfs.shared_netns_parameter(), Err(Error::Malformed { .. })));
        fs::remove_file(&file).unwrap();
        assert_eq!(tree.sysfs.shared_netns_parameter().unwrap(), None);
    }
}
