//! One call of another plugin's executable.

use std::{
    env,
    ffi::OsString,
    io::{self, Read, Write},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use addr::Attachment;
use cni::{Code, Common, Error, Verb};
use serde_json::Value;

/// How long a delegate may take. A `dhcp` server may be slow; runtimes give a call about two minutes.
const PATIENCE: Duration = Duration::from_secs(100);

/// How long an executable that is being replaced is tried again.
const BUSY: Duration = Duration::from_secs(6);

/// What a delegate is called with.
pub(super) struct Call<'a> {
    verb: Verb,
    stdin: &'a [u8],
    environment: Vec<(&'static str, OsString)>,
}

impl<'a> Call<'a> {
    /// A call with the configuration exactly as we received it, and the environment we were called with.
    pub(super) fn new(verb: Verb, common: &Common<'a>) -> Self {
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
pub(super) fn run(path: &Path, call: &Call<'_>) -> Result<Vec<u8>, Error> {
    let failed = |what: &str, e: io::Error| Error::new(Code::IO, format!("{what} {}: {e}", path.display()));
    let mut child = spawn(path, call).map_err(|e| failed("run", e))?;
    let (status, printed) = feed(&mut child, call.stdin, path)?.map_err(|e| failed("talk to", e))?;
    if status.success() { Ok(printed) } else { Err(refusal(path, status, &printed)) }
}

fn spawn(path: &Path, call: &Call<'_>) -> io::Result<Child> {
    let started = Instant::now();
    loop {
        let spawned = Command::new(path)
            .env("CNI_COMMAND", call.verb.as_str())
            .envs(call.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        match spawned {
            // The file is open for writing: somebody is installing a new version.
            Err(e) if e.kind() == io::ErrorKind::ExecutableFileBusy && started.elapsed() < BUSY => {
                thread::sleep(Duration::from_millis(50));
            }
            spawned => return spawned,
        }
    }
}

type Printed = io::Result<(ExitStatus, Vec<u8>)>;

/// Writes the configuration, reads the answer and waits for the end; all of it ends at a deadline.
fn feed(child: &mut Child, stdin: &[u8], path: &Path) -> Result<Printed, Error> {
    let (input, output, stdin) = (child.stdin.take(), child.stdout.take(), stdin.to_vec());
    let (done, answer) = mpsc::channel();
    // At the deadline nobody waits for these threads: what the delegate has started may hold the pipes open.
    thread::spawn(move || {
        // A delegate that does not read its configuration is not ours to judge.
        let _ = input.map(|mut input| input.write_all(&stdin));
    });
    thread::spawn(move || {
        let mut printed = Vec::new();
        let read = output.map_or(Ok(0), |mut output| output.read_to_end(&mut printed));
        let _ = done.send(read.map(|_| printed));
    });
    match answer.recv_timeout(PATIENCE) {
        Ok(printed) => Ok(printed.and_then(|printed| Ok((child.wait()?, printed)))),
        Err(_) => {
            let _ = child.kill().and_then(|()| child.wait());
            let msg = format!("{} did not answer within {PATIENCE:?} and was ended", path.display());
            Err(Error::new(Code::TRY_AGAIN, msg))
        }
    }
}

/// The error object a failing delegate printed, with its code.
fn refusal(path: &Path, status: ExitStatus, printed: &[u8]) -> Error {
    let object: Option<Value> = serde_json::from_slice(printed).ok();
    let code =
        object.as_ref().and_then(|o| o.get("code")?.as_u64()).and_then(|code| u32::try_from(code).ok());
    let (Some(object), Some(code)) = (object, code) else {
        let msg = format!("{} failed ({status}) without an error object", path.display());
        return Error::new(Code::INTERNAL, msg)
            .with_details(format!("it printed {:?}", String::from_utf8_lossy(printed)));
    };
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    Error::new(Code(code), text("msg")).with_details(text("details"))
}
