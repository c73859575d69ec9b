//! What a process with the filter can do.

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

use super::deny;
use crate::child::privileges::drop_all;

fn restrict() {
    drop_all(c"test").unwrap();
    deny().unwrap();
}

/// Runs in a separate thread: privileges are dropped for that thread and for those that it starts.
#[test]
#[expect(clippy::disallowed_methods, reason = "the calls must fail")]
fn cannot_do_what_root_can_do_without_capabilities() {
    let dir = tempfile::tempdir().unwrap();
    let [file, socket_path, fifo] = ["file", "socket", "fifo"].map(|name| dir.path().join(name));
    fs::write(&file, "text").unwrap();
    let _listener = UnixListener::bind(&socket_path).unwrap();
    let netns = File::open("/proc/self/ns/net").unwrap();
    let (to_reader, _reader) = UnixStream::pair().unwrap();
    let tcp = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    let name = UnixAddr::new(&dir.path().join("name")).unwrap();
    let attempts = || {
        restrict();
        let errno = |result: nix::Result<()>| result.map_err(io::Error::from);
        [
            ("run a program", Command::new("/bin/true").spawn().map(drop)),
            ("signal another process", errno(kill(Pid::parent(), None))),
            ("change a pipe size", errno(fcntl(&netns, FcntlArg::F_SETPIPE_SZ(1)).map(drop))),
            ("make a user namespace", errno(unshare(CloneFlags::CLONE_NEWUSER))),
            ("enter a namespace", errno(setns(&netns, CloneFlags::CLONE_NEWNET))),
            ("connect to a UNIX socket", UnixStream::connect(&socket_path).map(drop)),
            ("make a pair of datagram sockets", UnixDatagram::pair().map(drop)),
            ("make a pair of sockets", UnixStream::pair().map(drop)),
            ("bind a UNIX socket to a path", errno(bind(to_reader.as_raw_fd(), &name))),
            ("listen", errno(listen(&tcp, Backlog::MAXCONN))),
            ("write to a file", File::options().write(true).open(&file).map(drop)),
            ("append to a file", File::options().append(true).open(&file).map(drop)),
            ("make a file", File::create(dir.path().join("new")).map(drop)),
            ("make a FIFO", errno(mkfifo(&fifo, Mode::S_IRUSR))),
            ("remove a file", errno(unlink(&file))),
            ("rename a file", fs::rename(&file, dir.path().join("other"))),
            ("make a directory", fs::create_dir(dir.path().join("dir"))),
            ("change a mode", fs::set_permissions(&file, Permissions::from_mode(0o666))),
        ]
    };
    for (what, result) in thread::scope(|scope| scope.spawn(attempts).join().unwrap()) {
        assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EPERM), "{what}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "text");
}

/// As the resolver of glibc does, with a socket that is not bound to an address.
#[test]
fn it_can_query_a_name_server() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = SockaddrStorage::from(server.local_addr().unwrap());
    let query = || {
        restrict();
        let kind = (AddressFamily::Inet, SockType::Datagram);
        let resolver = UdpSocket::from(socket(kind.0, kind.1, SockFlag::SOCK_CLOEXEC, None).unwrap());
        connect(resolver.as_raw_fd(), &address).unwrap();
        resolver.send(b"?").unwrap();
        let (mut query_byte, mut reply_byte) = ([0], [0]);
        let (_, from) = server.recv_from(&mut query_byte).unwrap();
        server.send_to(b"!", from).unwrap();
        resolver.recv(&mut reply_byte).unwrap();
        (query_byte, reply_byte)
    };
    assert_eq!(thread::scope(|scope| scope.spawn(query).join().unwrap()), (*b"?", *b"!"));
}

#[test]
fn it_can_start_threads_read_files_and_abort() {
    let result = thread::spawn(|| {
        restrict();
        let thread = thread::spawn(|| 7).join().unwrap();
        (thread, fs::read("/proc/self/comm").is_ok(), raise(Signal::SIGCONT))
    });
    assert_eq!(result.join().unwrap(), (7, true, Ok(())), "raise(3) calls tgkill on this process");
}
