//! A double of Multus, which is in no package registry: the CNI plugin that the Kubernetes nodes of `hack/kube` call. It adds the
//! network `cluster` of its configuration, or that of the pod's annotation `v1.multus-cni.io/default-network`, as `eth0`, then
//! those of `k8s.v1.cni.cncf.io/networks` as `net1`, `net2` and so on, from their NetworkAttachmentDefinitions, with the devices
//! that the kubelet has allocated as `deviceID`.
//!
//! Unlike Multus it reads the devices from the kubelet's checkpoint only, and implements no capabilities.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "it is only used in tests, which see its panics in the runtime's log"
)]

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use serde_json::{Value, json};
use silkrail_tests::api_client::ApiClient;

const KUBE: &str = "/run/kube";

const DEVICES: &str = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint";

/// The error of CNI that is written to standard output.
struct Failed(String);

fn main() -> ExitCode {
    let mut configuration = String::new();
    io::stdin().read_to_string(&mut configuration).unwrap();
    let attachments = Path::new(KUBE).join("multus");
    let file = attachments.join(env::var("CNI_CONTAINERID").unwrap_or_default() + ".json");
    let done = match env::var("CNI_COMMAND").unwrap().as_str() {
        "ADD" => {
            fs::create_dir_all(attachments).unwrap();
            add_all(&file, &serde_json::from_str(&configuration).unwrap())
        }
        "DEL" => {
            del_all(&file);
            Ok(String::new())
        }
        "VERSION" => {
            Ok(json!({"cniVersion": "1.0.0", "supportedVersions": ["0.3.1", "0.4.0", "1.0.0"]}).to_string())
        }
        _ => Ok(String::new()),
    };
    let (Ok(text) | Err(Failed(text))) = &done;
    println!("{text}");
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Adds all networks of a pod, which it writes to the file, and returns the result of the first.
fn add_all(file: &Path, configuration: &Value) -> Result<String, Failed> {
    let networks = networks(configuration).ok_or_else(|| {
        let message = "the API server has no such pod or network, or the kubelet has allocated no device";
        Failed(json!({"cniVersion": "1.0.0", "code": 11, "msg": message}).to_string())
    })?;
    fs::write(file, json!(networks).to_string()).unwrap();
    let mut results = Vec::new();
    for network in &networks {
        results.push(chain_add(network).inspect_err(|_| del_all(file))?);
    }
    Ok(results.swap_remove(0))
}

/// Deletes what the file has, the last network first. Errors are ignored, and there is no second DEL: tests look at what plugins
/// have left.
fn del_all(file: &Path) {
    let Ok(text) = fs::read_to_string(file) else { return };
    let networks: Vec<Value> = serde_json::from_str(&text).unwrap();
    for network in networks.iter().rev() {
        for plugin in plugins(&network["network"]).iter().rev() {
            if let Err(Failed(error)) = call("DEL", network, plugin, None) {
                let _ = writeln!(io::stderr(), "{error}");
            }
        }
    }
    // The runtime may call DEL twice at once.
    let _ = fs::remove_file(file);
}

/// Returns a list of `{ifname, device, network}`, the cluster network first.
fn networks(configuration: &Value) -> Option<Vec<Value>> {
    let arguments = arguments();
    let (api, namespace) =
        (ApiClient::new(&PathBuf::from(KUBE).join("kubeconfig")), arguments["K8S_POD_NAMESPACE"].as_str());
    let pod = api.get("pods", namespace, &arguments["K8S_POD_NAME"])?;
    let annotation = |key: &str| pod["metadata"]["annotations"][key].as_str().unwrap_or_default();
    let mut used = BTreeMap::new();
    let mut network = |ifname: &str, name: &str| {
        let (namespace, name) = name.split_once('/').unwrap_or((namespace, name));
        let definition = api.get("network-attachment-definitions", namespace, name)?;
        let resource = &definition["metadata"]["annotations"]["k8s.v1.cni.cncf.io/resourceName"];
        let mut device = Value::Null;
        if let Some(resource) = resource.as_str() {
            // Each use of a resource gets the next of its devices.
            let number = used.entry(resource.to_owned()).or_insert(0);
            device = allocated(&arguments["K8S_POD_UID"], resource).into_iter().nth(*number)?.into();
            *number += 1;
        }
        let network: Value = serde_json::from_str(definition["spec"]["config"].as_str()?).ok()?;
        Some(json!({"ifname": ifname, "device": device, "network": network}))
    };
    let mut all = vec![match annotation("v1.multus-cni.io/default-network") {
        "" => json!({"ifname": "eth0", "network": configuration["cluster"]}),
        name => network("eth0", name)?,
    }];
    let names =
        annotation("k8s.v1.cni.cncf.io/networks").split(',').map(str::trim).filter(|name| !name.is_empty());
    for (number, name) in (1..).zip(names) {
        all.push(network(&format!("net{number}"), name)?);
    }
    Some(all)
}

/// Returns the key-value pairs of `CNI_ARGS`.
fn arguments() -> BTreeMap<String, String> {
    let text = env::var("CNI_ARGS").unwrap();
    text.split(';')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.into(), value.into()))
        .collect()
}

/// Returns the devices of a resource that the kubelet has allocated to a pod, sorted.
fn allocated(pod: &str, resource: &str) -> Vec<String> {
    let checkpoint: Value = serde_json::from_slice(&fs::read(DEVICES).unwrap()).unwrap();
    let entries = checkpoint["Data"]["PodDeviceEntries"].as_array().unwrap().iter();
    let of_pod = entries.filter(|entry| entry["PodUID"] == pod && entry["ResourceName"] == resource);
    // Lists, one for each NUMA node.
    let lists = of_pod.flat_map(|entry| entry["DeviceIDs"].as_object().unwrap().values());
    let ids = lists.flat_map(|list| list.as_array().unwrap());
    let mut ids: Vec<_> = ids.map(|id| id.as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

fn chain_add(network: &Value) -> Result<String, Failed> {
    let mut result = None;
    for plugin in plugins(&network["network"]) {
        result = Some(call("ADD", network, &plugin, result)?);
    }
    Ok(result.unwrap())
}

/// Returns the configurations of the plugins of a network, which is a list of plugins or one plugin.
fn plugins(network: &Value) -> Vec<Value> {
    let mut plugins = network["plugins"].as_array().cloned().unwrap_or_else(|| vec![network.clone()]);
    for plugin in &mut plugins {
        for key in ["name", "cniVersion"] {
            plugin[key] = network[key].clone();
        }
    }
    plugins
}

fn call(command: &str, network: &Value, plugin: &Value, previous: Option<String>) -> Result<String, Failed> {
    let mut input = plugin.clone();
    if let Some(result) = previous {
        input["prevResult"] = serde_json::from_str(&result).unwrap();
    }
    if network["device"].is_string() {
        for key in ["deviceID", "pciBusID"] {
            input[key] = network["device"].clone();
        }
    }
    let mut process = Command::new(Path::new(KUBE).join("cni/bin").join(plugin["type"].as_str().unwrap()));
    process.env("CNI_COMMAND", command).env("CNI_IFNAME", network["ifname"].as_str().unwrap());
    let mut process = process.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    process.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    if output.status.success() { Ok(text) } else { Err(Failed(text)) }
}
