//! A kernel that is older than the running one, for tests, in debug builds only.
//!
//! `SILKRAIL_KERNEL=5.4` has the kernel not know the attributes of links that came later: they are neither sent nor read.

/// `IFLA_PROP_LIST`.
pub(crate) const PROP_LIST: u16 = 52;
/// `IFLA_NEW_IFINDEX`.
pub(crate) const NEW_IFINDEX: u16 = 49;
/// `IFLA_PERM_ADDRESS`.
pub(crate) const PERM_ADDRESS: u16 = 54;
/// `IFLA_PARENT_DEV_NAME`.
pub(crate) const PARENT_DEV_NAME: u16 = 56;

/// Whether the kernel knows an attribute.
#[cfg(debug_assertions)]
pub(crate) fn knows(attribute: u16) -> bool {
    let since = match attribute {
        PROP_LIST => (5, 5),
        PERM_ADDRESS => (5, 6),
        NEW_IFINDEX => (5, 13),
        PARENT_DEV_NAME => (5, 14),
        _ => return true,
    };
    let Ok(order) = std::env::var("SILKRAIL_KERNEL") else { return true };
    let (major, minor) = order.split_once('.').unwrap_or((&order, "0"));
    (major.parse().unwrap_or(0), minor.parse().unwrap_or(0)) >= since
}

/// Whether the kernel knows an attribute. It ignores what it does not know.
#[cfg(not(debug_assertions))]
pub(crate) const fn knows(_: u16) -> bool {
    true
}
