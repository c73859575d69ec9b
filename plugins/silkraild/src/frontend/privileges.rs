//! Doing without privileges.

use std::ffi::CStr;

use caps::{CapSet, errors::CapsError};
use nix::{errno::Errno, sys::prctl};

use super::syscalls;

/// The kernel refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("no_new_privs: {0}")]
    NoNewPrivileges(#[from] Errno),
    #[error(transparent)]
    Capabilities(#[from] CapsError),
    #[error(transparent)]
    Syscalls(#[from] syscalls::Error),
}

/// What `ps` calls this process.
const NAME: &CStr = c"silkraild-http";

/// Gives up every capability of the calling thread, before there are others, and the way to have one again: `execve(2)` gives
/// root its capabilities back, unless `no_new_privs` is set. And what root can do without any.
///
/// # Errors
/// That the kernel refuses: then nothing must be served.
pub(super) fn give_up() -> Result<(), Error> {
    let _ = prctl::set_name(NAME);
    prctl::set_no_new_privs()?;
    // What is effective has to be permitted.
    for set in [CapSet::Ambient, CapSet::Effective, CapSet::Permitted, CapSet::Inheritable] {
        caps::clear(None, set)?;
    }
    Ok(syscalls::deny()?)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File, Permissions},
        io,
        os::unix::{
            fs::PermissionsExt,
            net::{UnixListener, UnixStream},
        },
        process::Command,
        thread,
    };

    use nix::{
        fcntl::{FcntlArg, fcntl},
        libc,
        sched::{CloneFlags, setns, unshare},
        sys::{
            signal::{Signal, kill, raise},
            stat::Mode,
        },
        unistd::{Pid, mkfifo, unlink},
    };

    use super::*;

    /// In a thread of its own: what it gives up is its own, and that of what it starts.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "they are to fail")]
    fn what_root_can_do_without_capabilities_it_cannot() {
        let dir = tempfile::tempdir().unwrap();
        let [file, socket, fifo] = ["file", "socket", "fifo"].map(|name| dir.path().join(name));
        fs::write(&file, "text").unwrap();
        let _listener = UnixListener::bind(&socket).unwrap();
        let netns = File::open("/proc/self/ns/net").unwrap();
        let in_vain = || {
            give_up().unwrap();
            let errno = |result: nix::Result<()>| result.map_err(io::Error::from);
            [
                ("run a program", Command::new("/bin/true").spawn().map(drop)),
                ("signal another", errno(kill(Pid::parent(), None))),
                ("use a descriptor otherwise", errno(fcntl(&netns, FcntlArg::F_SETPIPE_SZ(1)).map(drop))),
                ("make a user namespace", errno(unshare(CloneFlags::CLONE_NEWUSER))),
                ("enter a namespace", errno(setns(&netns, CloneFlags::CLONE_NEWNET))),
                ("reach what trusts root", UnixStream::connect(&socket).map(drop)),
                ("write to a file", File::options().write(true).open(&file).map(drop)),
                ("write behind a file", File::options().append(true).open(&file).map(drop)),
                ("make a file", File::create(dir.path().join("new")).map(drop)),
                ("make a FIFO", errno(mkfifo(&fifo, Mode::S_IRUSR))),
                ("remove a file", errno(unlink(&file))),
                ("rename a file", fs::rename(&file, dir.path().join("other"))),
                ("make a directory", fs::create_dir(dir.path().join("dir"))),
                ("change a mode", fs::set_permissions(&file, Permissions::from_mode(0o666))),
            ]
        };
        for (what, result) in thread::scope(|scope| scope.spawn(in_vain).join().unwrap()) {
            assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EPERM), "{what}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "text");
    }

    #[test]
    fn it_can_start_threads_read_files_and_abort() {
        let result = thread::spawn(|| {
            give_up().unwrap();
            let thread = thread::spawn(|| 7).join().unwrap();
            (thread, fs::read("/proc/self/comm").is_ok(), raise(Signal::SIGCONT))
        });
        assert_eq!(result.join().unwrap(), (7, true, Ok(())), "to raise is tgkill of this process");
    }
}
