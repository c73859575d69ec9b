use std::{fs::File, io::Read, os::unix::fs::PermissionsExt};

use super::*;

fn options(root: &Path) -> DoctorOptions {
    DoctorOptions {
        root: root.to_owned(),
        state_dir: "/run/silkrail".into(),
        cni_bin: None,
        cni_conf: None,
        defined_networks: Vec::new(),
        pod_namespace: None,
        plugin_names: vec!["macvlan"],
        leftovers: Ok(Vec::new()),
        wanted: Ok(None),
        site: None,
        node_name: None,
        resources: Ok(crate::ResourceFacts::default()),
    }
}

fn tree() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put("proc/sys/kernel/hostname", "gpu-17.example.com\n");
    put("proc/cmdline", "quiet ip=10.9.8.7 host=gpu-17\n");
    put("proc/modules", "ib_core 1 0 - Live 0x0\n");
    put("sys/class/infiniband/mlx5_0/node_guid", "0c42:a103:0065:1234\n");
    put("sys/class/net/eth0/address", "52:54:00:aa:bb:cc\n");
    put("sys/class/net/eth0/ifindex", "2\n");
    put("etc/silkrail/pools.d/a.yaml", "subnet: 10.9.8.0/24\nips: [10.9.8.7]\n");
    root
}

/// Returns the files of a tar archive and their contents.
fn read(bytes: &[u8]) -> Vec<(String, String)> {
    let mut archive = tar::Archive::new(bytes);
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (entry.path().unwrap().display().to_string(), text)
    });
    entries.collect()
}

fn written(redact: bool) -> Vec<(String, String)> {
    of_tree(&tree(), redact)
}

fn of_tree(root: &tempfile::TempDir, redact: bool) -> Vec<(String, String)> {
    let doctor_options = options(root.path());
    let facts = NodeFacts::read(&doctor_options);
    let path = root.path().join("out.tar");
    let options = BundleOptions { redact, force: true };
    write(&path, options, &doctor_options, &facts, &crate::examine(&facts)).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    read(&fs::read(&path).unwrap())
}

#[test]
fn a_bundle_has_no_address_and_no_host() {
    let files = written(true);
    let all: String = files.iter().map(|(name, text)| format!("{name}\n{text}\n")).collect();
    for secret in ["10.9.8.7", "10.9.8.0", "gpu-17", "example.com", "0c42:a103", "52:54:00"] {
        assert!(!all.contains(secret), "{secret} in {all}");
    }
    let text = |name: &str| &files.iter().find(|(path, _)| path.ends_with(name)).unwrap().1;
    let address = text("proc/cmdline").split("ip=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert!(
        text("pools.d/a.yaml").contains(&format!("[{address}]")),
        "the same address has the same pseudonym"
    );
    for name in ["report.json", "facts.json", "manifest.json", "proc/modules", "mlx5_0/node_guid"] {
        assert!(!text(name).is_empty(), "{name}");
    }
}

#[test]
fn a_bundle_contains_no_secret_from_any_file() {
    let places = [
        "proc/cmdline",
        "etc/os-release",
        "etc/modprobe.d/a.conf",
        "run/modprobe.d/b.conf",
        "usr/lib/modprobe.d/c.conf",
        "etc/modules-load.d/d.conf",
        "etc/silkrail/node.yaml",
        "etc/silkrail/check.token",
        "etc/silkrail/web.yaml",
        "etc/silkrail/pools.d/a.yaml",
        "etc/silkrail/pools.d/b.json",
        "etc/silkrail/pools.d/old.key",
        "sys/class/net/eth0/phys_port_name",
        "run/silkrail/attachments/c@net1.macvlan.journal",
        "run/silkrail/attachments/c@net1.macvlan.journal.bad",
        "run/silkrail/podmap/v1/c@net1.json",
        "run/silkrail/vf/0000:af:00.2",
    ];
    for (name, text, secret) in secrets::SHAPES {
        let root = tree();
        for place in places {
            let path = root.path().join(place);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("before {text}\n")).unwrap();
        }
        // A journal contains the configuration of an IPAM plugin in this form.
        let journal = serde_json::json!({"delegated": {"configuration": format!("{{\"a\": {:?}}}", text)}});
        fs::write(root.path().join("run/silkrail/attachments/j@net1.sriov.journal"), format!("{journal}\n"))
            .unwrap();
        for redact in [true, false] {
            let files = of_tree(&root, redact);
            let has = |(path, text): &&(String, String)| path.contains(secret) || text.contains(secret);
            let found = files.iter().find(has);
            assert!(found.is_none(), "{name}: {secret} in {found:?}");
            for left_out in ["check.token", "web.yaml", "old.key"] {
                assert!(!files.iter().any(|(path, _)| path.ends_with(left_out)), "{left_out}");
            }
        }
    }
}

#[test]
fn a_file_that_is_not_readable_by_all_users_is_omitted_and_listed() {
    let root = tree();
    let path = root.path().join("etc/silkrail/pools.d/a.yaml");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let files = of_tree(&root, true);
    assert!(!files.iter().any(|(name, _)| name.ends_with("a.yaml")));
    let manifest = files.iter().find(|(name, _)| name.ends_with("manifest.json")).unwrap();
    assert!(manifest.1.contains("a.yaml: not readable by all users"), "{}", manifest.1);
}

