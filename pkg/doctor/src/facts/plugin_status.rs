//! STATUS of a CNI plugin: whether it would attach a pod now. The plugin knows what it needs better than any rule.

use std::{
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use cni_networks::NetworkPlugin;
use serde::Serialize;
use serde_json::{Map, Value};

/// What a plugin reports about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum PluginStatus {
    /// It would attach a pod.
    Ready,
    /// It would refuse, with the message and the details of its error.
    Refused { message: String, details: String },
}

/// A call of a plugin's STATUS.
#[derive(Debug)]
pub(crate) struct StatusCall<'a> {
    pub(crate) program: &'a Path,
    /// The directories in which the plugin searches its IPAM plugin.
    pub(crate) search_path: &'a [PathBuf],
    /// The namespace of the pods that it is about: the plugin then applies the policy of the node.
    pub(crate) pod_namespace: Option<&'a str>,
}

/// The timeout of a call. An IPAM plugin may ask its agent.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The delay between two looks whether a plugin has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// A limit for the answer, which is an error object.
const MAX_OUTPUT_BYTES: u64 = 64 << 10;
/// The first version of the specification that has STATUS.
const STATUS_VERSION: &str = "1.1.0";

impl StatusCall<'_> {
    /// Calls the plugin with a configuration.
    ///
    /// # Errors
    /// Why it could not be called.
    pub(crate) fn run(&self, plugin: &NetworkPlugin) -> Result<PluginStatus, String> {
        let mut config = plugin.config.clone();
        // Nothing is to be written to the network's log. A value that the plugin refuses is kept.
        if plugin.text("logFile").is_some_and(|file| file.starts_with('/')) {
            config.retain(|key, _| !key.eq_ignore_ascii_case("logFile"));
        }
        match self.call(&config)? {
            // A configuration of an older version has no STATUS, and is used for ADD.
            Some(error) if is_too_old(&error) => {
                let version = config.insert("cniVersion".into(), STATUS_VERSION.into());
                let version = version.as_ref().and_then(Value::as_str).filter(|text| !text.is_empty());
                let answer = self.call(&config)?;
                let answer = answer.filter(|error| !ipam_plugin_supports(error, version.unwrap_or("0.1.0")));
                Ok(PluginStatus::of(answer))
            }
            answer => Ok(PluginStatus::of(answer)),
        }
    }

    /// Returns the error object; `None` if the plugin succeeded.
    fn call(&self, config: &Map<String, Value>) -> Result<Option<Value>, String> {
        let failed = |error: io::Error| error.to_string();
        let search_path = std::env::join_paths(self.search_path).map_err(|error| error.to_string())?;
        let mut child = Command::new(self.program)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("CNI_COMMAND", "STATUS")
            .env("CNI_PATH", search_path)
            .envs(
                self.pod_namespace
                    .map(|name| ("CNI_ARGS", format!("IgnoreUnknown=1;K8S_POD_NAMESPACE={name}"))),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let config = serde_json::to_vec(config).map_err(|error| error.to_string())?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        // Two threads, so that a plugin that neither reads nor writes cannot block.
        let _writer = thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(&config)));
        let reader = thread::spawn(move || {
            let mut text = Vec::new();
            let read = stdout.map(|stdout| stdout.take(MAX_OUTPUT_BYTES).read_to_end(&mut text));
            read.transpose().map(|_| text)
        });
        let is_success = wait(&mut child)?;
        if is_success {
            return Ok(None);
        }
        let text = reader.join().map_err(|_| "its answer could not be read")?.map_err(failed)?;
        match serde_json::from_slice::<Value>(&text) {
            Ok(error) if error["msg"].is_string() => Ok(Some(error)),
            _ => Err("it failed without an error object".into()),
        }
    }
}

/// Waits for the end of a process, and returns whether it succeeded. After the timeout it is killed.
fn wait(child: &mut Child) -> Result<bool, String> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status.success()),
            Ok(None) if Instant::now() < deadline => thread::sleep(POLL_INTERVAL),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it did not end within {} s", TIMEOUT.as_secs()));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn is_too_old(error: &Value) -> bool {
    error["code"] == 1 && error["msg"] == "config version does not allow STATUS"
}

/// Whether a refusal is that of an IPAM plugin without STATUS, which supports the version of the network. The plugin asks it last.
fn ipam_plugin_supports(error: &Value, version: &str) -> bool {
    let supported = error["msg"].as_str().and_then(|msg| {
        msg.split_once(&format!("does not support cniVersion {STATUS_VERSION} of the network, only "))
    });
    supported.is_some_and(|(_, listed)| listed.split(", ").any(|listed| listed == version))
}

impl PluginStatus {
    fn of(error: Option<Value>) -> Self {
        let Some(error) = error else { return Self::Ready };
        let text = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
        Self::Refused { message: text("msg"), details: text("details") }
    }
}
