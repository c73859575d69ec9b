//! The Kubernetes node of `hack/kube`.

use std::{
    env, fs,
    path::PathBuf,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{api_client::ApiClient, conf, daemon::Daemon};

/// The time that the scheduler, the kubelet and the runtime need for pods on all VFs. The lab's processor is emulated.
const POD_TIMEOUT: Duration = Duration::from_secs(600);

/// The node. Tests that use it run one after another.
#[derive(Debug)]
pub struct Kubernetes {
    directory: PathBuf,
    /// The API, with the rights of an administrator.
    pub api: ApiClient,
}

impl Kubernetes {
    /// Returns the node on which this test runs, without pods of a test that has failed.
    ///
    /// # Panics
    /// If it runs elsewhere.
    pub fn here() -> Self {
        let directory = env::var_os("KUBE_DIR").expect("these tests need a node: run hack/test kube");
        let directory = PathBuf::from(directory);
        let api = ApiClient::new(&directory.join("kubeconfig"));
        let node = Self { directory, api };
        node.clean();
        node
    }

    /// Runs kubectl and returns its output.
    ///
    /// # Panics
    /// If it fails.
    pub fn kubectl(&self, args: &[&str]) -> String {
        let output = Command::new("kubectl").args(args).output().unwrap();
        assert!(output.status.success(), "kubectl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Creates or changes the objects of a text in YAML or JSON.
    ///
    /// # Panics
    /// If the API server refuses one.
    pub fn apply(&self, objects: &str) {
        yaml::documents(objects).unwrap().iter().for_each(|object: &Value| self.api.apply(object));
    }

    /// Creates or changes the objects of a file of `conf`.
    pub fn apply_file(&self, name: &str) {
        self.apply(&conf::text(name));
    }

    /// Returns an object of the namespace `default`, or one that has no namespace.
    ///
    /// # Panics
    /// If there is none.
    pub fn get(&self, resource: &str, name: &str) -> Value {
        let found = self.api.get(resource, "default", name);
        found.unwrap_or_else(|| panic!("there is no {name} in {resource}"))
    }

    /// Deletes all pods and the namespace `silkrail`, and waits until nothing is left of them. The programs of that namespace end at
    /// SIGTERM. Its pods are removed when they have ended: the kubelet takes a minute to report it.
    pub fn clean(&self) {
        self.api.delete_all("daemonsets", "default");
        for resource in ["daemonsets", "deployments"] {
            self.api.delete_all(resource, "silkrail");
        }
        self.delete_pods();
        let ended = || is_empty("/run/containerd/io.containerd.runtime.v2.task/k8s.io");
        wait("all containers have ended", ended, || self.log("containerd"));
        self.remove_pods("silkrail");
        self.api.delete("namespaces", "", "silkrail");
        let gone = || self.api.get("namespaces", "", "silkrail").is_none();
        wait("the namespace is gone", gone, || self.log("controller-manager"));
    }

    fn remove_pods(&self, namespace: &str) {
        self.api.list_in(namespace, "pods").iter().for_each(|pod| self.api.remove_at_once("pods", pod));
    }

    /// Waits until all pods of an object in the namespace `silkrail` are ready and have its present template.
    ///
    /// # Panics
    /// If they are not within the timeout.
    pub fn wait_for_rollout(&self, resource: &str, name: &str) {
        let object = || self.api.get(resource, "silkrail", name).unwrap();
        let is_complete = || {
            let object = object();
            let status = |key: &str| object["status"][key].as_u64().unwrap_or_default();
            let counts = match resource {
                "daemonsets" | "DaemonSet" => {
                    ["desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable"]
                }
                _ => ["replicas", "updatedReplicas", "availableReplicas"],
            };
            let [wanted, updated, available] = counts.map(status);
            let is_seen = object["metadata"]["generation"].as_u64() == Some(status("observedGeneration"));
            is_seen && wanted > 0 && updated == wanted && available == wanted
        };
        wait(&format!("{name} is ready"), is_complete, || format!("{:#}\n{}", object(), self.log("kubelet")));
    }

    /// Returns what the node has of a resource, and what can be allocated of it.
    fn resource(&self, name: &str) -> (u32, u32) {
        let node = self.get("nodes", &env::var("KUBE_NODE").unwrap());
        let number = |of: &str| {
            let number = node["status"][of][name].as_str().map(|number| number.parse().unwrap());
            number.unwrap_or_default()
        };
        (number("capacity"), number("allocatable"))
    }

    /// Returns an object with a patch, as kustomize merges them: the kustomize of this version's kubectl has no components.
    ///
    /// # Panics
    /// If they cannot be merged.
    pub fn merged(&self, object: &Value, patch: &Value) -> Value {
        let file = self.directory.join("object.json");
        fs::write(&file, object.to_string()).unwrap();
        let (file, patch) = (file.to_str().unwrap(), patch.to_string());
        let args =
            ["patch", "--local", "--filename", file, "--type=strategic", "--output=json", "--patch", &patch];
        serde_json::from_str(&self.kubectl(&args)).unwrap()
    }

    /// Waits until the node has this capacity of a resource, and this much of it is allocatable.
    ///
    /// # Panics
    /// If it does not within the timeout.
    pub fn wait_for_resource(&self, name: &str, capacity: u32, allocatable: u32) {
        let what = format!("the node has {capacity} of {name}, {allocatable} of them allocatable");
        let why = || format!("it has {:?}\n{}", self.resource(name), self.log("kubelet"));
        wait(&what, || self.resource(name) == (capacity, allocatable), why);
    }

    /// Waits until all pods run.
    ///
    /// # Panics
    /// With the state of the pods, if they do not within the timeout.
    pub fn wait_for_pods(&self, number: usize) {
        let running = || {
            let pods = self.pods();
            let phases: Vec<_> = pods.iter().map(|pod| pod["status"]["phase"].as_str().unwrap()).collect();
            // A pod that the kubelet refused never runs.
            assert!(!phases.contains(&"Failed"), "{pods:#?}");
            phases.iter().filter(|phase| **phase == "Running").count() == number
        };
        let why = || format!("{}\n{}", self.kubectl(&["describe", "pods"]), self.log("kubelet"));
        wait(&format!("{number} pods run"), running, why);
    }

    /// Waits until a pod was refused by the kubelet, and returns why.
    ///
    /// # Panics
    /// If it was not within the timeout.
    pub fn wait_for_refusal(&self, pod: &str) -> String {
        let refused = || self.get("pods", pod)["status"]["phase"] == "Failed";
        wait("the pod is refused", refused, || self.log("kubelet"));
        self.get("pods", pod)["status"]["message"].as_str().unwrap().to_owned()
    }

    /// Waits until the container of a pod cannot be created, and returns why.
    ///
    /// # Panics
    /// If it can, or the kubelet does not try within the timeout.
    pub fn wait_for_container_error(&self, pod: &str) -> String {
        let mut message = String::new();
        let failed = || {
            let status = &self.get("pods", pod)["status"];
            // A pod that the kubelet refused has no containers.
            assert_ne!(status["phase"], "Failed", "{status:#}");
            let waiting = &status["containerStatuses"][0]["state"]["waiting"];
            message = waiting["message"].as_str().unwrap_or_default().to_owned();
            waiting["reason"].as_str().is_some_and(|reason| reason != "ContainerCreating")
        };
        wait("the container cannot be created", failed, || self.log("kubelet"));
        message
    }

    /// Returns the pods of the default namespace.
    pub fn pods(&self) -> Vec<Value> {
        self.api.list_in("default", "pods")
    }

    /// Ends the container of a pod, and waits until the kubelet has started it again. Its main process must end at SIGTERM.
    ///
    /// # Panics
    /// If the kubelet does not.
    pub fn restart_container(&self, pod: &str) {
        let status = || self.get("pods", pod)["status"]["containerStatuses"][0].clone();
        let before = status()["restartCount"].as_u64().unwrap();
        let bundle = format!("/run/containerd/io.containerd.runtime.v2.task/k8s.io/{}", container(&status()));
        let process = fs::read_to_string(format!("{bundle}/init.pid")).unwrap();
        assert!(Command::new("kill").arg(process.trim()).status().unwrap().success());
        let restarted = || {
            let now = status();
            now["restartCount"].as_u64().unwrap() > before && !now["state"]["running"].is_null()
        };
        wait("the container is started again", restarted, || self.log("kubelet"));
    }

    /// Runs a shell command in the container of a pod.
    pub fn exec(&self, pod: &str, command: &str) -> String {
        run_in(&self.get("pods", pod), &["sh", "-c", command])
    }

    /// Runs a program in the container of the only pod in the namespace `silkrail`.
    ///
    /// # Panics
    /// If there is none or there are more, or the program fails.
    pub fn exec_in_silkrail(&self, command: &[&str]) -> String {
        let pods = self.api.list_in("silkrail", "pods");
        let [pod] = &pods[..] else { panic!("{pods:#?}") };
        run_in(pod, command)
    }

    /// Deletes all pods, and waits until nothing is left of them.
    pub fn delete_pods(&self) {
        self.remove_pods("default");
        let gone = || {
            self.pods().is_empty()
                && is_empty("/run/netns")
                && is_empty(&format!("{}/multus", self.directory.display()))
        };
        wait("the sandboxes of the pods are gone", gone, || self.log("containerd"));
    }

    /// Kills the kubelet and starts it again.
    ///
    /// # Panics
    /// If it does not end.
    pub fn restart_kubelet(&self) {
        let process = fs::read_to_string(self.directory.join("kubelet.pid")).unwrap();
        assert!(Command::new("kill").arg(process.trim()).status().unwrap().success());
        let ended = || !fs::exists(format!("/proc/{}", process.trim())).unwrap();
        wait("the kubelet has ended", ended, || self.log("kubelet"));
        assert!(Command::new(self.directory.join("start-kubelet")).status().unwrap().success());
    }

    /// Waits until work has made the kubelet choose a device, for which it calls GetPreferredAllocation and Allocate. Meanwhile it
    /// takes no other state of devices.
    ///
    /// # Panics
    /// If it does not.
    pub fn wait_for_allocation(&self, work: impl FnOnce()) {
        // pkg/kubelet/cm/devicemanager/manager.go: devicesToAllocate, which holds the mutex.
        let begun = || whole_log("kubelet").matches("Needs to allocate ").count();
        let before = begun();
        work();
        wait("the kubelet chooses a device", || begun() > before, || self.log("kubelet"));
    }

    /// Returns the end of the log of a program of the node.
    pub fn log(&self, program: &str) -> String {
        let log = whole_log(program);
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

fn whole_log(program: &str) -> String {
    let logs = PathBuf::from(env::var_os("KUBE_LOGS").unwrap());
    String::from_utf8_lossy(&fs::read(logs.join(program).with_extension("log")).unwrap()).into_owned()
}

fn is_empty(directory: &str) -> bool {
    fs::read_dir(directory).map_or(true, |mut entries| entries.next().is_none())
}

/// Runs a program in the first container of a pod as its runtime does, with its user, cgroup and environment. `kubectl exec` would
/// take seconds in the lab.
fn run_in(pod: &Value, command: &[&str]) -> String {
    let id = container(&pod["status"]["containerStatuses"][0]);
    let mut runc = Command::new("runc");
    let output =
        runc.args(["--root", "/run/containerd/runc/k8s.io", "exec", &id]).args(command).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the ID of a container from its status.
fn container(status: &Value) -> String {
    status["containerID"].as_str().unwrap().replace("containerd://", "")
}

/// Waits until a daemon has been asked by the kubelet for its devices this often since it was started.
///
/// # Panics
/// If it is not.
pub fn wait_for_watches(daemon: &Daemon, number: usize) {
    let watches = || daemon.log().matches("the kubelet watches the devices").count() >= number;
    wait("the kubelet watches the devices", watches, || daemon.log());
}

/// Returns a pod that sleeps, with these annotations, limits and container settings.
pub fn pod(name: &str, annotations: &Value, limits: &Value, container: &Value) -> Value {
    let mut own = json!({
        "name": "main", "image": "localhost/busybox:1",
        "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done"],
        "resources": {"limits": limits},
    });
    own.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false, "dnsPolicy": "Default",
            "containers": [own],
        },
    })
}

/// Returns the names that `ls /dev/infiniband` printed, without the connection manager's device, which exists if its module is
/// loaded.
pub fn without_rdma_cm(listed: &str) -> Vec<&str> {
    listed.split_whitespace().filter(|name| *name != "rdma_cm").collect()
}

/// Waits for a state of the cluster; panics with `why` if it does not come about.
fn wait(what: &str, mut is: impl FnMut() -> bool, why: impl Fn() -> String) {
    let deadline = Instant::now() + POD_TIMEOUT;
    while !is() {
        assert!(Instant::now() < deadline, "timed out after {POD_TIMEOUT:?}: {what}\n{}", why());
        thread::sleep(Duration::from_millis(200));
    }
}
