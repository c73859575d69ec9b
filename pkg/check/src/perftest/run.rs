//! A program of perftest as a process that cannot be left behind.

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

use super::PerftestArgs;
use crate::{Error, RdmaOperation, TestKind, error::io};

/// As much of each stream is kept: its end. A thousand ranks with `NCCL_DEBUG=INFO` say much after the table.
const MAX_KEPT_OUTPUT: usize = 4 << 20;

/// How long a process that was killed may take to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a program may take to say its version.
const VERSION: Duration = Duration::from_secs(5);

/// How long the pipes of a process that is gone are waited for: somebody else may hold them.
const PIPE_CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// `IBV_WC_RETRY_EXC_ERR`, as perftest tells of it.
const RETRY_EXCEEDED: &str = "failed status 12";

/// How programs are started.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// Where they are looked for.
    pub path: OsString,
    /// A command that is put in front of a program: it has to see to it that the program dies with the thread that
    /// started it, and to execute it.
    pub wrapper: Vec<OsString>,
}

impl Launcher {
    /// Programs of the environment's `PATH`.
    pub fn of_environment(wrapper: Vec<OsString>) -> Self {
        let usual = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        Self { path: env::var_os("PATH").unwrap_or_else(|| usual.into()), wrapper }
    }

    /// The program for a test.
    ///
    /// # Errors
    /// [`Error::NoPerftest`].
    pub fn find(&self, kind: TestKind, operation: RdmaOperation) -> Result<PerftestProgram<'_>, Error> {
        let program = operation.program(kind);
        self.named(program).ok_or(Error::NoPerftest { program })
    }

    /// Any other program.
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

/// A program that is installed.
#[derive(Debug, Clone)]
pub struct PerftestProgram<'a> {
    launcher: &'a Launcher,
    name: &'static str,
    path: PathBuf,
}

impl PerftestProgram<'_> {
    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What it says its version is, like `6.06`. `None` if it does not say so, or does not come to an end: that is no
    /// reason not to try a test, which has a limit of its own.
    pub fn version(&self) -> Option<String> {
        let mut running = self.start_with(vec!["--version".into()]).ok()?;
        let deadline = Instant::now() + VERSION;
        while !running.has_ended().ok()? {
            if Instant::now() >= deadline {
                return None;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let output = running.end().ok()?;
        let version = output.printed.lines().find_map(|line| line.trim().strip_prefix("Version:"))?;
        Some(version.trim().chars().take(32).collect())
    }

    /// Starts it. No shell is between.
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
        let streams = [OutputTail::of(child.stdout.take()), OutputTail::of(child.stderr.take())];
        Ok(RunningProgram { program: self.name, child, streams })
    }
}

/// A program at work. It is killed when this value goes.
#[derive(Debug)]
pub struct RunningProgram {
    program: &'static str,
    child: Child,
    streams: [OutputTail; 2],
}

/// How a program ended and what it printed.
#[derive(Debug)]
pub struct ProgramOutput {
    program: &'static str,
    status: ExitStatus,
    /// On its standard output.
    pub printed: String,
    /// On its standard error.
    pub complaints: String,
}

