//! The device plugin, on a node whose card is made of files. Real devices are in the lab (`tests/tests/lab/device_plugin.rs`).

use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
    path::PathBuf,
    time::{Duration, SystemTime},
};

use silkrail_tests::{conf, daemon, daemon::Daemon, kubelet::KubeletDouble};
use testkit::wait_until;

use crate::DaemonFixture;

const FIRST: &str = "0000:af:00.2";
const SECOND: &str = "0000:af:00.3";

const RESOURCES: &str = r#"{"resourceList": [
    {"resourceName": "vf", "resourcePrefix": "silkrail.io", "selectors": {"vendors": ["15b3"], "isRdma": true}}
  ], "configList": [{"resourceName": "hca", "rdmaHcaMax": 100, "selectors": {"ifNames": ["p0"]}}]}"#;

/// A node with a card that has two VFs.
struct Card {
    node: DaemonFixture,
    file: PathBuf,
}

impl Card {
    fn new() -> Self {
        let node = DaemonFixture::new();
        let file = node.0.path().join("resources.json");
        let card = Self { node, file };
        card.function("0000:af:00.0", "uverbs0");
        card.write("0000:af:00.0/net/p0/dev_port", "0\n");
        card.write("0000:af:00.0/sriov_numvfs", "2\n");
        card.vf(0, FIRST, "uverbs1");
        card.vf(1, SECOND, "uverbs2");
        card.resources(RESOURCES);
        card
    }

    fn resources(&self, text: &str) {
        fs::write(&self.file, text).unwrap();
    }

    fn path(&self, path: &str) -> PathBuf {
        self.node.0.path().join("sys/devices/pci0000:ae/0000:ae:00.0").join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn function(&self, pci: &str, verbs: &str) {
        for (name, text) in [("class", "0x020000\n"), ("vendor", "0x15b3\n"), ("device", "0x101d\n")] {
            self.write(&format!("{pci}/{name}"), text);
        }
        self.write(&format!("{pci}/numa_node"), "0\n");
        self.write(&format!("{pci}/infiniband_verbs/{verbs}/ibdev"), "mlx5\n");
        self.give_back(pci);
        let root = self.node.0.path();
        let driver = root.join("sys/bus/pci/drivers/mlx5_core");
        fs::create_dir_all(&driver).unwrap();
        symlink(driver, self.path(pci).join("driver")).unwrap();
        let devices = root.join("sys/bus/pci/devices");
        fs::create_dir_all(&devices).unwrap();
        symlink(self.path(pci), devices.join(pci)).unwrap();
        fs::create_dir_all(root.join("sys/class/misc/rdma_cm")).unwrap();
    }

    fn vf(&self, index: u32, pci: &str, verbs: &str) {
        self.function(pci, verbs);
        symlink(self.path(pci), self.path("0000:af:00.0").join(format!("virtfn{index}"))).unwrap();
        symlink(self.path("0000:af:00.0"), self.path(pci).join("physfn")).unwrap();
    }

    /// Moves the RDMA device of a function to another network namespace.
    fn give_away(&self, pci: &str) {
        fs::remove_dir_all(self.path(pci).join("infiniband")).unwrap();
    }

    fn give_back(&self, pci: &str) {
        fs::create_dir_all(self.path(pci).join("infiniband").join(format!("rdma{}", &pci[11..]))).unwrap();
    }

    /// Starts silkraild. It sees changes of these files when the pod map changes: there are no events of them.
    fn serve(&self, kubelet: &KubeletDouble) -> Daemon {
        self.node.serve(&kubelet.options(&self.file))
    }

    fn notify(&self) {
        let pod_map = self.node.0.path().join("podmap/v1");
        fs::create_dir_all(&pod_map).unwrap();
        let file = pod_map.join("event");
        if fs::remove_file(&file).is_err() {
            fs::write(&file, "").unwrap();
        }
    }
}

/// The nodes on the host: `--root` is only where silkraild reads the devices.
fn nodes(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("/dev/infiniband/{name}")).collect()
}