#[test]
fn a_file_in_a_private_directory_is_omitted_and_listed() {
    let closed = |dir: &str, mode: u32| {
        let root = tree();
        let real = root.path().join("srv/pools");
        fs::create_dir_all(&real).unwrap();
        fs::write(real.join("b.yaml"), "subnet: 10.9.9.0/24\n").unwrap();
        std::os::unix::fs::symlink(
            "../../../srv/pools/b.yaml",
            root.path().join("etc/silkrail/pools.d/b.yaml"),
        )
        .unwrap();
        fs::set_permissions(root.path().join(dir), fs::Permissions::from_mode(mode)).unwrap();
        let files = of_tree(&root, true);
        let manifest = files.iter().find(|(name, _)| name.ends_with("manifest.json")).unwrap().1.clone();
        ["a.yaml", "b.yaml"].map(|name| {
            let is_taken = files.iter().any(|(path, _)| path.ends_with(name));
            assert_ne!(
                is_taken,
                manifest.contains(&format!("{name}: not readable by all users")),
                "{manifest}"
            );
            is_taken
        })
    };
    assert_eq!(closed("etc/silkrail/pools.d", 0o755), [true, true]);
    assert_eq!(closed("etc/silkrail/pools.d", 0o700), [false, false]);
    assert_eq!(closed("etc/silkrail", 0o754), [false, false]);
    assert_eq!(closed("srv", 0o700), [true, false], "the directories of the target of a symbolic link count");
}

#[test]
fn a_secret_in_utf_16_or_in_a_file_name_is_removed() {
    let root = tree();
    let pools = root.path().join("etc/silkrail/pools.d");
    let wide: Vec<u8> = "password=hunter2-plain\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(pools.join("wide.yaml"), wide).unwrap();
    fs::write(pools.join("token=hunter2.yaml"), "").unwrap();
    for redact in [true, false] {
        let files = of_tree(&root, redact);
        for (name, text) in &files {
            let text = text.replace('\0', "");
            assert!(!name.contains("hunter2") && !text.contains("hunter2"), "{name}: {text}");
        }
        assert!(files.iter().any(|(name, text)| name.ends_with("wide.yaml") && text.contains("password=")));
    }
}

/// Findings without secrets must remain readable.
#[test]
fn facts_and_findings_without_secrets_are_not_changed() {
    let root = tree();
    let doctor_options = options(root.path());
    let facts = NodeFacts::read(&doctor_options);
    for before in
        [serde_json::to_value(&facts).unwrap(), serde_json::to_value(crate::examine(&facts)).unwrap()]
    {
        let mut value = before.clone();
        secrets::clean(&mut value);
        assert_eq!(value, before);
    }
}

#[test]
fn without_redaction_addresses_are_not_changed() {
    let files = written(false);
    let text = |name: &str| &files.iter().find(|(path, _)| path.ends_with(name)).unwrap().1;
    assert_eq!(text("proc/cmdline"), "quiet ip=10.9.8.7 host=gpu-17\n");
}

#[test]
fn a_file_is_only_replaced_with_force_and_the_extension_selects_the_format() {
    let root = tree();
    let doctor_options = options(root.path());
    let facts = NodeFacts::read(&doctor_options);
    let report = crate::examine(&facts);
    let path = root.path().join("out.tgz");
    fs::write(&path, "mine").unwrap();
    let write = |path: &Path, force| {
        write(path, BundleOptions { redact: true, force }, &doctor_options, &facts, &report)
    };
    assert!(matches!(write(&path, false), Err(Error::Exists { .. })));
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    write(&path, true).unwrap();
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(File::open(&path).unwrap()).read_to_end(&mut text).unwrap();
    assert!(!read(&text).is_empty());
    assert!(matches!(write(&root.path().join("out.zip"), false), Err(Error::Name { .. })));
    let names: Vec<_> = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().starts_with('.')), "{names:?}");
}

