//! The protocol: the result of every plugin for an environment and a configuration.
//!
//! Numbered cases are the same for every plugin; a failure names the plugin.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "what a failing test was about")]

mod configuration;
mod environment;
mod golden;
mod hostile;
mod ifacer;
mod infiniband;
mod netns;
mod plugin_pages;
mod types;
mod verbs;

use std::{fs, path::Path};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Answer, Binaries, Call};

use silkrail_tests::machine::has_vf;

/// Every plugin whose protocol is tested.
const PLUGINS: [&str; 8] =
    ["macvlan", "ipvlan", "ipoib", "sriov", "ib-sriov", "rdma", "ifacer", "silkrail-ipam"];

/// Those that print their versions when `CNI_COMMAND` is not set; for the others that is an error.
const WITH_ABOUT: [&str; 4] = ["macvlan", "ipvlan", "ipoib", "silkrail-ipam"];

/// Every version, oldest first.
const VERSIONS: [&str; 7] = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

/// The plugins, and a directory for their state.
struct ProtocolFixture {
    binaries: Binaries,
    state: TempDir,
}

impl ProtocolFixture {
    fn new() -> Self {
        Self { binaries: Binaries::find(), state: testkit::state_dir() }
    }

    /// A valid call: environment and configuration.
    fn call(&self, plugin: &str) -> Call {
        Call::new(&self.binaries, plugin).state_dir(self.state.path()).conf(&valid(plugin))
    }

    /// A valid call of each plugin. Output of a failing test ends with the name of the plugin it was about.
    fn each(&self) -> impl Iterator<Item = (&'static str, Call)> {
        PLUGINS.into_iter().map(|plugin| {
            println!("plugin: {plugin}");
            (plugin, self.call(plugin))
        })
    }

    /// Whether no plugin has left a file.
    fn is_untouched(&self) -> bool {
        is_empty(self.state.path())
    }
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().next().is_none()
}

/// A valid configuration. Its parent is `lo`, which every node has.
fn valid(plugin: &str) -> Value {
    let pool = json!({"name": "rail", "subnet": "10.7.0.0/24", "ips": ["10.7.0.10-10.7.0.20"]});
    json!({
        "cniVersion": "1.1.0",
        "name": "rail",
        "type": plugin,
        "master": "lo",
        "interfaces": ["lo"],
        "ipam": {"type": "silkrail-ipam", "pools": [pool]},
    })
}

/// Checks by the result of STATUS that the whole configuration was accepted.
fn assert_understood(plugin: &str, answer: &Answer) {
    // rdma needs no key, but a node with RDMA; sriov and ib-sriov check for VFs last; ipoib refuses the Ethernet link.
    if plugin == "rdma" && !Path::new("/sys/class/infiniband").exists() {
        answer.error(50).says(&["this node has no RDMA"]);
    } else if plugin == "ipoib" {
        answer.error(50).says(&["not of type ipoib"]);
    } else if plugin.ends_with("sriov") && !has_vf() {
        answer.error(50).says(&["no VF exists on this node"]);
    } else {
        answer.done();
    }
}

/// The valid configuration with one key changed.
fn with(plugin: &str, key: &str, value: Value) -> Value {
    let mut conf = valid(plugin);
    conf[key] = value;
    conf
}
