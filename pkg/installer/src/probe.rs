//! Runs an executable to determine what it is.

use std::{
    io::{self, ErrorKind, Read, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::ReleaseVersion;

/// Timeout of a run, which normally takes milliseconds.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// Upper limit of the output that is read.
const MAX_OUTPUT_BYTES: u64 = 1 << 16;

/// Returns the name and the release that a program prints for `--version`.
///
/// # Errors
/// If it cannot be run, fails, or prints something else.
pub(crate) fn version(path: &Path) -> Result<(String, ReleaseVersion), String> {
    let mut command = Command::new(path);
    command.arg("--version");
    let text = run(command, "")?;
    let mut words = text.lines().next().unwrap_or_default().split(' ');
    match (words.next(), words.next()) {
        (Some(name), Some(release)) => Ok((name.to_owned(), ReleaseVersion::new(release))),
        _ => Err(format!("--version prints {text:?}, expected a name and a release")),
    }
}

/// Checks that the file of the CNI plugins serves the plugin of this name: it must reply to CNI's VERSION.
///
/// # Errors
/// If it cannot be run, fails, or prints something else.
pub(crate) fn serves(path: &Path, plugin: &str) -> Result<(), String> {
    let mut command = Command::new(path);
    command.arg0(plugin).env("CNI_COMMAND", "VERSION");
    let text = run(command, r#"{"cniVersion":"1.0.0"}"#)?;
    let reply: serde_json::Value =
        serde_json::from_str(&text).map_err(|e| format!("{plugin} replies to VERSION with {text:?}: {e}"))?;
    let supported = reply["supportedVersions"].as_array().is_some_and(|versions| !versions.is_empty());
    supported.then_some(()).ok_or_else(|| format!("{plugin} replies to VERSION with {text:?}"))
}

/// Runs a program with no other environment variables than those of `command`, and returns its output.
fn run(mut command: Command, input: &str) -> Result<String, String> {
    // `env_clear` would also remove the variables of `command`.
    let set: Vec<_> =
        command.get_envs().map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned))).collect();
    command.env_clear().envs(set.into_iter().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let deadline = Instant::now() + PROBE_TIMEOUT;
    let mut child = spawn(&mut command, deadline).map_err(|e| format!("it cannot be executed: {e}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input.as_bytes()); // a program need not read its input
    }
    let status = wait(&mut child, deadline)?;
    let mut text = String::new();
    let read = child.stdout.take().map(|out| out.take(MAX_OUTPUT_BYTES).read_to_string(&mut text));
    match read {
        _ if !status.success() => Err(format!("it failed with {status}")),
        Some(Ok(_)) => Ok(text),
        _ => Err("its output is not UTF-8".into()),
    }
}

/// Starts a program; retries on `ETXTBSY`, since another thread's child may have inherited the file open for writing.
fn spawn(command: &mut Command, deadline: Instant) -> io::Result<Child> {
    loop {
        match command.spawn() {
            Err(e) if e.kind() == ErrorKind::ExecutableFileBusy && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(1));
            }
            done => return done,
        }
    }
}

fn wait(child: &mut Child, deadline: Instant) -> Result<std::process::ExitStatus, String> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(1)),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("timed out after {} s", PROBE_TIMEOUT.as_secs()));
            }
            Err(e) => return Err(format!("failed to wait for it: {e}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_programs::script;

    #[test]
    fn the_name_and_the_release_are_returned() {
        let (_dir, path) = script("echo silkrail-cni 1.2.3; echo A CNI plugin");
        assert_eq!(version(&path), Ok(("silkrail-cni".into(), ReleaseVersion::new("1.2.3"))));
    }

    #[test]
    fn a_failure_or_another_output_is_an_error() {
        for (text, why) in
            [("echo a 1; exit 3", "exit status: 3"), ("true", "prints \"\""), ("kill -9 $$", "signal: 9")]
        {
            let (_dir, path) = script(text);
            let error = version(&path).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        let error = version(Path::new("/nonexistent")).unwrap_err();
        assert!(error.starts_with("it cannot be executed: "), "{error}");
    }

    #[test]
    fn a_plugin_answers_version() {
        let (_dir, path) =
            script(r#"test "$CNI_COMMAND" = VERSION && echo '{"supportedVersions":["1.0.0"]}'"#);
        assert_eq!(serves(&path, "macvlan"), Ok(()));
        let (_dir, path) = script("echo '{}'");
        assert!(serves(&path, "macvlan").unwrap_err().contains("macvlan replies to VERSION with \"{}"));
    }
}
