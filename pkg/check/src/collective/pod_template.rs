//! The pods of a job: workers with GPUs and RDMA devices, and a launcher without either.

use serde_json::{Map, Value, json};

use super::{CollectiveLibrary, CollectivePlan, job_options::JobOptions};

/// The label of all pods of a job.
pub(super) const LABEL: &str = "silkrail-check";

/// Returns the template of a worker with this command; `None` for that of the operator.
pub(super) fn worker(plan: &CollectivePlan, options: &JobOptions, command: Option<Value>) -> Value {
    let name = options.name.as_str();
    let mut container = json!({
        "name": "worker",
        "image": options.image.as_str(),
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
        "resources": {"limits": limits(plan, options)},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    });
    if let Some(command) = command {
        container["command"] = command;
    }
    let mut template = json!({
        "metadata": {"labels": {LABEL: name}},
        "spec": {
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {LABEL: name}},
            }]}},
            "containers": [container],
            "volumes": [{
                "name": "shm",
                "emptyDir": {"medium": "Memory", "sizeLimit": format!("{}Gi", options.shared_memory_gib)},
            }],
        },
    });
    if !options.networks.is_empty() {
        let networks: Vec<&str> = options.networks.iter().map(|network| network.as_str()).collect();
        template["metadata"]["annotations"] = json!({"k8s.v1.cni.cncf.io/networks": networks.join(",")});
    }
    template
}

/// Returns the template of the launcher with this command.
pub(super) fn launcher(options: &JobOptions, command: &Value) -> Value {
    json!({"spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "launcher", "image": options.image.as_str(), "command": command}],
    }})
}

/// Returns the metadata of an object.
pub(super) fn metadata(options: &JobOptions, name: &str) -> Value {
    let mut metadata = json!({"name": name});
    if let Some(namespace) = &options.namespace {
        metadata["namespace"] = namespace.as_str().into();
    }
    metadata
}

fn limits(plan: &CollectivePlan, options: &JobOptions) -> Value {
    let default = match plan.library {
        CollectiveLibrary::Nccl => "nvidia.com/gpu",
        CollectiveLibrary::Hccl => "huawei.com/Ascend910",
    };
    let accelerator = options.accelerator.as_ref();
    let mut limits = Map::new();
    let name = accelerator.map_or(default, |resource| &resource.name);
    limits.insert(name.to_owned(), plan.per_node.into());
    for resource in &options.rdma {
        limits.insert(resource.name.clone(), resource.amount.into());
    }
    limits.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{manifest::tests::options, plan::tests::plan};

    #[test]
    fn another_accelerator_has_as_many_devices_as_there_are_processes() {
        let mut all = options("mpijob");
        all.accelerator = "amd.com/gpu=3".parse().ok();
        all.rdma.push("rdma/hca=4".parse().unwrap());
        (all.networks, all.namespace) = (Vec::new(), None);
        let worker = worker(&plan(CollectiveLibrary::Nccl), &all, None);
        let limits = &worker["spec"]["containers"][0]["resources"]["limits"];
        assert_eq!(*limits, json!({"amd.com/gpu": 8, "rdma/hca": 4, "spidernet.io/mellanoxrdma": 2}));
        assert!(worker["metadata"]["annotations"].is_null(), "the default network has RDMA");
        assert_eq!(metadata(&all, "nccl-1"), json!({"name": "nccl-1"}));
    }
}
