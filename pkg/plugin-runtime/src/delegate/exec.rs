//! One call of another plugin's executable.

use std::{
    env,
    ffi::OsString,
    io::{self, Read, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use cni::{CallContext, Error, ErrorCode, Operation};
use identifiers::Attachment;
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use serde_json::Value;

use crate::{Budget, Deadline, seconds};

/// How long a delegate may take. whereabouts allows itself two minutes for an ADD and one for a DEL, Spiderpool's agent
/// is given 100 s; what is less would kill them before they have given up by themselves.
fn timeout(verb: Operation) -> Duration {
    Duration::from_secs(if verb == Operation::Add { 110 } else { 60 })
}

/// No result is longer.
const MAX_RESULT_BYTES: u64 = 1 << 20;

/// How long an executable that is being replaced is tried again.
const EXEC_ETXTBSY_TIMEOUT: Duration = Duration::from_secs(6);

/// What a delegate is called with.
pub(super) struct DelegateCall<'a> {
    verb: Operation,
    stdin: &'a [u8],
    environment: Vec<(&'static str, OsString)>,
}

impl<'a> DelegateCall<'a> {
    /// A call with the configuration exactly as we received it, and the environment we were called with.
    pub(super) fn new(verb: Operation, common: &CallContext<'a>) -> Self {
        let path = env::join_paths(&common.cni_path).unwrap_or_default();
        let args = common.args.as_str().into();
        Self { verb, stdin: common.stdin, environment: vec![("CNI_PATH", path), ("CNI_ARGS", args)] }
    }

    /// The same call about an attachment.
    pub(super) fn about(mut self, attachment: &Attachment, netns: Option<&Path>) -> Self {
        self.environment.extend([
            ("CNI_CONTAINERID", attachment.container_id.as_str().into()),
            ("CNI_IFNAME", attachment.ifname.as_str().into()),
            ("CNI_NETNS", netns.map(Into::into).unwrap_or_default()),
        ]);
        self
    }
}

/// Runs a delegate and returns what it printed.
///
/// # Errors
/// The delegate's error object; or that it could not be run, printed none, or took too long.
pub(super) fn run(path: &Path, call: &DelegateCall<'_>, budget: &Budget) -> Result<Vec<u8>, Error> {
    let failed = |operation, source| crate::Error::Delegate { operation, program: path.to_owned(), source };
    let deadline = budget.until("the IPAM plugin", timeout(call.verb));
    let mut child = spawn(path, call, &deadline).map_err(|e| failed("run", e))?;
    let (status, printed) = feed(&mut child, call, path, &deadline)?.map_err(|e| failed("talk to", e))?;
    if status.success() { Ok(printed) } else { Err(refusal(path, status, &printed)) }
}

fn spawn(path: &Path, call: &DelegateCall<'_>, deadline: &Deadline<'_>) -> io::Result<Child> {
    loop {
        let spawned = Command::new(path)
            .env("CNI_COMMAND", call.verb.as_str())
            .envs(call.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn();
        match spawned {
            // The file is open for writing: somebody is installing a new version.
            Err(e)
                if e.kind() == io::ErrorKind::ExecutableFileBusy
                    && deadline.waited() < EXEC_ETXTBSY_TIMEOUT
                    && !deadline.has_passed() =>
            {
                thread::sleep(Duration::from_millis(50));
            }
            spawned => return spawned,
        }
    }
}

type DelegateOutput = io::Result<(ExitStatus, Vec<u8>)>;

/// Writes the configuration, reads the answer and waits for the end; all of it ends at a deadline.
fn feed(
    child: &mut Child,
    call: &DelegateCall<'_>,
    path: &Path,
    deadline: &Deadline<'_>,
) -> Result<DelegateOutput, Error> {
    let (input, output, stdin) = (child.stdin.take(), child.stdout.take(), call.stdin.to_vec());
    // Nobody waits for these threads: what the delegate has started may hold the pipes open.
    thread::spawn(move || {
        // A delegate that does not read its configuration is not ours to judge.
        let _ = input.map(|mut input| input.write_all(&stdin));
    });
    let (sender, answer) = mpsc::channel();
    thread::spawn(move || read_all(output, &sender));
    let mut printed = Vec::new();
    let mut open = true;
    loop {
        // The end of its output is the event; its own end follows at once.
        let pause = if open { Duration::from_millis(20) } else { Duration::from_micros(500) };
        match answer.recv_timeout(pause) {
            Ok(part) => printed.extend(part),
            Err(mpsc::RecvTimeoutError::Disconnected) if open => open = false,
            Err(mpsc::RecvTimeoutError::Disconnected) => thread::sleep(pause),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
        match child.try_wait() {
            Ok(Some(status)) => {
                // What it printed is on its way; what it left behind may hold the pipe open for ever.
                while let Ok(part) = answer.recv_timeout(Duration::from_millis(500)) {
                    printed.extend(part);
                }
                return Ok(Ok((status, printed)));
            }
            Ok(None) if !deadline.has_passed() => {}
            Ok(None) => break,
            Err(error) => return Ok(Err(error)),
        }
    }
    end(child);
    let (verb, waited) = (call.verb.as_str(), seconds(deadline.waited()));
    Err(crate::Error::DelegateTimedOut { program: path.to_owned(), verb, waited }.into())
}

fn read_all(output: Option<ChildStdout>, sender: &mpsc::Sender<Vec<u8>>) {
    let Some(mut output) = output.map(|output| output.take(MAX_RESULT_BYTES)) else { return };
    let mut part = [0; 4096];
    while let Ok(length @ 1..) = output.read(&mut part) {
        if sender.send(part[..length].to_vec()).is_err() {
            return;
        }
    }
}

/// Kills a delegate and what it has started.
fn end(child: &mut Child) {
    if let Ok(group) = i32::try_from(child.id()) {
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
    let _ = child.kill().and_then(|()| child.wait());
}

/// The error object a failing delegate printed, with its code.
fn refusal(path: &Path, status: ExitStatus, printed: &[u8]) -> Error {
    let object: Option<Value> = serde_json::from_slice(printed).ok();
    let code =
        object.as_ref().and_then(|o| o.get("code")?.as_u64()).and_then(|code| u32::try_from(code).ok());
    let (Some(object), Some(code)) = (object, code) else {
        let printed = String::from_utf8_lossy(printed).into_owned();
        return crate::Error::DelegateWithoutError { program: path.to_owned(), status, printed }.into();
    };
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    Error::new(ErrorCode(code), text("msg")).with_details(text("details"))
}