#[test]
fn the_kubelet_gets_the_devices_and_containers_their_nodes() {
    let (card, mut kubelet) = (Card::new(), KubeletDouble::start());
    let daemon = card.serve(&kubelet);
    let resources = kubelet.resources(2);
    let names: Vec<_> = resources.keys().map(String::as_str).collect();
    assert_eq!(names, ["rdma/hca", "silkrail.io/vf"]);
    let (vf, hca) = (&resources["silkrail.io/vf"], &resources["rdma/hca"]);
    wait_until("the VFs are listed", || vf.healthy() == [FIRST, SECOND]);
    wait_until("the slots are listed", || hca.healthy().len() == 100);
    let given = |answer: kubelet_api::deviceplugin::ContainerAllocateResponse| {
        answer.devices.into_iter().map(|device| device.host_path).collect::<Vec<_>>()
    };
    assert_eq!(given(vf.allocate(&[SECOND]).unwrap()), nodes(&["uverbs2", "rdma_cm"]));
    assert_eq!(given(hca.allocate(&["7"]).unwrap()), nodes(&["uverbs0", "rdma_cm"]));
    vf.pre_start(&[SECOND]).unwrap();
    assert_eq!(vf.preferred(&[FIRST, SECOND], 1).unwrap(), [FIRST]);
    let error = vf.allocate(&["0000:af:00.9"]).unwrap_err();
    assert_eq!(error, "silkrail.io/vf: 0000:af:00.9 does not exist on this node");
    assert_eq!(daemon.terminate().0, Some(0));
    assert_eq!(kubelet.files(), ["kubelet.sock"], "its sockets are deleted");
}

#[test]
fn a_kubelet_that_restarts_gets_the_resources_again() {
    let (card, mut kubelet) = (Card::new(), KubeletDouble::start());
    let _daemon = card.serve(&kubelet);
    kubelet.resources(2);
    for _ in 0..3 {
        kubelet.restart();
        let resources = kubelet.resources(2);
        wait_until("the VFs are listed", || resources["silkrail.io/vf"].healthy().len() == 2);
    }
}

#[test]
fn a_killed_process_is_replaced_by_the_next_one() {
    let (card, mut kubelet) = (Card::new(), KubeletDouble::start());
    let daemon = card.serve(&kubelet);
    kubelet.resources(2);
    drop(daemon); // by SIGKILL
    assert_eq!(kubelet.files().len(), 3, "its sockets are still there");
    let _daemon = card.serve(&kubelet);
    let resources = kubelet.resources(2);
    wait_until("the VFs are listed", || resources["silkrail.io/vf"].healthy().len() == 2);
    resources["silkrail.io/vf"].allocate(&[FIRST]).unwrap();
}

#[test]
fn a_vf_in_another_namespace_is_not_free_unless_its_pod_has_it() {
    let (card, mut kubelet) = (Card::new(), KubeletDouble::start());
    kubelet.checkpoint("silkrail.io/vf", &[("uid-of-pod", SECOND)]);
    let daemon = card.serve(&kubelet);
    let resources = kubelet.resources(2);
    let vf = &resources["silkrail.io/vf"];
    wait_until("the VFs are listed", || vf.healthy() == [FIRST, SECOND]);
    card.give_away(FIRST);
    card.give_away(SECOND);
    card.notify();
    wait_until("the VF that is not allocated is unhealthy", || vf.healthy() == [SECOND]);
    let log = daemon.wait_for_log("another network namespace has it");
    assert!(log.contains(&format!("device=\"{FIRST}\"")), "{log}");
    card.give_back(FIRST);
    card.notify();
    wait_until("the VF has returned", || vf.healthy() == [FIRST, SECOND]);
    assert_eq!(vf.number_of_lists(), 3, "no list without a change");
}

