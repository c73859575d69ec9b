//! A call of a plugin, as a container runtime makes it.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{Answer, Binaries, TestPod};

/// The limit of a call: no plugin waits for ever.
const LIMIT: Duration = Duration::from_secs(60);

/// A call of a plugin: the environment and the configuration. It can be made any number of times.
#[derive(Debug, Clone)]
pub struct Call {
    executable: PathBuf,
    /// The program, with its first arguments, that runs the executable.
    runner: Vec<OsString>,
    environment: BTreeMap<OsString, OsString>,
    stdin: Vec<u8>,
    state_dir: Option<PathBuf>,
    killed_after: Option<Duration>,
}

impl Call {
    /// Returns a call of a plugin with a valid environment, a pod that does not exist, and no configuration.
    pub fn new(binaries: &Binaries, plugin: &str) -> Self {
        let call = Self {
            executable: binaries.dir().join(plugin),
            runner: Vec::new(),
            environment: BTreeMap::new(),
            stdin: Vec::new(),
            state_dir: None,
            killed_after: None,
        };
        call.env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("CNI_CONTAINERID", "c0ffee")
            .env("CNI_NETNS", "/nonexistent/netns")
            .env("CNI_IFNAME", "net1")
            .env("CNI_PATH", binaries.dir())
    }

    /// Adds a `stateDir` to configurations without one.
    #[must_use]
    pub fn state_dir(self, dir: &Path) -> Self {
        Self { state_dir: Some(dir.to_owned()), ..self }
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.insert(name.into(), value.as_ref().into());
        self
    }

    /// Returns an environment variable; empty if it is not set.
    pub fn var(&self, name: &str) -> String {
        self.environment
            .get(OsStr::new(name))
            .map(|value| value.to_string_lossy().into_owned())
            .unwrap_or_default()
    }

    /// Removes an environment variable.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.environment.remove(OsStr::new(name));
        self
    }

    /// Sets `CNI_NETNS` to the path of a pod.
    #[must_use]
    pub fn pod(self, pod: &TestPod) -> Self {
        self.env("CNI_NETNS", pod.path())
    }

    /// Sets `CNI_CONTAINERID`.
    #[must_use]
    pub fn container(self, id: &str) -> Self {
        self.env("CNI_CONTAINERID", id)
    }

    /// Sets `CNI_IFNAME`.
    #[must_use]
    pub fn ifname(self, name: &str) -> Self {
        self.env("CNI_IFNAME", name)
    }

    /// Sets `CNI_ARGS`.
    #[must_use]
    pub fn args(self, args: &str) -> Self {
        self.env("CNI_ARGS", args)
    }

    /// Adds a directory at the start of `CNI_PATH`.
    #[must_use]
    pub fn delegates_in(self, dir: &Path) -> Self {
        let others = self.environment.get(OsStr::new("CNI_PATH")).cloned().unwrap_or_default();
        let path = [dir.as_os_str(), &others].join(OsStr::new(":"));
        self.env("CNI_PATH", path)
    }

    /// Sets the configuration. An object without `stateDir` gets the node's.
    ///
    /// # Panics
    /// Never: a JSON value can be serialized.
    #[must_use]
    pub fn conf(self, conf: &Value) -> Self {
        let mut conf = conf.clone();
        if let (Value::Object(object), Some(dir)) = (&mut conf, &self.state_dir) {
            object.entry("stateDir").or_insert_with(|| dir.display().to_string().into());
        }
        self.stdin(serde_json::to_vec(&conf).unwrap())
    }

    /// Sets the bytes of the configuration.
    #[must_use]
    pub fn stdin(self, stdin: impl Into<Vec<u8>>) -> Self {
        Self { stdin: stdin.into(), ..self }
    }

    /// Returns the bytes of the configuration.
    pub fn sent(&self) -> &[u8] {
        &self.stdin
    }

    /// Uses another build of the plugins.
    #[must_use]
    pub fn of_build(self, binaries: &Binaries) -> Self {
        self.from_dir(binaries.dir())
    }

    /// Uses the plugins of a directory, and no others.
    ///
    /// # Panics
    /// Never: the executable has a name.
    #[must_use]
    pub fn from_dir(mut self, dir: &Path) -> Self {
        self.executable = dir.join(self.executable.file_name().unwrap());
        self.env("CNI_PATH", dir)
    }

    /// Runs the plugin by another program, such as `strace`, given by its name and first arguments.
    #[must_use]
    pub fn under(self, runner: &[impl AsRef<OsStr>]) -> Self {
        Self { runner: runner.iter().map(|part| part.as_ref().to_owned()).collect(), ..self }
    }

    /// Makes an ADD or DEL fail (`error:N`), or kills it (`kill:N`), at the N-th step of its journal.
    #[must_use]
    pub fn fault(self, fault: &str) -> Self {
        self.env("SILKRAIL_FAULT", fault)
    }

    /// Kills the plugin after a time, if it has not ended by then.
    #[must_use]
    pub fn killed_after(self, time: Duration) -> Self {
        Self { killed_after: Some(time), ..self }
    }

    /// Calls ADD.
    pub fn add(&self) -> Answer {
        self.verb("ADD")
    }

    /// Calls DEL.
    pub fn del(&self) -> Answer {
        self.verb("DEL")
    }

    /// Calls CHECK.
    pub fn check(&self) -> Answer {
        self.verb("CHECK")
    }

    /// Calls CHECK with the result of the ADD as `prevResult`.
    ///
    /// # Panics
    /// If the configuration is not JSON.
    pub fn check_after(&self, result: &Value) -> Answer {
        self.with("prevResult", result).check()
    }

    /// Returns the same call with a key of the configuration set.
    ///
    /// # Panics
    /// If the configuration is not JSON.
    #[must_use]
    pub fn with(&self, key: &str, value: &Value) -> Self {
        let mut conf: Value = serde_json::from_slice(&self.stdin).unwrap();
        conf[key] = value.clone();
        self.clone().conf(&conf)
    }

    /// Calls GC.
    pub fn gc(&self) -> Answer {
        self.verb("GC")
    }

    /// Calls STATUS.
    pub fn status(&self) -> Answer {
        self.verb("STATUS")
    }

    /// Calls the plugin with any `CNI_COMMAND`.
    pub fn verb(&self, command: &str) -> Answer {
        self.clone().env("CNI_COMMAND", command).call()
    }

    /// Runs the plugin with the current environment of the call.
    ///
    /// # Panics
    /// If it does not end within a minute.
    pub fn call(&self) -> Answer {
        let mut words = self.runner.iter().map(OsString::as_os_str).chain([self.executable.as_os_str()]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).env_clear().envs(&self.environment);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let stdin = self.stdin.clone();
        let mut input = child.stdin.take().unwrap();
        // A plugin need not read all of it, so errors are ignored.
        let feeder = thread::spawn(move || drop(input.write_all(&stdin)));
        let (stdout, stderr) = (read(child.stdout.take().unwrap()), read(child.stderr.take().unwrap()));
        let status = wait(&mut child, self.killed_after);
        feeder.join().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Answer { status, stdout: text(stdout.join().unwrap()), stderr: text(stderr.join().unwrap()) }
    }
}

fn read(mut from: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

fn wait(child: &mut Child, killed_after: Option<Duration>) -> ExitStatus {
    let started = Instant::now();
    loop {
        if killed_after.is_some_and(|time| started.elapsed() >= time) {
            child.kill().unwrap();
        }
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if started.elapsed() > LIMIT {
            let _ = child.kill();
            panic!("the plugin did not end within {LIMIT:?}");
        }
        thread::sleep(Duration::from_micros(500));
    }
}
