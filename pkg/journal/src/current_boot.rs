//! The ID of the current boot.

/// Returns the ID of the current boot, from `/proc/sys/kernel/random/boot_id`.
///
/// # Errors
/// If it cannot be read. A wrong ID would make existing state look like that of a former boot.
pub fn boot_id() -> Result<&'static str, statefile::Error> {
    let failed = |source| statefile::Error::Io {
        operation: "read",
        path: "/proc/sys/kernel/random/boot_id".into(),
        source,
    };
    bootid::current().map_err(failed)
}
