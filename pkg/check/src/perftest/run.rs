//! A perftest program as a child process that is always killed and reaped.

use std::{
    env,
    ffi::OsString,
    io::Read,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};

use super::{GpuMemory, PerftestArgs, VersionCache};
use crate::{Error, GpuIndex, RdmaOperation, TestKind, error::io};

/// Number of bytes kept from the end of each stream. A thousand ranks with `NCCL_DEBUG=INFO` print much after the table.
const MAX_KEPT_OUTPUT: usize = 4 << 20;

/// How long a process may take to exit after SIGKILL.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of `--version` and `--help`.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait for the pipes of an exited process to be closed: a descendant can hold them open.
const PIPE_CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// `IBV_WC_RETRY_EXC_ERR` (12) in perftest's error output, in lower case.
const RETRY_EXCEEDED: &str = "failed status 12";

/// Finds programs in `PATH` and starts them.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The search path, in the format of `PATH`.
    pub path: OsString,
    /// A command that precedes the program and executes it ([`super::become_child`]). It must ensure that the program is
    /// killed when the thread that started it ends. May be empty.
    pub wrapper: Vec<OsString>,
    /// The versions of programs that have run.
    pub versions: Arc<VersionCache>,
}

impl Launcher {
    /// Returns a launcher with the `PATH` of the environment, or the usual directories if it is not set.
    pub fn of_environment(wrapper: Vec<OsString>) -> Self {
        let default = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        let path = env::var_os("PATH").unwrap_or_else(|| default.into());
        Self { path, wrapper, versions: Arc::default() }
    }

    /// Finds the perftest program for a test.
    ///
    /// # Errors
    /// [`Error::NoPerftest`].
    pub fn find(&self, kind: TestKind, operation: RdmaOperation) -> Result<PerftestProgram<'_>, Error> {
        let program = operation.program(kind);
        self.named(program).ok_or(Error::NoPerftest { program })
    }

    /// Finds any program by its name; `None` if it is not in the search path.
    pub(crate) fn named(&self, name: &'static str) -> Option<PerftestProgram<'_>> {
        let is_executable = |path: &Path| {
            path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        };
        let mut found =
            env::split_paths(&self.path).filter(|dir| dir.is_absolute()).map(|dir| dir.join(name));
        let path = found.find(|path| is_executable(path))?;
        Some(PerftestProgram { launcher: self, name, path })
    }
}

/// An installed program.
#[derive(Debug, Clone)]
pub struct PerftestProgram<'a> {
    launcher: &'a Launcher,
    name: &'static str,
    path: PathBuf,
}

impl PerftestProgram<'_> {
    /// Returns the name, for example `ib_write_bw`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the version that the program prints, for example `6.06`. `None` if it prints none within 5 s; a test can
    /// still run, since it has a timeout of its own.
    pub fn version(&self) -> Option<String> {
        self.launcher.versions.get(&self.path, || self.printed_version())
    }

    fn printed_version(&self) -> Option<String> {
        let output = self.run_briefly("--version")?;
        let version = output.printed.lines().find_map(|line| line.trim().strip_prefix("Version:"))?;
        Some(version.trim().chars().take(32).collect())
    }

    /// Returns the option with which the program uses the memory of a GPU.
    ///
    /// # Errors
    /// [`Error::NoGpuMemory`] if its help lists none.
    pub fn gpu_memory(&self, gpu: GpuIndex) -> Result<GpuMemory, Error> {
        let help = self.run_briefly("--help").map(|output| output.printed + &output.complaints);
        let option = help.and_then(|help| GpuMemory::in_help(&help, gpu));
        let version = || self.version().unwrap_or_else(|| "of unknown version".into());
        option.ok_or_else(|| Error::NoGpuMemory { program: self.name, version: version() })
    }

    /// Runs the program with an option that makes it print something and exit; `None` if it does not exit in time.
    fn run_briefly(&self, option: &str) -> Option<ProgramOutput> {
        let mut running = self.start_with(vec![option.into()]).ok()?;
        let deadline = Instant::now() + VERSION_TIMEOUT;
        while !running.has_ended().ok()? {
            if Instant::now() >= deadline {
                return None;
            }
            thread::sleep(Duration::from_millis(5));
        }
        running.end().ok()
    }

    /// Starts the program, without a shell.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn start(&self, arguments: &PerftestArgs<'_>) -> Result<RunningProgram, Error> {
        self.start_with(arguments.list())
    }

    pub(crate) fn start_with(&self, arguments: Vec<String>) -> Result<RunningProgram, Error> {
        let mut words = self.launcher.wrapper.iter().map(OsString::as_os_str).chain([self.path.as_os_str()]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).args(arguments);
        self.spawn(&mut command)
    }

    fn spawn(&self, command: &mut Command) -> Result<RunningProgram, Error> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(io(format!("start {}", self.path.display())))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        // It is killed and reaped if its output cannot be read.
        let mut running = RunningProgram { program: self.name, child, streams: Default::default() };
        let failed = || io(format!("read the output of {}", self.path.display()));
        running.streams =
            [OutputTail::of(stdout).map_err(failed())?, OutputTail::of(stderr).map_err(failed())?];
        Ok(running)
    }
}

