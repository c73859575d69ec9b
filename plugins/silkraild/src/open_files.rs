//! The limit of open files, `RLIMIT_NOFILE`.

use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};

/// Enough for 1,000 devices: about thirty counter files of each are kept open.
const WANTED_OPEN_FILES: rlim_t = 65536;

/// Raises the limit of open files, up to the hard limit if it cannot be raised further, and returns how many files may be
/// kept open for counters. The usual limit of 1024 is for programs that use `select(2)`.
pub(crate) fn allow_many() -> usize {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(_, most)| {
        let enough =
            setrlimit(Resource::RLIMIT_NOFILE, WANTED_OPEN_FILES.max(most), WANTED_OPEN_FILES.max(most));
        enough.or_else(|_| setrlimit(Resource::RLIMIT_NOFILE, most, most))
    });
    if let Err(errno) = raised {
        tracing::warn!("cannot raise the limit of open files: {errno}");
    }
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(now, _)| now);
    // The rest is for sockets, directories and clients.
    usize::try_from(limit / 4 * 3).unwrap_or(usize::MAX)
}
