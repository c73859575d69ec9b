//! `silkrail` on a terminal of its own.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::{AsFd, OwnedFd},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

/// A running command.
pub struct Terminal {
    pub child: Child,
    pub end: OwnedFd,
    pub seen: String,
    controller: File,
}

impl Terminal {
    /// Starts the command with a directory as the root of its node.
    pub fn run(root: &Path, args: &[&str]) -> Self {
        Self::run_with(root, args, None, Stdio::null())
    }

    /// Starts the command with other outputs; without a standard output with that of the terminal.
    pub fn run_with(root: &Path, args: &[&str], stdout: Option<Stdio>, stderr: Stdio) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let controller = openpt(flags).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let end = ioctl_tiocgptpeer(&controller, flags).unwrap();
        let stream = || Stdio::from(end.try_clone().unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_silkrail"));
        command.arg("--root").arg(root).args(args);
        let child =
            command.stdin(stream()).stdout(stdout.unwrap_or_else(stream)).stderr(stderr).spawn().unwrap();
        Self { child, end, seen: String::new(), controller: controller.into() }
    }

    /// Reads until the terminal has got a text once more than before.
    pub fn wait_for(&mut self, text: &str) {
        let (already, mut buffer) = (self.seen.matches(text).count(), [0; 4096]);
        while self.seen.matches(text).count() <= already {
            let mut readable = [PollFd::new(self.controller.as_fd(), PollFlags::POLLIN)];
            let count = poll(&mut readable, PollTimeout::from(30_000_u16)).unwrap();
            assert_eq!(count, 1, "no {text:?} after {:?}", self.seen);
            let count = self.controller.read(&mut buffer).unwrap();
            self.seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        self.controller.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the end of the command.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
