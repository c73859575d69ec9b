//! The manifests of `conf`, on a node: silkraild as a DaemonSet with the device plugin, the networks, and the example pods.

use std::fs;

use serde_json::{Value, json};
use silkrail_tests::{conf, kubernetes::Kubernetes, machine::LabMachine, multus::state_files};

const COMPONENT: &str = "silkraild-device-plugin";
const POOLS: &str = "/etc/silkrail/pools.d";

/// The node with silkraild and its device plugin, as `conf/silkraild` with the component. Only the selectors are those of the lab.
struct Deployment {
    kubernetes: Kubernetes,
}

impl Deployment {
    fn new(kubernetes: Kubernetes, resources: &Value) -> Self {
        let mut map = conf::object(&format!("{COMPONENT}/resources.yaml"), "ConfigMap");
        map["data"]["resources.yaml"] = resources.to_string().into();
        for mut object in conf::yaml("silkraild/daemonset.yaml") {
            if object["kind"] == "DaemonSet" {
                object = kubernetes
                    .merged(&object, &conf::object(&format!("{COMPONENT}/daemonset.yaml"), "DaemonSet"));
                let container = &mut object["spec"]["template"]["spec"]["containers"][0];
                // There is no registry, and this version has no appArmorProfile.
                container["imagePullPolicy"] = "Never".into();
                container["securityContext"].as_object_mut().unwrap().remove("appArmorProfile");
            }
            kubernetes.api.apply(&object);
        }
        kubernetes.api.apply(&map);
        kubernetes.wait_for_rollout("daemonsets", "silkraild");
        fs::create_dir_all(POOLS).unwrap();
        fs::copy(conf::path("pools/v4-81.yaml"), format!("{POOLS}/v4-81.yaml")).unwrap();
        Self { kubernetes }
    }

    /// Runs the example pod, and returns its name.
    fn run(&self, example: &str) -> String {
        self.kubernetes.apply_file(&format!("pods/{example}.yaml"));
        self.kubernetes.wait_for_pods(1);
        self.kubernetes.pods()[0]["metadata"]["name"].as_str().unwrap().to_owned()
    }

    fn told(&self, pod: &str) -> Value {
        let told: Value =
            serde_json::from_str(&self.kubernetes.exec(pod, "cat /run/silkrail/pod/rdma.json")).unwrap();
        assert_eq!(told["devices"].as_array().unwrap().len(), 1, "{told}");
        assert_eq!(
            (&told["devices"][0]["interface"], &told["devices"][0]["rail"]),
            (&json!("eth0"), &json!(1))
        );
        told["devices"][0].clone()
    }

    /// Returns what `silkrail` prints in the container of the daemon.
    fn silkrail(&self, args: &[&str]) -> String {
        self.kubernetes.exec_in_silkrail(&[&["/silkrail"], args].concat())
    }

    fn end(self) {
        self.kubernetes.clean();
        fs::remove_file(format!("{POOLS}/v4-81.yaml")).unwrap();
        assert_eq!(state_files(), [""; 0]);
    }
}

#[test]
fn the_exclusive_example_has_a_vf_of_the_daemon_set() {
    let (kubernetes, _machine) = (Kubernetes::here(), LabMachine::exclusive());
    let selectors = json!({"pfNames": ["eth1#0-6"], "isRdma": true});
    let resource =
        json!({"resourceName": "mellanoxrdma", "resourcePrefix": "spidernet.io", "selectors": selectors});
    let deployment =
        Deployment::new(kubernetes, &json!({"rails": {"eth0": 0, "eth1": 1}, "resourceList": [resource]}));
    let resource = "spidernet.io/mellanoxrdma";
    deployment.kubernetes.wait_for_resource(resource, 7, 7);
    deployment.kubernetes.apply_file("exclusive/sriov-rdma.nad.yaml");
    let pod = deployment.run("rdma-sriov");
    let device = deployment.told(&pod);
    let vf = device["pciAddress"].as_str().unwrap();
    let uverbs = deployment.kubernetes.exec(&pod, "ls /dev/infiniband");
    assert!(
        device["charDevices"][0].as_str().unwrap().ends_with(uverbs.split_whitespace().last().unwrap()),
        "{uverbs}"
    );
    let listed: Value = serde_json::from_str(&deployment.silkrail(&["devices", "--json"])).unwrap();
    let listed: Vec<_> =
        listed["devices"].as_array().unwrap().iter().filter(|it| it["holder"].is_string()).collect();
    let [listed] = listed[..] else { panic!("{listed:#?}") };
    assert_eq!((&listed["id"], &listed["unhealthy"], &listed["rail"]), (&json!(vf), &Value::Null, &json!(1)));
    assert_eq!(listed["allocatedTo"], json!([format!("default/{pod}")]));
    let file = format!("/run/k8s.cni.cncf.io/devinfo/dp/spidernet.io-mellanoxrdma-{vf}-device.json");
    let information: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(
        (&information["pci"]["pci-address"], &information["pci"]["rdma-device"]),
        (&json!(vf), &device["name"])
    );
    deployment.end();
    assert!(!fs::exists(file).unwrap(), "the daemon has ended");
}

#[test]
fn the_shared_example_uses_the_pf_of_the_daemon_set() {
    let (kubernetes, _machine) = (Kubernetes::here(), LabMachine::shared());
    let resource = json!({
        "resourceName": "hca_shared_devices", "resourcePrefix": "spidernet.io", "rdmaHcaMax": 100,
        "selectors": {"ifNames": ["eth1"]},
    });
    let deployment = Deployment::new(kubernetes, &json!({"rails": {"eth1": 1}, "configList": [resource]}));
    deployment.kubernetes.wait_for_resource("spidernet.io/hca_shared_devices", 100, 100);
    // The NIC of the example.
    deployment.kubernetes.apply(&conf::text("shared/macvlan.nad.yaml").replace("ens6f0np0", "eth1"));
    let pod = deployment.run("rdma-macvlan");
    let device = deployment.told(&pod);
    let gid = &device["gids"][0];
    assert!(gid["address"].as_str().unwrap().starts_with("172.81.0.1") && gid["index"].is_u64(), "{device}");
    assert_eq!(device["mode"], "shared");
    deployment.end();
}
