//! The calls of Multus without Kubernetes: a list of delegates, each with the environment and configuration that Multus and
//! libcni pass.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use testkit::{Answer, Call, TestNode, TestPod};

/// One delegate: a network for an interface of the pod.
#[derive(Debug, Clone)]
pub struct Delegate {
    /// The configuration list of the network.
    pub network: Value,
    /// The name of the interface: `CNI_IFNAME` of the runtime for the first one, else `net1` and so on.
    pub ifname: &'static str,
    /// The device that the device plugin has allocated to the pod.
    pub device: Option<String>,
    /// The values of the capabilities, which each plugin gets if it declares them.
    pub runtime: Value,
}

/// A pod and its delegates.
#[derive(Debug)]
pub struct MultusPod<'a> {
    /// The node.
    pub node: &'a TestNode,
    /// The pod's namespace.
    pub pod: &'a TestPod,
    /// The delegates, the cluster network first.
    pub delegates: Vec<Delegate>,
}

/// Whether DEL gets the configuration of the ADD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DelInput {
    /// It does, as since Multus pull request 1521.
    Whole,
    /// Only the keys that the types of libcni have, as from Multus before that.
    Stripped,
}

impl MultusPod<'_> {
    /// Adds all networks, and returns their results.
    ///
    /// # Errors
    /// The failed call. The delegates so far are deleted then, including the failed one; their errors are ignored.
    pub fn add(&self, input: DelInput) -> Result<Vec<Value>, Box<Answer>> {
        let mut results = Vec::new();
        for (number, delegate) in self.delegates.iter().enumerate() {
            match self.add_delegate(number, delegate) {
                Ok(result) => results.push(result),
                Err(failed) => {
                    for earlier in (0..=number).rev() {
                        self.del_delegate(earlier, &self.delegates[earlier], input);
                    }
                    return Err(failed);
                }
            }
        }
        Ok(results)
    }

    fn add_delegate(&self, number: usize, delegate: &Delegate) -> Result<Value, Box<Answer>> {
        let mut result = Value::Null;
        for plugin in plugins(&delegate.network) {
            let mut conf = whole(number, delegate, plugin);
            if !result.is_null() {
                conf["prevResult"] = result;
            }
            let answer = self.call(delegate, plugin, &conf).add();
            if !answer.status.success() {
                return Err(Box::new(answer));
            }
            result = answer.ok();
        }
        Ok(result)
    }

    /// Deletes all networks, the last one first, and the plugins of each in reverse. Returns the calls that failed.
    pub fn del(&self, input: DelInput) -> Vec<Answer> {
        let delegates = self.delegates.iter().enumerate().rev();
        delegates.flat_map(|(number, delegate)| self.del_delegate(number, delegate, input)).collect()
    }

    fn del_delegate(&self, number: usize, delegate: &Delegate, input: DelInput) -> Vec<Answer> {
        let mut failed = Vec::new();
        for plugin in plugins(&delegate.network).iter().rev() {
            let conf = match input {
                DelInput::Whole => whole(number, delegate, plugin),
                DelInput::Stripped => stripped(delegate, plugin),
            };
            let answer = self.call(delegate, plugin, &conf).del();
            if !answer.status.success() {
                failed.push(answer);
                break; // libcni stops at the first failure.
            }
        }
        failed
    }

    /// The state directory is the default one: a stripped configuration has no `stateDir`.
    fn call(&self, delegate: &Delegate, plugin: &Value, conf: &Value) -> Call {
        let call = self.node.plugin(plugin["type"].as_str().unwrap()).stdin(conf.to_string());
        call.pod(self.pod).container("sandbox").ifname(delegate.ifname).args(
            "IgnoreUnknown=true;K8S_POD_NAMESPACE=team-a;K8S_POD_NAME=job-0;K8S_POD_INFRA_CONTAINER_ID=sandbox;\
             K8S_POD_UID=5d3f;IgnoreUnknown=1;K8S_POD_NAMESPACE=team-a;K8S_POD_NAME=job-0",
        )
    }
}

fn plugins(network: &Value) -> &[Value] {
    network["plugins"].as_array().unwrap()
}

/// The configuration of a plugin as libcni and Multus complete it.
fn whole(number: usize, delegate: &Delegate, plugin: &Value) -> Value {
    let mut conf = plugin.clone();
    for key in ["name", "cniVersion"] {
        conf[key] = delegate.network[key].clone();
    }
    if let Some(device) = &delegate.device {
        (conf["deviceID"], conf["pciBusID"]) = (json!(device), json!(device));
    }
    let mut runtime = delegate.runtime.clone();
    if let Some(runtime) = runtime.as_object_mut() {
        runtime.retain(|capability, _| plugin["capabilities"][capability] == true);
    }
    // The cluster network gets the runtime configuration of the runtime, which has none of these.
    if number > 0 && runtime != json!({}) {
        conf["runtimeConfig"] = runtime;
    }
    conf
}

fn stripped(delegate: &Delegate, plugin: &Value) -> Value {
    let mut conf = json!({
        "cniVersion": delegate.network["cniVersion"], "name": delegate.network["name"], "type": plugin["type"], "dns": {},
        "ipam": {}
    });
    if plugin["capabilities"].is_object() {
        conf["capabilities"] = plugin["capabilities"].clone();
    }
    if plugin["ipam"]["type"].is_string() {
        conf["ipam"]["type"] = plugin["ipam"]["type"].clone();
    }
    conf
}

/// Returns the files below the default state directory that belong to attachments.
///
/// # Panics
/// If a directory cannot be read.
pub fn state_files() -> Vec<String> {
    let state = Path::new("/run/silkrail");
    let claims = entries(&state.join("ipam")).into_iter().map(|boot| boot.join("claims"));
    let attachments = ["attachments", "vf", "rdma", "podmap/v1"].map(|name| state.join(name));
    let found = claims.chain(attachments).flat_map(|directory| entries(&directory));
    found.map(|path| path.display().to_string()).collect()
}

/// The entries of a directory; none if there is no directory.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path()).collect()
}