/// A node with a card, a GPU, huge pages, counters, and a process with an open device.
fn node_with_card() -> tempfile::TempDir {
    let root = tree();
    let put = |path: &str, text: &[u8]| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put("proc/meminfo", b"MemTotal: 1024 kB\n");
    put("proc/buddyinfo", b"Node 0, zone Normal 1 2 3\n");
    put("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", b"5\n");
    put("sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages", b"7\n");
    put("sys/devices/system/node/node1/meminfo", b"Node 1 MemFree: 3 kB\n");
    let card = "sys/bus/pci/devices/0000:af:00.0";
    put(&format!("{card}/vendor"), b"0x15b3\n");
    put(&format!("{card}/device"), b"0x1021\n");
    put(&format!("{card}/class"), b"0x020000\n");
    put(&format!("{card}/aer_dev_fatal"), b"TOTAL_ERR_FATAL 2\n");
    let mut config = vec![0; 0x120];
    config[..4].copy_from_slice(&[0xb3, 0x15, 0x21, 0x10]);
    config[0x100..0x10c].copy_from_slice(&[3, 0, 1, 0, 0xcc, 0xbb, 0xaa, 0xff, 0xfe, 0x00, 0x54, 0x52]);
    put(&format!("{card}/config"), &config);
    std::os::unix::fs::symlink(
        "../../../../kernel/iommu_groups/42",
        root.path().join(card).join("iommu_group"),
    )
    .unwrap();
    let gpu = "sys/bus/pci/devices/0000:b1:00.0";
    put(&format!("{gpu}/vendor"), b"0x10de\n");
    put(&format!("{gpu}/device"), b"0x2330\n");
    put(&format!("{gpu}/class"), b"0x030200\n");
    put(&format!("{gpu}/local_cpulist"), b"0-31\n");
    put("sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence", b"12\n");
    put("sys/class/infiniband/mlx5_0/ports/1/state", b"4: ACTIVE\n");
    put("sys/class/infiniband/mlx5_0/hw_counters/requests", b"13\n");
    put("proc/77/comm", b"train-gpu-17\n");
    put("proc/77/cgroup", b"0::/user.slice/10.9.8.7\n");
    put("proc/77/cmdline", b"train\0--password=hunter2\0");
    fs::create_dir_all(root.path().join("proc/77/fd")).unwrap();
    std::os::unix::fs::symlink("/dev/infiniband/uverbs0", root.path().join("proc/77/fd/9")).unwrap();
    root
}

#[test]
fn a_bundle_has_memory_pci_counters_and_users_of_devices() {
    let files = of_tree(&node_with_card(), false);
    let text = |name: &str| {
        let found = files.iter().find(|(path, _)| *path == format!("silkrail-bundle/{name}"));
        &found
            .unwrap_or_else(|| {
                panic!("no {name}: {:?}", files.iter().map(|(path, _)| path).collect::<Vec<_>>())
            })
            .1
    };
    let of_card = |name: &str| text(&format!("node/sys/bus/pci/devices/0000:af:00.0/{name}"));
    assert_eq!(text("node/proc/meminfo"), "MemTotal: 1024 kB\n");
    assert_eq!(text("node/proc/buddyinfo"), "Node 0, zone Normal 1 2 3\n");
    assert_eq!(text("node/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"), "5\n");
    assert_eq!(text("node/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages"), "7\n");
    assert_eq!(text("node/sys/devices/system/node/node1/meminfo"), "Node 1 MemFree: 3 kB\n");
    assert_eq!(of_card("aer_dev_fatal"), "TOTAL_ERR_FATAL 2\n");
    assert_eq!(of_card("iommu_group"), "../../../../kernel/iommu_groups/42\n");
    assert_eq!(text("node/sys/bus/pci/devices/0000:b1:00.0/local_cpulist"), "0-31\n");
    assert_eq!(text("node/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence"), "12\n");
    assert_eq!(text("node/sys/class/infiniband/mlx5_0/hw_counters/requests"), "13\n");
    let config = text("pci-config.txt");
    assert!(config.starts_with("0000:af:00.0 function\n00: b3 15 21 10 00"), "{config}");
    let users = "77 train-gpu-17\n  /dev/infiniband/uverbs0 1\n  0::/user.slice/10.9.8.7\n";
    assert_eq!(text("rdma-processes.txt"), users);
}

#[test]
fn lists_of_the_node_have_no_secret_no_address_and_no_host() {
    let root = node_with_card();
    for (redact, secrets) in [(true, &["hunter2", "10.9.8.7", "gpu-17"][..]), (false, &["hunter2"])] {
        let files = of_tree(&root, redact);
        for secret in secrets {
            assert!(
                !files.iter().any(|(path, text)| path.contains(secret) || text.contains(secret)),
                "{secret}"
            );
        }
        // Nor the serial number of the card, which contains a MAC address, while the rest is as it was.
        let config = &files.iter().find(|(path, _)| path.ends_with("pci-config.txt")).unwrap().1;
        assert!(config.contains("\n100: 03 00 01 00 00 00 00 00 00 00 00 00 00 00 00 00\n"), "{config}");
        assert!(config.contains("00: b3 15 21 10 00 00"), "{config}");
    }
    // A name of a process has 15 bytes: blocks of several lines do not fit.
    let shapes = secrets::SHAPES.into_iter().filter(|(_, text, _)| !text.contains('\n'));
    for (name, text, secret) in shapes {
        fs::write(root.path().join("proc/77/comm"), format!("{text}\n")).unwrap();
        let files = of_tree(&root, true);
        let users = files.iter().find(|(path, _)| path.ends_with("rdma-processes.txt")).map(|(_, text)| text);
        assert!(users.is_none_or(|users| !users.contains(secret)), "{name}: {users:?}");
    }
}

#[test]
fn the_kernel_lists_routes_and_rules_of_all_tables() {
    let value = collect::netlink(&options(Path::new("/nonexistent")));
    let rules = value["rules"]["first"].as_array().unwrap();
    assert!(rules.iter().any(|rule| rule["table"] == 255 && rule["priority"] == 0), "{value}");
    assert!(value["routes"]["first"].is_array() && value["routes"]["count"].is_number(), "{value}");
}
