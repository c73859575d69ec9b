//! Whether the kernel has IPv6.

use std::{fs, path::Path};

use crate::Error;

/// Checks that the kernel has IPv6. Otherwise it has no sysctl of it in any namespace: with `ipv6.disable=1` its module
/// ends before it registers them (`net/ipv6/af_inet6.c: inet6_init`).
///
/// # Errors
/// [`Error::NoIpv6`].
pub fn require() -> Result<(), Error> {
    if Path::new("/proc/sys/net/ipv6").exists() {
        return Ok(());
    }
    let disable = fs::read_to_string("/sys/module/ipv6/parameters/disable");
    Err(Error::NoIpv6 { is_disabled: disable.is_ok_and(|value| value.trim() == "1") })
}
