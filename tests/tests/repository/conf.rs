//! Every file that users copy is read by the program that it is for.

use std::{
    fs,
    path::{Path, PathBuf},
};

use ipam::Pools;
use node_policy::{NodePolicy, Resource, ResourceUses};
use serde_json::json;
use testkit::{Binaries, Call};

use silkrail_tests::{
    cli,
    conf::{self, NetworkConf},
    machine::has_vf,
};

/// Plugins of other projects that may be in a chain.
const OTHERS: [&str; 2] = ["host-local", "tuning"];

/// The pools of a file, read as from a node's directory of pools.
fn pools(file: &Path) -> Pools {
    let dir = tempfile::tempdir().unwrap();
    fs::copy(file, dir.path().join(file.file_name().unwrap())).unwrap();
    let pools = Pools::read_dir(dir.path()).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    assert!(pools.ignored().is_empty(), "{}: {:?}", file.display(), pools.ignored());
    pools
}

fn pool_files() -> Vec<PathBuf> {
    conf::files(&[".yaml", ".yml"])
        .into_iter()
        .filter(|path| path.parent().unwrap().ends_with("pools"))
        .collect()
}

#[test]
fn every_pool_file_is_read_by_the_ipam_plugin() {
    let files = pool_files();
    assert!(!files.is_empty(), "conf/pools has no file");
    for file in files {
        assert!(!pools(&file).is_empty(), "{} has no pool", file.display());
    }
}

#[test]
fn all_pool_files_together_are_read_by_the_ipam_plugin() {
    let dir = tempfile::tempdir().unwrap();
    for file in pool_files() {
        fs::copy(&file, dir.path().join(file.file_name().unwrap())).unwrap();
    }
    Pools::read_dir(dir.path()).unwrap();
}

#[test]
fn every_network_is_a_chain_of_known_plugins() {
    let binaries = Binaries::find();
    for NetworkConf { path, network } in conf::networks() {
        assert!(network["name"].is_string() && network["cniVersion"].is_string(), "{}", path.display());
        for plugin in conf::plugins(&network) {
            let ipam = plugin["ipam"]["type"].as_str();
            for name in [plugin["type"].as_str().expect("a plugin has a type")].into_iter().chain(ipam) {
                let ours = binaries.dir().join(name).is_file();
                assert!(ours || OTHERS.contains(&name), "{}: unknown plugin {name}", path.display());
            }
        }
    }
}

/// containerd 1.6 refuses later versions, and many nodes run it.
#[test]
fn every_network_has_a_version_that_containerd_1_6_supports() {
    for NetworkConf { path, network } in conf::networks() {
        assert_eq!(network["cniVersion"], "1.0.0", "{}", path.display());
    }
}

/// STATUS of 1.1.0 reads the whole configuration. Objects of the node may be missing here: links, devices, pools.
#[test]
fn every_plugin_of_every_network_accepts_its_configuration() {
    let (binaries, state) = (Binaries::find(), testkit::state_dir());
    let pools = conf::copy_pools(state.path());
    for NetworkConf { path, network } in conf::networks() {
        for mut plugin in conf::plugins(&network) {
            let name = plugin["type"].as_str().unwrap().to_owned();
            if OTHERS.contains(&name.as_str()) {
                continue;
            }
            plugin["cniVersion"] = json!("1.1.0");
            plugin["master"] = json!("lo");
            plugin["rdma"] = json!({"require": false});
            if plugin["ipam"]["type"] == "silkrail-ipam" {
                plugin["ipam"]["poolsDir"] = json!(pools);
            }
            println!("{}: {name}", path.display());
            let call = Call::new(&binaries, &name).state_dir(state.path()).conf(&plugin);
            if plugin.get("ipam").is_some() {
                // ADD reads the whole configuration before it opens the namespace, which does not exist.
                call.with("deviceID", &json!("0000:00:00.0")).add().error(8);
            }
            match name.as_str() {
                // rdma needs no configuration, but a node with RDMA; ib-sriov needs one to move RDMA devices.
                "rdma" | "ib-sriov" if !Path::new("/sys/class/infiniband").exists() => {
                    call.status().error(50).says(&["no RDMA"]);
                }
                // sriov reads the configuration first, and then searches for VFs.
                "sriov" if !has_vf() => {
                    call.status().error(50).says(&["no VF exists"]);
                }
                "ipoib" => {
                    call.status().error(50).says(&["not of type ipoib"]);
                }
                _ => call.status().done(),
            }
        }
    }
}

