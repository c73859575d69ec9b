//! Binding PCI functions to drivers.

use std::{fs, io};

use identifiers::PciAddress;

use crate::{Error, Sysfs};

impl Sysfs {
    /// Unbinds the driver of a function. Nothing changes if none is bound.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn unbind_driver(&self, function: PciAddress) -> Result<(), Error> {
        match self.write(&format!("bus/pci/devices/{function}/driver/unbind"), function) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(()),
            written => written,
        }
    }

    /// Binds a function to a driver.
    ///
    /// # Errors
    /// [`Error::Io`]: there is no such driver, it refuses the function, or another one is bound (`EBUSY`).
    pub fn bind_driver(&self, function: PciAddress, driver: &str) -> Result<(), Error> {
        if driver.is_empty() || driver.starts_with('.') || driver.contains('/') {
            let (text, path) = (driver.to_owned(), self.root().join("bus/pci/drivers"));
            return Err(Error::Malformed { path, text, expected: "the name of a driver" });
        }
        self.write(&format!("bus/pci/drivers/{driver}/bind"), function)
    }

    fn write(&self, file: &str, function: PciAddress) -> Result<(), Error> {
        let path = self.root().join(file);
        // Not created: a missing file means that there is no such function or driver.
        let opened = fs::OpenOptions::new().write(true).open(&path);
        let written =
            opened.and_then(|mut file| io::Write::write_all(&mut file, function.to_string().as_bytes()));
        written.map_err(|source| Error::Io { path, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_written_to_the_files_of_its_driver() {
        let dir = tempfile::tempdir().unwrap();
        let (sysfs, vf) = (Sysfs::at(dir.path()), "0000:af:00.2".parse().unwrap());
        let (unbind, bind) = ("bus/pci/devices/0000:af:00.2/driver", "bus/pci/drivers/mlx5_core");
        sysfs.unbind_driver(vf).unwrap();
        assert!(sysfs.bind_driver(vf, "mlx5_core").is_err());
        for (parent, name) in [(unbind, "unbind"), (bind, "bind")] {
            fs::create_dir_all(dir.path().join(parent)).unwrap();
            fs::write(dir.path().join(parent).join(name), "").unwrap();
        }
        sysfs.unbind_driver(vf).unwrap();
        sysfs.bind_driver(vf, "mlx5_core").unwrap();
        for file in [format!("{unbind}/unbind"), format!("{bind}/bind")] {
            assert_eq!(fs::read_to_string(dir.path().join(file)).unwrap(), "0000:af:00.2");
        }
        for name in ["", "..", "a/b", "../mlx5_core"] {
            assert!(matches!(sysfs.bind_driver(vf, name), Err(Error::Malformed { .. })), "{name}");
        }
    }
}
