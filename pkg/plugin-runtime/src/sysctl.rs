//! Sysctls of the current network namespace, named by their path below `/proc/sys`: `net/ipv6/conf/eth0/mtu`.

use std::{fs, io};

/// Reads a sysctl, without the newline at its end.
///
/// # Errors
/// If the file cannot be read.
pub fn read(name: &str) -> io::Result<String> {
    fs::read_to_string(format!("/proc/sys/{name}")).map(|text| text.trim_end().to_owned())
}

/// Writes a sysctl.
///
/// # Errors
/// If the file does not exist, or the kernel refuses the value.
pub fn write(name: &str, value: &str) -> io::Result<()> {
    fs::write(format!("/proc/sys/{name}"), value)
}

/// Writes a sysctl that does not have the value already.
///
/// # Errors
/// As [`write()`].
pub fn ensure(name: &str, value: &str) -> io::Result<()> {
    if read(name).is_ok_and(|is| is == value) { Ok(()) } else { write(name, value) }
}
