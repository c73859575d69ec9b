//! The traffic class of all packets of a device, which the vendor's driver (MLNX_OFED) can set.

use std::{fs::File, os::unix::fs::FileExt, path::Path};

/// The file with the traffic class of a device, kept open; `None` if the driver does not have it.
#[derive(Debug)]
pub(crate) struct TrafficClass(Option<File>);

impl TrafficClass {
    /// # Kernel
    /// `/sys/class/infiniband/<device>/tc/<port>/traffic_class`; mainline drivers do not have it.
    pub(crate) fn open(device: &Path, port: u32) -> Self {
        Self(File::open(device.join(format!("tc/{port}/traffic_class"))).ok())
    }

    /// Reads the traffic class; `None` if none is set or the file does not exist. The file has a line `Global tclass=106`,
    /// and lines for single destinations.
    pub(crate) fn read(&self) -> Option<u32> {
        let mut page = [0; 4096];
        let length = self.0.as_ref()?.read_at(&mut page, 0).ok()?;
        let text = String::from_utf8_lossy(&page[..length]);
        text.lines().find_map(|line| line.trim().strip_prefix("Global tclass=")?.parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_class_that_is_not_set_is_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(TrafficClass::open(dir.path(), 1).read(), None);
        fs::create_dir_all(dir.path().join("tc/1")).unwrap();
        let file = dir.path().join("tc/1/traffic_class");
        for (text, class) in [
            ("", None),
            ("\n", None),
            ("Global tclass=106\n", Some(106)),
            ("tclass=32 dst=1.2.3.4\nGlobal tclass=0\n", Some(0)),
            ("Global tclass=many\n", None),
        ] {
            fs::write(&file, text).unwrap();
            assert_eq!(TrafficClass::open(dir.path(), 1).read(), class, "{text:?}");
        }
    }
}
