//! How many files may be open.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Allows as many open files as the administrator lets us: a device has some thirty counter files that are kept open,
/// and 1024, the usual limit, is for programs that still use `select`.
pub(crate) fn allow_many() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, most)| setrlimit(Resource::RLIMIT_NOFILE, most, most));
    if let Err(errno) = raised {
        tracing::warn!("cannot raise the limit of open files: {errno}");
    }
}
