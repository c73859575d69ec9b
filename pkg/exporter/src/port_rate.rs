//! The speed of an InfiniBand port without a link, from sysfs.

use std::{fs, path::Path};

/// Reads the speed of a port in Mb/s; `None` if it cannot be read.
///
/// Not suitable for Ethernet, where the file contains the nearest InfiniBand speed.
///
/// # Kernel
/// `/sys/class/infiniband/<device>/ports/<port>/rate`: `100 Gb/sec (4X EDR)`, `2.5 Gb/sec (1X SDR)`.
pub(crate) fn read(device: &Path, port: u32) -> Option<u32> {
    parse(&fs::read_to_string(device.join(format!("ports/{port}/rate"))).ok()?)
}

fn parse(text: &str) -> Option<u32> {
    let gigabits: f64 = text.split_once(" Gb/sec")?.0.trim().parse().ok()?;
    let is_speed = (0.0..=100_000.0).contains(&gigabits) && gigabits > 0.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is between 0 and 100 million"
    )]
    is_speed.then_some((gigabits * 1000.0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_read_in_megabits() {
        for (text, speed) in [
            ("100 Gb/sec (4X EDR)\n", Some(100_000)),
            ("2.5 Gb/sec (1X SDR)\n", Some(2500)),
            ("800 Gb/sec (4X XDR)", Some(800_000)),
            ("0 Gb/sec", None),
            ("NaN Gb/sec", None),
            ("fast", None),
            ("", None),
        ] {
            assert_eq!(parse(text), speed, "{text:?}");
        }
    }

    #[test]
    fn a_port_without_the_file_has_no_speed() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path(), 1), None);
        fs::create_dir_all(dir.path().join("ports/1")).unwrap();
        fs::write(dir.path().join("ports/1/rate"), "200 Gb/sec (4X HDR)\n").unwrap();
        assert_eq!(read(dir.path(), 1), Some(200_000));
    }
}