/// Without the capability, a runtime does not pass on the address that a pod requests.
#[test]
fn every_plugin_with_silkrail_ipam_has_the_ips_capability() {
    let mut seen = 0;
    for NetworkConf { path, network } in conf::networks() {
        for plugin in
            conf::plugins(&network).iter().filter(|plugin| plugin["ipam"]["type"] == "silkrail-ipam")
        {
            assert_eq!(plugin["capabilities"]["ips"], true, "{}: {plugin}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 3);
}

/// Their names differ: a runtime that collects the networks of its directory does not list the attachments that Multus made.
#[test]
fn a_network_and_its_definition_for_kubernetes_differ_only_in_their_names() {
    let networks = conf::networks();
    let is_nad = |network: &&NetworkConf| network.path.to_str().unwrap().ends_with(".nad.yaml");
    for NetworkConf { path: nad, network: inside } in networks.iter().filter(is_nad) {
        let list = PathBuf::from(nad.to_str().unwrap().replace(".nad.yaml", ".conflist"));
        let same = networks.iter().find(|other| other.path == list);
        let outside = same.unwrap_or_else(|| panic!("{} has no {}", nad.display(), list.display()));
        let (mut expected, name) = (outside.network.clone(), inside["name"].clone());
        assert_eq!(expected["name"], format!("{}-node", name.as_str().unwrap()), "{}", nad.display());
        expected["name"] = name;
        assert_eq!(*inside, expected, "{}", nad.display());
    }
}

#[test]
fn the_node_file_matches_its_comments() {
    let file = provision::NodeFile::parse(&conf::text("node/node.yaml")).unwrap();
    assert_eq!(file.rdma_mode.map(|mode| mode.to_string()).as_deref(), Some("exclusive"));
    assert_eq!(file.pfs.iter().map(|pf| (pf.vfs, pf.optional)).collect::<Vec<_>>(), [(8, false), (4, true)]);
}

#[test]
fn the_site_file_is_valid_and_has_every_key_of_its_page() {
    let tree = tempfile::tempdir().unwrap();
    let text = conf::text("node/site.yaml");
    std::fs::create_dir_all(tree.path().join("etc/silkrail")).unwrap();
    std::fs::write(tree.path().join("etc/silkrail/site.yaml"), &text).unwrap();
    let arguments = format!("doctor --json --node-name gpu-01 --root {}", tree.path().display());
    let report = silkrail_tests::cli::silkrail(&arguments).json();
    let findings = report["findings"].as_array().unwrap();
    let of_site: Vec<_> =
        findings.iter().filter_map(|finding| finding["id"].as_str()?.strip_prefix("site-")).collect();
    // An empty tree has none of the ports and GPUs.
    assert_eq!(of_site, ["ports-missing", "gpus-missing"], "{report}");
    let page = conf::text("README.md");
    let (_, section) = page.split_once("\n## The site file\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let keys = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let missing: Vec<_> = keys.filter(|key| !text.contains(&format!("{key}:"))).collect();
    assert!(missing.is_empty(), "not in the example: {missing:?}");
}

#[test]
fn the_policy_of_the_node_is_valid_and_its_page_has_every_list() {
    let tree = tempfile::tempdir().unwrap();
    let path = tree.path().join(NodePolicy::PATH);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, conf::text("node/policy.yaml")).unwrap();
    let policy = NodePolicy::read(tree.path()).unwrap().unwrap();
    let require = |namespace, resource, value: &str| {
        let mut uses = ResourceUses::default();
        uses.add(resource, &value);
        policy.require(Some(namespace), &uses).map_err(|error| error.to_string())
    };
    require("team-a", Resource::Vlan, "150").unwrap();
    require("kube-system", Resource::Mode, "passthru").unwrap();
    assert!(require("team-a", Resource::Mode, "passthru").unwrap_err().contains("\"tenants\""));
    assert!(require("dev-a", Resource::Mode, "bridge").unwrap_err().contains("ask the network team"));
    let page = conf::text("README.md");
    let (_, section) = page.split_once("\n## The policy of the node\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let missing: Vec<_> =
        Resource::ALL.into_iter().filter(|list| !section.contains(&format!("`{}`", list.key()))).collect();
    assert!(missing.is_empty(), "not in the page: {missing:?}");
}

/// study case V31.
#[test]
fn the_node_unit_is_ordered_before_container_runtimes() {
    let unit = conf::text("node/silkrail-node.service");
    let before = unit.lines().find_map(|line| line.strip_prefix("Before=")).unwrap();
    for service in ["network-pre.target", "containerd.service", "crio.service", "kubelet.service"] {
        assert!(before.split(' ').any(|other| other == service), "{service}");
    }
    let after = unit.lines().find_map(|line| line.strip_prefix("After=")).unwrap();
    for other in ["local-fs.target", "systemd-modules-load.service"] {
        assert!(after.split(' ').any(|unit| unit == other), "{other}");
    }
}

#[test]
fn systemd_accepts_every_unit() {
    for file in conf::files(&[".service"]) {
        // systemd-analyze checks that the executable exists; here it is in the build directory.
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(file.file_name().unwrap());
        let built = cli::executable().parent().unwrap().to_str().unwrap().to_owned();
        fs::write(&path, fs::read_to_string(&file).unwrap().replace("/usr/local/bin", &built)).unwrap();
        let verified = std::process::Command::new("systemd-analyze")
            .args(["verify", "--man=no", "--recursive-errors=no"])
            .arg(&path)
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&verified.stderr).into_owned();
        assert!(verified.status.success() && output.is_empty(), "{}: {output}", file.display());
    }
}

/// Ubuntu's cloud-init starts the network before `sysinit.target`, and systemd breaks a cycle by dropping a job.
#[test]
fn the_unit_has_no_ordering_cycle_with_a_network_before_sysinit() {
    let dir = tempfile::tempdir().unwrap();
    let early = |order: &str| {
        format!("[Unit]\nDefaultDependencies=no\n{order}[Service]\nType=oneshot\nExecStart=/bin/true\n")
    };
    let ours = conf::text("node/silkrail-node.service").replace("/usr/local/bin/silkrail apply", "/bin/true");
    for (name, text) in [
        ("silkrail-node.service", ours),
        ("networkd-wait-online.service", early("After=network-pre.target\n")),
        ("cloud-init.service", early("After=networkd-wait-online.service\nBefore=sysinit.target\n")),
        (
            "all.target",
            "[Unit]\nWants=silkrail-node.service cloud-init.service networkd-wait-online.service sysinit.target\n"
                .to_owned(),
        ),
    ] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    let verified = std::process::Command::new("systemd-analyze")
        .args(["verify", "--man=no", "all.target"])
        .env("SYSTEMD_UNIT_PATH", format!("{}:", dir.path().display()))
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success() && !output.contains("cycle"), "{output}");
}
