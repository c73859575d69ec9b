//! How many files may be open.

use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};

/// What 1,000 devices would take: each has some thirty counter files that are kept open.
const WANTED_OPEN_FILES: rlim_t = 65536;

/// Allows many open files, as far as the administrator lets us, and returns how many of them may be kept open for
/// counters. 1024, the usual limit, is for programs that still use `select`.
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
    // The rest is for sockets, directories, and whoever asks.
    usize::try_from(limit / 4 * 3).unwrap_or(usize::MAX)
}
