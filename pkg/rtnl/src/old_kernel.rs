//! Simulation of an older kernel for tests, in debug builds only.
//!
//! With `SILKRAIL_KERNEL=5.4` the link attributes of later kernels are neither sent nor read.

/// `IFLA_PROP_LIST`.
pub(crate) const PROP_LIST: u16 = 52;
/// `IFLA_NEW_IFINDEX`.
pub(crate) const NEW_IFINDEX: u16 = 49;
/// `IFLA_PERM_ADDRESS`.
pub(crate) const PERM_ADDRESS: u16 = 54;
/// `IFLA_PARENT_DEV_NAME`.
pub(crate) const PARENT_DEV_NAME: u16 = 56;

/// Whether the kernel supports an attribute.
#[cfg(debug_assertions)]
pub(crate) fn knows(attribute: u16) -> bool {
    let since = match attribute {
        PROP_LIST => (5, 5),
        PERM_ADDRESS => (5, 6),
        NEW_IFINDEX => (5, 13),
        PARENT_DEV_NAME => (5, 14),
        _ => return true,
    };
    let Ok(version) = std::env::var("SILKRAIL_KERNEL") else { return true };
    let (major, minor) = version.split_once('.').unwrap_or((&version, "0"));
    (major.parse().unwrap_or(0), minor.parse().unwrap_or(0)) >= since
}

/// Whether to send and read an attribute: always. A kernel ignores the attributes that it does not support.
#[cfg(not(debug_assertions))]
pub(crate) const fn knows(_: u16) -> bool {
    true
}
