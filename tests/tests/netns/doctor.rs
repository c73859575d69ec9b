//! `silkrail doctor` about what an administrator configured: networks, pools, files, limits. Each fault is planted and cured on one
//! node, and reported alone. Faults of cards are in the lab and in a simulated tree: `tests/tests/lab/doctor.rs`, `tests/tests/command/doctor.rs`.

use std::{
    fs::{self, File},
    os::unix::{
        fs::{PermissionsExt, chown, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use silkrail_tests::{
    cli,
    rail::{RailNode, merged, pool, pool6},
};
use testkit::Observe;

/// A node whose doctor finds nothing wrong, except that the machine has no RDMA.
struct DoctorNode {
    rail: RailNode,
    baseline: Vec<String>,
    /// Whether what is found about the kernel counts: it is that of this machine, and can change between two examinations.
    with_kernel: bool,
    /// Starts the doctor, if it is not empty.
    prefix: &'static [&'static str],
}

const NETWORKS: &str = "/etc/cni/net.d";

impl DoctorNode {
    fn new() -> Self {
        let rail = RailNode::new();
        let run = |program: &str, args: &[&str]| drop(rail.node.run(program, args));
        // The node's own configuration, instead of the machine's.
        for directory in ["/etc", "/var/lib"] {
            run("mount", &["-t", "tmpfs", "-o", "mode=755", "tmpfs", directory]);
        }
        fs::create_dir_all(NETWORKS).unwrap();
        let state = rail.node.state_dir();
        fs::create_dir_all(&state).unwrap();
        // Process 1 is in the namespace of the node, so the doctor examines the node's links.
        let first = state.with_file_name("first");
        fs::create_dir_all(first.join("ns")).unwrap();
        File::create(first.join("mountinfo")).unwrap();
        symlink(fs::read_link("/proc/thread-self/ns/net").unwrap(), first.join("ns/net")).unwrap();
        run("mount", &["--bind", first.to_str().unwrap(), "/proc/1"]);
        let mut node = Self { rail, baseline: Vec::new(), with_kernel: false, prefix: &[] };
        node.baseline = node.found();
        node
    }

    fn report(&self, more: &[&str]) -> Value {
        let (state, plugins) = (self.rail.node.state_dir(), self.rail.node.cni_path());
        let args = format!(
            "doctor --json --state-dir {} --cni-bin {} {}",
            state.display(),
            plugins.display(),
            more.join(" ")
        );
        cli::silkrail_by(self.prefix, &args).json()
    }

    /// Returns `severity id object` of each error and warning.
    fn found(&self) -> Vec<String> {
        self.found_with(&[])
    }

    fn found_with(&self, more: &[&str]) -> Vec<String> {
        let report = self.report(more);
        let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
        let findings = report["findings"].as_array().unwrap().iter();
        let all =
            findings.map(|finding| ["severity", "id", "object"].map(|key| text(finding, key)).join(" "));
        all.filter(|finding| !finding.starts_with("info"))
            .filter(|finding| self.with_kernel || !finding.contains(" kernel-"))
            .collect()
    }

    /// Plants a fault, checks that exactly these findings are added, cures it, and checks that the doctor is as before.
    fn has(&self, expected: &[&str], plant: impl FnOnce(), cure: impl FnOnce()) {
        plant();
        let mut found = self.found();
        found.retain(|finding| !self.baseline.contains(finding));
        assert_eq!(found, expected);
        cure();
        assert_eq!(self.found(), self.baseline, "after the cure of {expected:?}");
    }

    /// Plants a file with a network.
    fn has_network(&self, expected: &str, network: &Value) {
        let file = format!("{NETWORKS}/20-rail.conflist");
        let expected = expected.replace("NETWORK", &format!("network rail ({file})"));
        let expected: Vec<_> = expected.lines().collect();
        self.has(&expected, || write(&file, network), || fs::remove_file(&file).unwrap());
    }
}

fn write(path: impl AsRef<Path>, text: &Value) {
    write_text(path, &text.to_string());
}

fn write_text(path: impl AsRef<Path>, text: &str) {
    fs::create_dir_all(path.as_ref().parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A network of these plugins.
fn network(plugins: &[Value]) -> Value {
    json!({"cniVersion": "1.0.0", "name": "rail", "plugins": plugins})
}

fn macvlan(more: &Value) -> Value {
    let ipam = json!({"type": "silkrail-ipam", "pools": [pool("rail", &["10.7.0.10-10.7.0.20"])]});
    merged(json!({"type": "macvlan", "master": "rail0", "ipam": ipam}), more)
}

fn chmod(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// An IPAM plugin without STATUS is no reason to report a network of a version without STATUS.
#[test]
fn the_version_of_an_ipam_plugin_is_compared_with_that_of_the_network() {
    let node = DoctorNode::new();
    let ipam = node.rail.node.cni_path().join("older");
    let script = r#"#!/bin/sh
if [ $CNI_COMMAND = VERSION ]; then echo '{"supportedVersions": ["0.4.0", "1.0.0"]}'; exit; fi
echo '{"code": 4, "msg": "unknown CNI_COMMAND: STATUS"}'
exit 1
"#;
    write_text(&ipam, script);
    fs::set_permissions(&ipam, fs::Permissions::from_mode(0o755)).unwrap();
    let of = |version: &str| {
        let plugin = json!({"type": "macvlan", "master": "rail0", "ipam": {"type": "older"}});
        merged(network(&[plugin]), &json!({"cniVersion": version}))
    };
    node.has_network("", &of("1.0.0"));
    node.has_network("error network-unusable NETWORK", &of("1.1.0"));
    fs::remove_file(ipam).unwrap();
}

#[test]
fn a_network_that_no_pod_could_be_attached_to_is_reported() {
    let node = DoctorNode::new();
    // Older versions than that of STATUS, too.
    for version in ["0.3.1", "1.0.0", "1.1.0"] {
        node.has_network("", &merged(network(&[macvlan(&json!({}))]), &json!({"cniVersion": version})));
    }
    let unusable = "error network-unusable NETWORK";
    node.has_network(unusable, &network(&[macvlan(&json!({"master": "rail9"}))]));
    node.has_network(unusable, &network(&[macvlan(&json!({"mtu": 9000}))]));
    node.has_network(unusable, &network(&[macvlan(&json!({"mode": "l2"}))]));
    node.has_network(unusable, &network(&[macvlan(&json!({"logFile": "relative"}))]));
    let log = node.rail.node.log_file("doctor.log");
    node.has_network("", &network(&[macvlan(&json!({"LOGFILE": log}))]));
    assert!(!log.exists(), "nothing is written to the network's log");
    node.has_network(unusable, &network(&[macvlan(&json!({"rdma": {"require": true}}))]));
    node.has_network(unusable, &merged(network(&[macvlan(&json!({}))]), &json!({"cniVersion": "9.0.0"})));
    node.has_network(unusable, &merged(network(&[macvlan(&json!({}))]), &json!({"cniVersion": "0.2.0x"})));
    let unknown = json!({"ipam": {"type": "silkrail-ipam", "default_ipv4_ippool": ["none"]}});
    node.has_network(unusable, &network(&[macvlan(&unknown)]));
    let of_others = merged(pool("rail", &["10.7.0.10"]), &json!({"nodeName": ["another"]}));
    node.has_network(
        unusable,
        &network(&[macvlan(&json!({"ipam": {"type": "silkrail-ipam", "pools": [of_others]}}))]),
    );
    let reversed =
        json!({"ipam": {"type": "silkrail-ipam", "pools": [pool("rail", &["10.7.0.20-10.7.0.10"])]}});
    node.has_network(unusable, &network(&[macvlan(&reversed)]));
    let agent = json!({"ipam": {"type": "silkrail-ipam", "store": "spiderpool"}});
    node.has_network(unusable, &network(&[macvlan(&agent)]));
    node.has_network(
        unusable,
        &network(&[json!({"type": "macvlan", "master": "rail0", "ipam": {"type": "other"}})]),
    );
    node.has_network(unusable, &network(&[json!({"type": "sriov", "vlan": 5000, "ipam": {}})]));
    node.has_network(unusable, &network(&[json!({"type": "ifacer", "interfaces": ["rail9"], "vlanID": 5})]));
    let missing = "error network-plugin-missing NETWORK";
    node.has_network(missing, &network(&[json!({"type": "macvlna", "master": "rail0"})]));
    // The message is the plugin's own, with its remedy.
    write(format!("{NETWORKS}/a.conflist"), &network(&[macvlan(&json!({"master": "rail9"}))]));
    let report = node.report(&["--only network-unusable"]);
    let summary = report["findings"][0]["summary"].as_str().unwrap();
    assert!(summary.contains("failed to lookup master \"rail9\""), "{summary}");
    let evidence = report["findings"][0]["evidence"][0].as_str().unwrap();
    assert!(evidence.contains("ip link"), "{evidence}");
}

#[test]
fn a_network_that_the_runtime_refuses_is_reported() {
    let node = DoctorNode::new();
    for (file, text) in [
        ("a.conflist", "{"),
        ("a.conf", "[]"),
        ("a.json", "{\"name\": \"rail\"}"),
        ("a.conflist", "{\"name\": \"rail\", \"plugins\": []}"),
    ] {
        let path = format!("{NETWORKS}/{file}");
        let expected = format!("error network-invalid {path}");
        node.has(&[&expected], || write_text(&path, text), || fs::remove_file(&path).unwrap());
    }
    // Files with other names are not read.
    write_text(format!("{NETWORKS}/a.conflist.bak"), "{");
    assert_eq!(node.found(), node.baseline);
    let files = ["10-a.conflist", "20-b.conflist"].map(|name| format!("{NETWORKS}/{name}"));
    node.has(
        &["error network-twice network rail"],
        || files.iter().for_each(|file| write(file, &network(&[macvlan(&json!({}))]))),
        || files.iter().for_each(|file| fs::remove_file(file).unwrap()),
    );
}

#[test]
fn the_first_file_of_a_kubernetes_node_is_the_clusters_network() {
    let node = DoctorNode::new();
    fs::create_dir_all("/var/lib/kubelet").unwrap();
    let before = node.found();
    let file = format!("{NETWORKS}/20-rail.conflist");
    write(&file, &network(&[macvlan(&json!({}))]));
    let mut found = node.found();
    found.retain(|finding| !before.contains(finding));
    assert_eq!(found, [format!("warning network-is-default network rail ({file})")]);
    write_text(node.rail.node.cni_path().join("bridge"), "");
    write_text(
        format!("{NETWORKS}/10-cluster.conf"),
        "{\"cniVersion\": \"1.0.0\", \"name\": \"cluster\", \"type\": \"bridge\"}",
    );
    assert_eq!(node.found(), before);
    fs::remove_file(node.rail.node.cni_path().join("bridge")).unwrap();
}

#[test]
fn a_master_without_a_connection_is_reported() {
    let node = DoctorNode::new();
    let ip = |args: &str| node.rail.node.run_ip(args);
    let file = format!("{NETWORKS}/20-rail.conflist");
    write(&file, &network(&[macvlan(&json!({}))]));
    assert_eq!(node.found(), node.baseline);
    node.has(&["warning master-down rail0"], || ip("link set rail0 down"), || ip("link set rail0 up"));
    node.has(
        &["error master-in-bridge rail0"],
        || {
            ip("link add br0 type bridge");
            ip("link set rail0 master br0");
        },
        || ip("link del br0"),
    );
    let other = format!("{NETWORKS}/30-other.conf");
    let ipvlan =
        merged(macvlan(&json!({})), &json!({"type": "ipvlan", "name": "other", "cniVersion": "1.0.0"}));
    node.has(&["error master-mixed rail0"], || write(&other, &ipvlan), || fs::remove_file(&other).unwrap());
}

#[test]
fn pools_that_overlap_or_contain_an_address_of_the_node_are_reported() {
    let node = DoctorNode::new();
    let file = "/etc/silkrail/pools.d/pools.yaml";
    let object = |name: &str, spec: Value| {
        json!({"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": name}, "spec": spec})
            .to_string()
    };
    let pools = |all: &[(&str, Value)]| {
        let text: Vec<_> = all.iter().map(|(name, spec)| object(name, spec.clone())).collect();
        write_text(file, &text.join("\n---\n"));
    };
    let remove = || fs::remove_file(file).unwrap();
    let spec = |ips: &str| json!({"subnet": "10.7.0.0/24", "ips": [ips]});
    let overlap = [("a", spec("10.7.0.10-10.7.0.20")), ("b", spec("10.7.0.20-10.7.0.30"))];
    node.has(&["warning pools-overlap a, b"], || pools(&overlap), remove);
    let disabled =
        [overlap[0].clone(), ("b", merged(spec("10.7.0.20-10.7.0.30"), &json!({"disable": true})))];
    node.has(&[], || pools(&disabled), remove);
    node.rail.node.run_ip("address add 10.7.0.15/24 dev rail0");
    node.has(&["error pools-node-address a"], || pools(&overlap[..1]), remove);
    // A pool of a network's own configuration, too.
    node.has_network("error pools-node-address rail", &network(&[macvlan(&json!({}))]));
    node.rail.node.run_ip("address del 10.7.0.15/24 dev rail0");
    node.has(
        &["error pools-broken /etc/silkrail/pools.d/pools.yaml"],
        || write_text(file, "kind: SpiderIPPool\n"),
        remove,
    );
}

#[test]
fn a_pool_with_few_free_addresses_is_reported() {
    let node = DoctorNode::new();
    let (mut given, all) = (Vec::new(), json!({"pools": [pool("rail", &["10.7.0.10-10.7.0.21"])]}));
    let add = |id: &str| {
        let call = node.rail.ipam(&all).container(id);
        call.add().ok();
        call
    };
    (0..10).for_each(|number| given.push(add(&format!("c{number}"))));
    assert!(!node.found().iter().any(|finding| finding.contains("pools")), "{:?}", node.found());
    given.push(add("c10"));
    let pools = |found: Vec<String>| {
        found.into_iter().filter(|finding| finding.contains("pools")).collect::<Vec<_>>()
    };
    assert_eq!(pools(node.found()), ["warning pools-nearly-full rail"]);
    given.push(add("c11"));
    assert_eq!(pools(node.found()), ["warning pools-full rail"]);
    given.iter().for_each(|call| call.del().done());
    assert_eq!(pools(node.found()), Vec::<String>::new());
}

#[test]
fn pools_of_ipv6_need_a_kernel_with_ipv6() {
    let node = DoctorNode::new();
    let six = json!({"ipam": {"type": "silkrail-ipam", "pools": [pool6("six", &["fd00:7::a-fd00:7::f"])]}});
    node.has_network("", &network(&[macvlan(&six)]));
    // A kernel with ipv6.disable=1 does not have the directory.
    let (sysctls, without) = ("/proc/sys/net", node.rail.node.state_dir().with_file_name("net"));
    fs::create_dir_all(without.join("ipv4")).unwrap();
    node.rail.node.run("mount", &["--bind", without.to_str().unwrap(), sysctls]);
    let file = format!("{NETWORKS}/20-rail.conflist");
    write(&file, &network(&[macvlan(&six)]));
    assert!(node.found().contains(&"error pools-without-ipv6 six".to_owned()), "{:?}", node.found());
}

#[test]
fn a_network_without_the_daemon_of_its_addresses_is_reported() {
    let node = DoctorNode::new();
    let dhcp = node.rail.node.cni_path().join("dhcp");
    let with_dhcp = network(&[json!({"type": "other", "ipam": {"type": "dhcp"}})]);
    let other = node.rail.node.cni_path().join("other");
    [&dhcp, &other].iter().for_each(|file| write_text(file, "#!/bin/sh\n"));
    node.has_network("error network-dhcp-daemon NETWORK", &with_dhcp);
    fs::create_dir_all("/run/cni").unwrap();
    let listener = UnixListener::bind("/run/cni/dhcp.sock").unwrap();
    node.has_network("", &with_dhcp);
    drop(listener);
    node.has_network("error network-dhcp-daemon NETWORK", &with_dhcp);
    [dhcp, other].iter().for_each(|file| fs::remove_file(file).unwrap());
    let cluster = network(&[macvlan(&json!({"ipam": {"type": "silkrail-ipam", "store": "cluster"}}))]);
    node.has_network("error network-unusable NETWORK\nerror network-ipam-agent NETWORK", &cluster);
}

#[test]
fn definitions_of_multus_are_examined_like_files() {
    let node = DoctorNode::new();
    let definition = |name: &str, config: &str, resource: Option<&str>| {
        let annotations = resource.map(|name| json!({"k8s.v1.cni.cncf.io/resourceName": name}));
        json!({"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
               "metadata": {"name": name, "namespace": "ai", "annotations": annotations}, "spec": {"config": config}})
    };
    let found = |object: &Value| {
        let file = node.rail.node.state_dir().with_file_name("definitions.json");
        write(&file, &json!({"apiVersion": "v1", "kind": "List", "items": [object]}));
        let mut found = node.found_with(&["--networks", file.to_str().unwrap()]);
        found.retain(|finding| !node.baseline.contains(finding));
        found
    };
    let good = macvlan(&json!({"cniVersion": "1.0.0"})).to_string();
    assert_eq!(found(&definition("rail", &good, None)), Vec::<String>::new());
    let bad = macvlan(&json!({"cniVersion": "1.0.0", "master": "rail9"})).to_string();
    assert_eq!(found(&definition("rail", &bad, None)), ["error network-unusable network rail (ai/rail)"]);
    assert_eq!(found(&definition("rail", "{", None)), ["error network-invalid ai/rail"]);
    // Without a configuration, a file of the node has the network.
    assert_eq!(found(&definition("rail", "", None)), ["error network-invalid ai/rail"]);
    write("/etc/cni/multus/net.d/rail.conf", &macvlan(&json!({"cniVersion": "1.0.0", "name": "rail"})));
    assert_eq!(found(&definition("rail", "", None)), Vec::<String>::new());
    fs::remove_file("/etc/cni/multus/net.d/rail.conf").unwrap();
    // The policy of the node is for pods of the definition's namespace, or of the named one.
    let policy = "/etc/silkrail/policy.yaml";
    write_text(
        policy,
        "version: 1\nrules:\n- {name: a, namespaces: [ai], allow: {stateDir: ['*'], masters: [rail0]}}\n",
    );
    assert_eq!(found(&definition("rail", &good, None)), ["error network-unusable network rail (ai/rail)"]);
    write_text(policy, "version: 1\nrules:\n- {name: a, namespaces: [ai], allow: all}\n");
    assert_eq!(found(&definition("rail", &good, None)), Vec::<String>::new());
    node.has_network("", &network(&[macvlan(&json!({}))]));
    let file = format!("{NETWORKS}/20-rail.conflist");
    write(&file, &network(&[macvlan(&json!({}))]));
    let of_other = node.found_with(&["--pod-namespace", "other"]);
    let refused = format!("error network-unusable network rail ({file})");
    assert!(of_other.contains(&refused), "{of_other:?}");
    fs::remove_file(&file).unwrap();
    let broken =
        ["error file-writable /etc/silkrail/policy.yaml", "error policy-broken /etc/silkrail/policy.yaml"];
    node.has(&broken, || chmod(policy, 0o666), || chmod(policy, 0o644));
    fs::remove_file(policy).unwrap();
    // A VF is chosen by a resource.
    let sriov = json!({"cniVersion": "1.0.0", "type": "sriov", "ipam": {}}).to_string();
    let resources = |found: Vec<String>| {
        found.into_iter().filter(|one| one.contains("network-resource")).collect::<Vec<_>>()
    };
    let missing = ["error network-resource-missing network rail (ai/rail)"];
    assert_eq!(resources(found(&definition("rail", &sriov, None))), missing);
    assert_eq!(
        resources(found(&definition("rail", &sriov, Some("a.io/vf")))),
        Vec::<String>::new(),
        "no kubelet"
    );
    let checkpoint = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint";
    write(
        checkpoint,
        &json!({"Data": {"PodDeviceEntries": null, "RegisteredDevices": {"a.io/vf": ["x"]}}, "Checksum": 1}),
    );
    assert_eq!(resources(found(&definition("rail", &sriov, Some("a.io/vf")))), Vec::<String>::new());
    let other = ["warning network-resource-missing network rail (ai/rail)"];
    assert_eq!(resources(found(&definition("rail", &sriov, Some("a.io/other")))), other);
}

#[test]
fn a_state_directory_that_cannot_be_written_is_reported() {
    let node = DoctorNode::new();
    let state = node.rail.node.state_dir();
    let state = state.to_str().unwrap();
    let run = |program: &str, args: &[&str]| drop(node.rail.node.run(program, args));
    let unmount = || run("umount", &[state]);
    let mount = |options: &str| run("mount", &["-t", "tmpfs", "-o", options, "tmpfs", state]);
    let full = format!("error state-full {state}");
    node.has(&[&full], || mount("size=64k,mode=755"), unmount);
    node.has(&[&full], || mount("nr_inodes=20,mode=755"), unmount);
    let read_only = format!("error state-read-only {state}");
    node.has(&[&read_only], || mount("ro,mode=755"), unmount);
    let file = format!("error state-not-a-directory {state}");
    let moved = format!("{state}.moved");
    node.has(
        &[&file],
        || {
            fs::rename(state, &moved).unwrap();
            fs::write(state, "").unwrap();
        },
        || {
            fs::remove_file(state).unwrap();
            fs::rename(&moved, state).unwrap();
        },
    );
}

#[test]
fn files_that_others_can_change_or_read_are_reported() {
    let node = DoctorNode::new();
    let state = node.rail.node.state_dir();
    fs::create_dir_all("/etc/silkrail/pools.d").unwrap();
    let writable = |path: &Path| format!("error file-writable {}", path.display());
    for path in [Path::new(NETWORKS), Path::new("/etc/silkrail"), Path::new("/etc/silkrail/pools.d"), &state]
    {
        node.has(&[&writable(path)], || chmod(path, 0o777), || chmod(path, 0o755));
    }
    let file = PathBuf::from(format!("{NETWORKS}/20-rail.conflist"));
    write(&file, &network(&[macvlan(&json!({}))]));
    node.has(&[&writable(&file)], || chmod(&file, 0o666), || chmod(&file, 0o644));
    node.has(
        &[&writable(&file)],
        || chown(&file, Some(1000), None).unwrap(),
        || chown(&file, Some(0), None).unwrap(),
    );
    let token = Path::new("/etc/silkrail/check.token");
    let secret = format!("warning secret-readable {}", token.display());
    node.has(
        &[&secret],
        || {
            write_text(token, "secret");
            chmod(token, 0o644);
        },
        || chmod(token, 0o600),
    );
}

#[test]
fn a_limit_of_the_kernel_that_is_nearly_reached_is_reported() {
    let mut node = DoctorNode::new();
    node.with_kernel = true;
    node.baseline = node.found();
    let fake = node.rail.node.state_dir().with_file_name("fake");
    let run = |program: &str, args: &[&str]| drop(node.rail.node.run(program, args));
    let with = |file: &str, text: &str, expected: &[&str]| {
        fs::write(&fake, text).unwrap();
        let (fake, file) = (fake.to_str().unwrap(), file.to_owned());
        node.has(expected, || run("mount", &["--bind", fake, &file]), || run("umount", &[&file]));
    };
    with("/proc/sys/fs/file-max", "1\n", &["error kernel-limit-reached fs.file-max"]);
    with(
        "/proc/loadavg",
        "0.1 0.1 0.1 1/99999999 7\n",
        &["error kernel-limit-reached kernel.threads-max", "error kernel-limit-reached kernel.pid_max"],
    );
    with("/proc/sys/user/max_net_namespaces", "5\n", &["error kernel-limit-reached user.max_net_namespaces"]);
    with(
        "/proc/sys/fs/inotify/max_user_instances",
        "0\n",
        &["error kernel-limit-reached fs.inotify.max_user_instances"],
    );
}

#[test]
fn what_is_not_started_at_boot_is_reported() {
    let mut node = DoctorNode::new();
    // Without the processes of other tests, which start silkraild.
    node.prefix = &["unshare", "--pid", "--fork", "--mount-proc"];
    write_text("/etc/silkrail/node.yaml", "rdmaMode: shared\n");
    fs::create_dir_all("/run/systemd/system").unwrap();
    let wants = Path::new("/etc/systemd/system/multi-user.target.wants");
    fs::create_dir_all(wants).unwrap();
    let (unit, daemon) = (wants.join("silkrail-node.service"), wants.join("silkraild.service"));
    symlink("/usr/lib/systemd/system/silkrail-node.service", &unit).unwrap();
    assert_eq!(node.found(), node.baseline);
    let at_boot = "warning node-file-not-at-boot /etc/silkrail/node.yaml";
    node.has(&[at_boot], || fs::remove_file(&unit).unwrap(), || symlink("x", &unit).unwrap());
    let stopped = "warning silkraild-not-running silkraild.service";
    node.has(&[stopped], || symlink("x", &daemon).unwrap(), || fs::remove_file(&daemon).unwrap());
}

#[test]
fn the_directories_are_those_of_the_runtimes_configuration() {
    let node = DoctorNode::new();
    let found = |args: &str| {
        let args = format!("doctor --json --state-dir {} {args}", node.rail.node.state_dir().display());
        let report = cli::silkrail(&args).json();
        let of = |finding: &Value| {
            format!("{} {}", finding["id"].as_str().unwrap(), finding["object"].as_str().unwrap())
        };
        let all = report["findings"].as_array().unwrap().iter().map(of);
        all.filter(|finding| {
            finding.starts_with("network") || finding.starts_with("cni") || finding.starts_with("runtime")
        })
        .collect::<Vec<_>>()
    };
    let plugins = node.rail.node.cni_path().display().to_string();
    let config = "/etc/containerd/config.toml";
    write_text(
        config,
        &format!(
            "[plugins.'io.containerd.cri.v1.runtime'.cni]\nbin_dirs = ['{plugins}']\nconf_dir = '/etc/other'\n"
        ),
    );
    write("/etc/other/a.conflist", &network(&[macvlan(&json!({"master": "rail9"}))]));
    assert_eq!(found(""), ["network-unusable network rail (/etc/other/a.conflist)"]);
    write_text("/etc/crio/crio.conf.d/10.conf", "[crio.network]\nnetwork_dir = '/etc/third'\n");
    assert_eq!(found(""), Vec::<String>::new());
    write_text(config, "[plugins\n");
    assert!(found("").contains(&format!("runtime-config-invalid {config}")));
}

#[test]
fn findings_are_recorded_with_their_beginning_and_shown_by_silkraild() {
    let node = DoctorNode::new();
    let state = node.rail.node.state_dir();
    let examine = || {
        node.report(&["--record"]);
        let text = fs::read_to_string(state.join("doctor.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let file = format!("{NETWORKS}/20-rail.conflist");
    write(&file, &network(&[macvlan(&json!({"master": "rail9"}))]));
    let find = |record: &Value| {
        let all = record["findings"].as_array().unwrap().clone();
        all.into_iter().find(|finding| finding["id"] == "network-unusable")
    };
    let first = find(&examine()).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(find(&examine()).unwrap()["since"], first["since"]);
    let metrics = || {
        let state = state.to_str().unwrap();
        let output = silkrail_tests::daemon::run(&[
            "--once",
            "--node-name",
            "n",
            "--kubernetes",
            "off",
            "--state-dir",
            state,
        ]);
        silkrail_tests::scrape::Scrape::parse(std::str::from_utf8(&output.stdout).unwrap())
    };
    let labels = [("id", "network-unusable"), ("severity", "error")];
    assert_eq!(metrics().of("silkrail_finding", &labels).len(), 1);
    let start = metrics().value("silkrail_finding_start_timestamp_seconds", &labels).to_owned();
    assert_eq!(start, first["since"].to_string());
    fs::remove_file(&file).unwrap();
    let record = examine();
    assert_eq!((find(&record), &record["ended"][0]["id"]), (None, &json!("network-unusable")));
    assert!(metrics().of("silkrail_finding", &labels).is_empty());
    let history = |more: &str| {
        let args = format!("doctor --history --only network-unusable --state-dir {} {more}", state.display());
        cli::silkrail(&args).ended(0)
    };
    let entry = &history("--json").json()["findings"][0];
    assert_eq!((&entry["since"], &entry["until"]), (&first["since"], &record["time"]));
    let table = history("").stdout;
    assert!(table.starts_with("FOUND ") && table.lines().count() == 2, "{table}");
    let none = format!("doctor --history --state-dir {}", state.with_file_name("none").display());
    assert!(cli::silkrail(&none).ended(1).stderr.contains("has no record of examinations"));
}