impl RunningProgram {
    /// Whether it has ended.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn has_ended(&mut self) -> Result<bool, Error> {
        Ok(self.child.try_wait().map_err(io(format!("wait for {}", self.program)))?.is_some())
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end, and waits so long for that; then it is killed.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn terminate(mut self, within: Duration) -> Result<(), Error> {
        if let Ok(pid) = self.child.id().try_into() {
            // It has not been waited for, so the number is still its own.
            let _ = signal::kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let deadline = Instant::now() + within;
        while !self.has_ended()? && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Ends it, if it has not ended, and has what it printed.
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
    /// How it ended. One that hangs in its NIC's firmware cannot even be killed; nobody waits for it for ever.
    fn reap(&mut self) -> Result<ExitStatus, Error> {
        let until = Instant::now() + KILL_TIMEOUT;
        loop {
            let ended = self.child.try_wait().map_err(io(format!("wait for {}", self.program)))?;
            match ended {
                Some(status) => return Ok(status),
                None if Instant::now() >= until => {
                    let what = "it was killed and does not end: is the firmware of its NIC hung?";
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
    /// Whether it ended well.
    pub fn is_success(&self) -> bool {
        self.status.success()
    }

    /// Whether it does not know an option, as older versions do not.
    pub(crate) fn does_not_know(&self, option: &str) -> bool {
        let is = |line: &str| line.contains("unrecognized option") && line.contains(option);
        !self.is_success() && self.complaints.lines().any(is)
    }

    /// What it complained of, in one line.
    pub fn said(&self) -> String {
        let text = if self.complaints.trim().is_empty() { &self.printed } else { &self.complaints };
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with(['-', '*']))
            .collect();
        let last = lines[lines.len().saturating_sub(6)..].join("; ");
        crate::label::plain(&last, 400)
    }

    /// That it failed, as an error.
    pub fn failure(&self) -> Error {
        let (program, said) = (self.program, self.said());
        if said.to_lowercase().contains(RETRY_EXCEEDED) {
            Error::Unanswered { program, said }
        } else {
            Error::Failed { program, status: self.status.to_string(), said }
        }
    }
}

/// The end of a stream, read by a thread of its own: a program must never wait for a reader.
#[derive(Debug)]
struct OutputTail {
    kept: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl OutputTail {
    fn of(stream: Option<impl Read + Send + 'static>) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&kept);
        let reader = stream.map(|stream| thread::spawn(move || copy(stream, &to)));
        Self { kept, reader }
    }

    fn text(&mut self, deadline: Instant) -> String {
        if let Some(reader) = self.reader.take() {
            while !reader.is_finished() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(2));
            }
        }
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let end = &kept[kept.len().saturating_sub(MAX_KEPT_OUTPUT)..];
        // A line without its beginning could be taken for another.
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
        // Not with each piece: it moves all the rest.
        if kept.len() > 2 * MAX_KEPT_OUTPUT {
            let excess = kept.len() - MAX_KEPT_OUTPUT;
            kept.drain(..excess);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn program<'a>(launcher: &'a Launcher) -> PerftestProgram<'a> {
        PerftestProgram { launcher, name: "ib_write_bw", path: "/bin/sh".into() }
    }

    fn shell(launcher: &Launcher, script: &str) -> RunningProgram {
        program(launcher).spawn(Command::new("/bin/sh").args(["-c", script])).unwrap()
    }

    fn launcher(path: &str) -> Launcher {
        Launcher { path: path.into(), wrapper: Vec::new() }
    }

    #[test]
    fn what_is_not_installed_is_named_with_its_package() {
        let dir = tempfile::tempdir().unwrap();
        let launcher = launcher(dir.path().to_str().unwrap());
        let missing = launcher.find(TestKind::Bandwidth, RdmaOperation::Read).unwrap_err().to_string();
        assert!(
            missing.starts_with("ib_read_bw: not found in PATH; install the package perftest"),
            "{missing}"
        );
        // Neither a directory nor a file that cannot be executed is a program.
        fs::write(dir.path().join("ib_read_bw"), "").unwrap();
        fs::create_dir(dir.path().join("ib_send_lat")).unwrap();
        assert!(launcher.find(TestKind::Bandwidth, RdmaOperation::Read).is_err());
        assert!(launcher.find(TestKind::Latency, RdmaOperation::Send).is_err());
    }

    /// A perftest that is this script, and what starts it; what it says of its version, and how long that took.
    fn version(script: &str, wrapper: &[&str]) -> (Option<String>, Duration) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ib_write_bw");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let mut launcher = launcher(dir.path().to_str().unwrap());
        launcher.wrapper = wrapper.iter().map(OsString::from).collect();
        let began = Instant::now();
        let version = launcher.find(TestKind::Bandwidth, RdmaOperation::Write).unwrap().version();
        (version, began.elapsed())
    }

    #[test]
    fn a_program_says_its_version_and_is_started_as_for_a_test() {
        let script = "[ \"$1\" = --version ] && echo && echo ' Version: 6.06'; echo >&2; exit 1";
        assert_eq!(version(script, &[]).0.as_deref(), Some("6.06"));
        // The wrapper sees to it that the program dies with us.
        let wrapper = ["/usr/bin/env", "WRAPPED=6.07"];
        assert_eq!(version("echo Version: $WRAPPED", &wrapper).0.as_deref(), Some("6.07"));
        assert_eq!(version("echo unknown option", &[]).0, None);
    }

    #[test]
    fn a_program_that_does_not_come_to_its_version_is_not_waited_for() {
        let (version, took) = version("exec sleep 60", &[]);
        assert_eq!(version, None);
        assert!(took < VERSION * 3, "{took:?}");
    }

    /// It ends by itself when it has had so much of a CPU.
    #[test]
    fn a_program_that_prints_its_version_without_end_is_not_heard_out() {
        let (version, took) = version("ulimit -t 20; while :; do echo Version: 1; done", &[]);
        assert_eq!(version, None);
        assert!(took < VERSION * 3, "{took:?}");
    }

    #[test]
    fn a_process_is_gone_with_its_value() {
        let launcher = launcher("");
        let running = shell(&launcher, "exec sleep 1000");
        let process = format!("/proc/{}", running.pid());
        assert!(Path::new(&process).exists());
        drop(running);
        assert!(!Path::new(&process).exists());
    }

    #[test]
    fn much_output_is_read_and_its_end_kept() {
        let launcher = launcher("");
        let mut running =
            shell(&launcher, "yes 0123456789 | head -c 10000000; echo; echo end; echo complaint >&2; exit 3");
        while !running.has_ended().unwrap() {
            thread::yield_now();
        }
        let output = running.end().unwrap();
        assert!(output.printed.len() <= MAX_KEPT_OUTPUT && output.printed.ends_with("end\n"));
        assert!(output.printed.lines().all(|line| "0123456789".starts_with(line) || line == "end"));
        assert!(!output.is_success());
        assert_eq!(output.failure().to_string(), "ib_write_bw failed (exit status: 3): complaint");
    }

    #[test]
    fn packets_that_nobody_answers_are_explained() {
        let launcher = launcher("");
        let mut running = shell(&launcher, "echo 'Failed status 12: wr_id 0 syndrom 0x81' >&2; exit 1");
        while !running.has_ended().unwrap() {
            thread::yield_now();
        }
        let failure = running.end().unwrap().failure().to_string();
        assert!(failure.contains("is UDP port 4791 (RoCE v2) open"), "{failure}");
    }

    #[test]
    fn a_descendant_that_holds_the_pipe_is_not_waited_for() {
        let launcher = launcher("");
        let mut running = shell(&launcher, "sleep 5 & echo done");
        while !running.has_ended().unwrap() {
            thread::yield_now();
        }
        assert_eq!(running.end().unwrap().printed, "done\n");
    }
}