#[test]
fn the_health_of_devices_is_in_the_metrics() {
    let (card, mut kubelet) = (Card::new(), KubeletDouble::start());
    let daemon = card.serve(&kubelet);
    let resources = kubelet.resources(2);
    let vf = &resources["silkrail.io/vf"];
    wait_until("the VFs are listed", || vf.healthy() == [FIRST, SECOND]);
    let number = |resource: &str, health: &str| {
        let scrape = daemon.scrape_after(SystemTime::now());
        scrape.number("rdma_device_plugin_devices", &[("resource", resource), ("health", health)])
    };
    wait_until("the metrics have the VFs", || number("silkrail.io/vf", "healthy") == 2.0);
    assert_eq!(number("silkrail.io/vf", "unhealthy"), 0.0);
    // The kubelet has not allocated it to the pod that has it.
    kubelet.checkpoint("silkrail.io/vf", &[]);
    card.give_away(SECOND);
    card.notify();
    wait_until("the VF is unhealthy", || vf.healthy() == [FIRST]);
    // The kubelet knows it a moment before.
    wait_until("the metrics have it", || number("silkrail.io/vf", "unhealthy") == 1.0);
    assert_eq!(number("silkrail.io/vf", "healthy"), 1.0);
    let scrape = daemon.scrape_after(SystemTime::now());
    let labels = [("resource", "silkrail.io/vf"), ("id", SECOND), ("reason", "in_use")];
    assert_eq!(scrape.value("rdma_device_plugin_device_unhealthy", &labels), "1");
    assert_eq!(scrape.of("rdma_device_plugin_device_unhealthy", &[]).len(), 1);
}

#[test]
fn what_is_wrong_in_the_file_is_reported_and_the_rest_is_offered() {
    let (card, mut kubelet) = (Card::new(), KubeletDouble::start());
    card.resources(
        "resourceList:\n- resourceName: vf\n  selectors: {vendors: [15b3]}\n- resourceName: none\n  selectors: {vendors: [8086]}\n\
         - resourceName: a b\n  selectors: {}\n- resourceName: vf\n  selectors: {}\n",
    );
    let daemon = card.serve(&kubelet);
    let resources = kubelet.resources(2);
    let vf = &resources["intel.com/vf"];
    wait_until("the VFs are listed", || vf.healthy().len() == 2);
    let file = card.file.display().to_string();
    for part in [
        file.as_str(),
        "line 6",
        "a b",
        "line 8",
        "no device of the node matches its selectors",
        "intel.com/none",
    ] {
        daemon.wait_for_log(part);
    }
}

#[test]
fn the_example_has_no_invalid_key() {
    let (card, mut kubelet) = (Card::new(), KubeletDouble::start());
    card.resources(&conf::text("silkraild-device-plugin/resources.yaml"));
    let daemon = card.serve(&kubelet);
    let names: Vec<_> = kubelet.resources(2).into_keys().collect();
    assert_eq!(names, ["rdma/hca_shared_devices_a", "spidernet.io/mellanoxrdma"]);
    let log = daemon.log();
    assert!(!log.contains("line "), "{log}");
}

#[test]
fn a_file_that_is_no_configuration_is_an_error_at_start() {
    let card = Card::new();
    card.resources("resourceList: [");
    let kubelet = KubeletDouble::start();
    let options = [&card.node.options()[..], &kubelet.options(&card.file), &["--node-name", "lab"]].concat();
    let output = daemon::run(&options);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(&format!("{}: line ", card.file.display())), "{stderr}");
}

#[test]
fn a_kubelet_that_is_not_there_is_waited_for() {
    let (card, mut kubelet) = (Card::new(), KubeletDouble::start());
    fs::remove_file(kubelet.directory().join("kubelet.sock")).unwrap();
    let daemon = card.serve(&kubelet);
    daemon.wait_for_log("waiting for the kubelet");
    // A kubelet that was killed leaves its socket. What has changed is logged, and not again for each attempt.
    drop(UnixListener::bind(kubelet.directory().join("kubelet.sock")).unwrap());
    let number = || daemon.log().matches("not registered").count();
    wait_until("it tells why neither resource is registered", || number() >= 2);
    std::thread::sleep(Duration::from_secs(1)); // several attempts
    assert_eq!(number(), 2, "{}", daemon.log());
    kubelet.restart();
    kubelet.resources(2);
}
