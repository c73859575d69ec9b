//! Running the executable of another plugin.

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

/// Returns how long a delegate may take. whereabouts has a timeout of two minutes for an ADD and one for a DEL, and
/// Spiderpool of 100 s for its agent. A much shorter timeout would kill them before they report their own.
fn timeout(operation: Operation) -> Duration {
    Duration::from_secs(if operation == Operation::Add { 110 } else { 60 })
}

/// The limit of a delegate's output.
const MAX_RESULT_BYTES: u64 = 1 << 20;

/// How long to retry an executable that is being replaced (`ETXTBSY`).
const EXEC_ETXTBSY_TIMEOUT: Duration = Duration::from_secs(6);

/// The operation, standard input and environment of a delegate's call.
pub(super) struct DelegateCall<'a> {
    operation: Operation,
    stdin: &'a [u8],
    environment: Vec<(&'static str, OsString)>,
}

impl<'a> DelegateCall<'a> {
    /// Returns a call with the unchanged configuration and environment of this plugin's own call.
    pub(super) fn new(operation: Operation, common: &CallContext<'a>) -> Self {
        let path = env::join_paths(&common.cni_path).unwrap_or_default();
        let args = common.args.as_str().into();
        Self { operation, stdin: common.stdin, environment: vec![("CNI_PATH", path), ("CNI_ARGS", args)] }
    }

    /// Adds the variables of an attachment.
    pub(super) fn about(mut self, attachment: &Attachment, netns: Option<&Path>) -> Self {
        self.environment.extend([
            ("CNI_CONTAINERID", attachment.container_id.as_str().into()),
            ("CNI_IFNAME", attachment.ifname.as_str().into()),
            ("CNI_NETNS", netns.map(Into::into).unwrap_or_default()),
        ]);
        self
    }
}

/// Runs a delegate and returns its standard output.
///
/// # Errors
/// The delegate's error object; or if it could not be run, failed without an error object, or timed out.
pub(super) fn run(path: &Path, call: &DelegateCall<'_>, budget: &Budget) -> Result<Vec<u8>, Error> {
    let failed = |operation, source| crate::Error::Delegate { operation, program: path.to_owned(), source };
    let deadline = budget.until("the IPAM plugin", timeout(call.operation));
    let mut child = spawn(path, call, &deadline).map_err(|e| failed("run", e))?;
    let (status, printed) = feed(&mut child, call, path, &deadline)?.map_err(|e| failed("talk to", e))?;
    if status.success() { Ok(printed) } else { Err(refusal(path, status, &printed)) }
}

fn spawn(path: &Path, call: &DelegateCall<'_>, deadline: &Deadline<'_>) -> io::Result<Child> {
    loop {
        let spawned = Command::new(path)
            .env("CNI_COMMAND", call.operation.as_str())
            .envs(call.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn();
        match spawned {
            // The file is open for writing: a new version is being installed.
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

/// Writes the configuration, reads the output and waits for the exit, until a deadline.
fn feed(
    child: &mut Child,
    call: &DelegateCall<'_>,
    path: &Path,
    deadline: &Deadline<'_>,
) -> Result<DelegateOutput, Error> {
    let (input, output, stdin) = (child.stdin.take(), child.stdout.take(), call.stdin.to_vec());
    // The threads are not joined: a process that the delegate has started may keep the pipes open.
    thread::spawn(move || {
        // A delegate need not read its configuration.
        let _ = input.map(|mut input| input.write_all(&stdin));
    });
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || read_all(output, &sender));
    let mut printed = Vec::new();
    let mut open = true;
    loop {
        // Wait for the end of the output; the exit follows at once.
        let delay = if open { Duration::from_millis(20) } else { Duration::from_micros(500) };
        match receiver.recv_timeout(delay) {
            Ok(part) => printed.extend(part),
            Err(mpsc::RecvTimeoutError::Disconnected) if open => open = false,
            Err(mpsc::RecvTimeoutError::Disconnected) => thread::sleep(delay),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
        match child.try_wait() {
            Ok(Some(status)) => {
                // The rest of the output may still arrive, but a child of the delegate may keep the pipe open for ever.
                while let Ok(part) = receiver.recv_timeout(Duration::from_millis(500)) {
                    printed.extend(part);
                }
                return Ok(Ok((status, printed)));
            }
            Ok(None) if !deadline.has_passed() => {}
            Ok(None) => break,
            Err(error) => return Ok(Err(error)),
        }
    }
    kill_group(child);
    let (verb, waited) = (call.operation.as_str(), seconds(deadline.waited()));
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

/// Kills a delegate and the processes that it has started.
fn kill_group(child: &mut Child) {
    if let Ok(group) = i32::try_from(child.id()) {
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
    let _ = child.kill().and_then(|()| child.wait());
}

/// Parses the error object of a delegate that failed.
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

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn the_error_object_of_a_delegate_is_passed_on_and_anything_else_is_quoted() {
        let refused =
            |printed: &str| refusal(Path::new("/cni/ipam"), ExitStatus::from_raw(256), printed.as_bytes());
        let error = refused(r#"{"cniVersion": "1.0.0", "code": 11, "msg": "no", "details": "later"}"#);
        assert_eq!((error.code.0, error.msg.as_str(), error.details.as_str()), (11, "no", "later"));
        let bare = refused(r#"{"code": 4294967295}"#);
        assert_eq!((bare.code.0, bare.msg.as_str(), bare.details.as_str()), (u32::MAX, "", ""));
        for printed in [
            "",
            "panic",
            r#"{"msg": "no"}"#,
            r#"{"code": "7"}"#,
            r#"{"code": -1}"#,
            r#"{"code": 4294967296}"#,
        ] {
            let error = refused(printed);
            assert!(error.msg.starts_with("/cni/ipam failed"), "{printed}: {error:?}");
            assert!(error.details.contains(&format!("{printed:?}")), "{error:?}");
        }
    }
}