/// A running program. Dropping it kills and reaps the process.
#[derive(Debug)]
pub struct RunningProgram {
    program: &'static str,
    child: Child,
    streams: [OutputTail; 2],
}

/// The exit status and the output of a program.
#[derive(Debug)]
pub struct ProgramOutput {
    program: &'static str,
    status: ExitStatus,
    /// The end of its standard output.
    pub printed: String,
    /// The end of its standard error.
    pub complaints: String,
}

impl RunningProgram {
    /// Whether the program has exited.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn has_ended(&mut self) -> Result<bool, Error> {
        Ok(self.child.try_wait().map_err(io(format!("wait for {}", self.program)))?.is_some())
    }

    /// Returns the process ID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM and waits up to `within` for the program to exit; then kills it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn terminate(mut self, within: Duration) -> Result<(), Error> {
        if let Ok(pid) = self.child.id().try_into() {
            // The process has not been reaped, so its ID cannot have been reused.
            let _ = signal::kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let deadline = Instant::now() + within;
        while !self.has_ended()? && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Kills the program unless it has exited, and returns its output.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn end(mut self) -> Result<ProgramOutput, Error> {
        if !self.has_ended()? {
            let _ = self.child.kill();
        }
        let status = self.reap()?;
        let deadline = Instant::now() + PIPE_CLOSE_TIMEOUT;
        let [printed, complaints] = self.streams.each_mut().map(|stream| stream.text(deadline));
        Ok(ProgramOutput { program: self.program, status, printed, complaints })
    }
}

impl RunningProgram {
    /// Reaps the process. The wait is limited, because a process that hangs in the NIC's firmware cannot be killed.
    fn reap(&mut self) -> Result<ExitStatus, Error> {
        let until = Instant::now() + KILL_TIMEOUT;
        loop {
            let ended = self.child.try_wait().map_err(io(format!("wait for {}", self.program)))?;
            match ended {
                Some(status) => return Ok(status),
                None if Instant::now() >= until => {
                    let what = "the process does not exit after SIGKILL: is the firmware of its NIC hung?";
                    let why = std::io::Error::new(std::io::ErrorKind::TimedOut, what);
                    return Err(io(format!("wait for {} (pid {})", self.program, self.child.id()))(why));
                }
                None => thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.reap();
    }
}

impl ProgramOutput {
    /// Whether the exit status is 0.
    pub fn is_success(&self) -> bool {
        self.status.success()
    }

    /// Whether the program failed because it does not support an option, as older versions do.
    pub(crate) fn does_not_know(&self, option: &str) -> bool {
        let is = |line: &str| line.contains("unrecognized option") && line.contains(option);
        !self.is_success() && self.complaints.lines().any(is)
    }

    /// Returns the last lines of its error output, or of its output if that is empty, joined to one line.
    pub fn output(&self) -> String {
        let text = if self.complaints.trim().is_empty() { &self.printed } else { &self.complaints };
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with(['-', '*']))
            .collect();
        let last = lines[lines.len().saturating_sub(6)..].join("; ");
        crate::sanitized_text::plain(&last, 400)
    }

    /// Returns the failure as an error.
    pub fn failure(&self) -> Error {
        let (program, output) = (self.program, self.output());
        if output.to_lowercase().contains(RETRY_EXCEEDED) {
            Error::Unanswered { program, output }
        } else {
            Error::Failed { program, status: self.status.to_string(), output }
        }
    }
}

/// The end of a stream, read by a thread of its own, so that the program never blocks on a full pipe.
#[derive(Debug, Default)]
struct OutputTail {
    kept: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl OutputTail {
    /// Fails if no thread can be created.
    fn of(stream: Option<impl Read + Send + 'static>) -> std::io::Result<Self> {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&kept);
        let reader = stream.map(|stream| thread::Builder::new().spawn(move || copy(stream, &to)));
        Ok(Self { kept, reader: reader.transpose()? })
    }

    fn text(&mut self, deadline: Instant) -> String {
        if let Some(reader) = self.reader.take() {
            while !reader.is_finished() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(2));
            }
        }
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let end = &kept[kept.len().saturating_sub(MAX_KEPT_OUTPUT)..];
        // Drop the first, possibly truncated line: it could be mistaken for another one.
        let cut = if kept.len() < MAX_KEPT_OUTPUT {
            0
        } else {
            end.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1)
        };
        String::from_utf8_lossy(&end[cut..]).into_owned()
    }
}

fn copy(mut from: impl Read, to: &Mutex<Vec<u8>>) {
    let mut piece = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut piece) {
        let mut kept = to.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&piece[..read]);
        // Not after each read, because it moves all kept bytes.
        if kept.len() > 2 * MAX_KEPT_OUTPUT {
            let excess = kept.len() - MAX_KEPT_OUTPUT;
            kept.drain(..excess);
        }
    }
}

#[cfg(test)]
mod tests;
