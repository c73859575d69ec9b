//! Doing without privileges.

use std::ffi::CStr;

use caps::{CapSet, errors::CapsError};
use nix::{errno::Errno, sys::prctl};

/// The kernel refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DropPrivilegesError {
    #[error("no_new_privs: {0}")]
    NoNewPrivileges(#[from] Errno),
    #[error(transparent)]
    Capabilities(#[from] CapsError),
}

/// What `ps` calls this process.
const NAME: &CStr = c"silkraild-http";

/// Gives up every capability of the calling thread, before there are others, and the way to have one again: `execve(2)` gives
/// root its capabilities back, unless `no_new_privs` is set.
///
/// # Errors
/// That the kernel refuses: then nothing must be served.
pub(super) fn give_up() -> Result<(), DropPrivilegesError> {
    let _ = prctl::set_name(NAME);
    prctl::set_no_new_privs()?;
    // What is effective has to be permitted.
    for set in [CapSet::Ambient, CapSet::Effective, CapSet::Permitted, CapSet::Inheritable] {
        caps::clear(None, set)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File, Permissions},
        io,
        net::UdpSocket,
        os::{
            fd::AsRawFd,
            unix::{
                fs::PermissionsExt,
                net::{UnixDatagram, UnixListener, UnixStream},
            },
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
            socket::{
                AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, UnixAddr, bind, connect, listen,
                socket,
            },
            stat::Mode,
        },
        unistd::{Pid, mkfifo, unlink},
    };

    use super::*;
    use crate::frontend::syscalls;

    fn give_all_up() {
        give_up().unwrap();
        syscalls::deny().unwrap();
    }

    /// In a thread of its own: what it gives up is its own, and that of what it starts.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "they are to fail")]
    fn what_root_can_do_without_capabilities_it_cannot() {
        let dir = tempfile::tempdir().unwrap();
        let [file, trusting, fifo] = ["file", "socket", "fifo"].map(|name| dir.path().join(name));
        fs::write(&file, "text").unwrap();
        let _listener = UnixListener::bind(&trusting).unwrap();
        let netns = File::open("/proc/self/ns/net").unwrap();
        let (to_reader, _reader) = UnixStream::pair().unwrap();
        let tcp = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        let name = UnixAddr::new(&dir.path().join("name")).unwrap();
        let in_vain = || {
            give_all_up();
            let errno = |result: nix::Result<()>| result.map_err(io::Error::from);
            [
                ("run a program", Command::new("/bin/true").spawn().map(drop)),
                ("signal another", errno(kill(Pid::parent(), None))),
                ("use a descriptor otherwise", errno(fcntl(&netns, FcntlArg::F_SETPIPE_SZ(1)).map(drop))),
                ("make a user namespace", errno(unshare(CloneFlags::CLONE_NEWUSER))),
                ("enter a namespace", errno(setns(&netns, CloneFlags::CLONE_NEWNET))),
                ("reach what trusts root", UnixStream::connect(&trusting).map(drop)),
                ("send datagrams to what trusts root", UnixDatagram::pair().map(drop)),
                ("make a pair of sockets", UnixStream::pair().map(drop)),
                ("make a file of a socket", errno(bind(to_reader.as_raw_fd(), &name))),
                ("listen", errno(listen(&tcp, Backlog::MAXCONN))),
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

    /// As glibc's resolver, with a socket that has no address of its own.
    #[test]
    fn it_can_ask_a_name_server() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = SockaddrStorage::from(server.local_addr().unwrap());
        let ask = || {
            give_all_up();
            let kind = (AddressFamily::Inet, SockType::Datagram);
            let resolver = UdpSocket::from(socket(kind.0, kind.1, SockFlag::SOCK_CLOEXEC, None).unwrap());
            connect(resolver.as_raw_fd(), &address).unwrap();
            resolver.send(b"?").unwrap();
            let (mut question, mut answer) = ([0], [0]);
            let (_, from) = server.recv_from(&mut question).unwrap();
            server.send_to(b"!", from).unwrap();
            resolver.recv(&mut answer).unwrap();
            (question, answer)
        };
        assert_eq!(thread::scope(|scope| scope.spawn(ask).join().unwrap()), (*b"?", *b"!"));
    }

    #[test]
    fn it_can_start_threads_read_files_and_abort() {
        let result = thread::spawn(|| {
            give_all_up();
            let thread = thread::spawn(|| 7).join().unwrap();
            (thread, fs::read("/proc/self/comm").is_ok(), raise(Signal::SIGCONT))
        });
        assert_eq!(result.join().unwrap(), (7, true, Ok(())), "to raise is tgkill of this process");
    }
}
