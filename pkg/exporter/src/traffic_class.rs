//! The traffic class that the vendor's driver (MLNX_OFED) sets for all packets of a device.

use std::{fs, path::Path};

/// The class; `None` if none is set, or the driver is not the vendor's.
///
/// # Kernel
/// `/sys/class/infiniband/<device>/tc/<port>/traffic_class`; none of the mainline kernel's drivers has it. A line
/// `Global tclass=106`, beside lines for single destinations.
pub(crate) fn read(device: &Path, port: u32) -> Option<u32> {
    let text = fs::read_to_string(device.join(format!("tc/{port}/traffic_class"))).ok()?;
    text.lines().find_map(|line| line.trim().strip_prefix("Global tclass=")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_that_is_not_set_is_absent_and_not_zero() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path(), 1), None);
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
            assert_eq!(read(dir.path(), 1), class, "{text:?}");
        }
    }
}
