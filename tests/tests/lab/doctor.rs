//! `silkrail doctor`: faults are planted one at a time, and each time it reports exactly that fault. Faults that this machine
//! cannot have (slots, firmware, InfiniBand) are planted in a tree of files: `tests/tests/command/doctor.rs`.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, symlink},
        net::UnixListener,
        process::CommandExt,
    },
    path::Path,
    process::Command,
};

use serde_json::{Value, json};
use silkrail_tests::{
    chain::Chain,
    cli,
    machine::LabMachine,
    rxe::{Rxe, RxeProgram},
};
use testkit::{Observe, Share, wait_until};

use crate::healthy_machine::{HealthyMachine, chmod, read, remove, write};

#[test]
fn each_fault_of_a_machine_in_shared_mode_is_reported() {
    let machine = LabMachine::shared();
    let healthy = HealthyMachine::new(&machine);
    let severe = healthy.baseline.iter().find(|finding| !finding.starts_with("info"));
    assert_eq!(severe, None, "a healthy machine has neither error nor warning");
    let areas = [links, vfs, node_file, device_nodes, sockets, leftovers, processes];
    for area in doctor_share().of_list("areas of a machine", areas.len()) {
        areas[area](&healthy);
    }
    healthy.is_healthy();
}

fn doctor_share() -> Share {
    Share::of_tests_of(&["pkg/doctor"])
}

fn links(healthy: &HealthyMachine<'_>) {
    let (machine, ip) = (healthy.machine, |args: &str| healthy.machine.node.run_ip(args));
    let active = || {
        wait_until("the port is active", || {
            read("/sys/class/infiniband/mlx5_1/ports/1/state").contains("ACTIVE")
        })
    };
    healthy.has(
        &["error link-down eth1"],
        || ip("link set eth1 down"),
        || {
            ip("link set eth1 up");
            active();
        },
    );
    // An address that does not become a GID.
    let pf = fs::read_link("/sys/class/net/eth0/device").unwrap();
    let refuse = machine.simulate(pf.file_name().unwrap().to_str().unwrap(), "gid_refuse", "Y");
    healthy.has(
        &["error gid-missing mlx5_0 port 1"],
        || ip("address add 192.0.2.77/24 dev eth0"),
        || {
            ip("address del 192.0.2.77/24 dev eth0");
        },
    );
    drop(refuse);
    let vf = machine.vf("eth0", 3);
    let small = format!("error mtu-too-small {}", vf.link);
    healthy.has(&[&small], || ip(&format!("link set {} mtu 300", vf.link)), || ());
    let above = format!("warning mtu-vf-above-pf {}", vf.link);
    healthy.has(
        &[&above],
        || ip(&format!("link set {} mtu 9000", vf.link)),
        || {
            ip(&format!("link set {} mtu 1500", vf.link));
        },
    );
    // A change of a PF's MTU resets the card.
    healthy.has(
        &["warning mtu-differs eth1"],
        || {
            ip("link set eth1 mtu 9000");
            active();
        },
        || {
            ip("link set eth1 mtu 1500");
            active();
        },
    );
    let class = |pf: &str, class: &str| {
        let function = fs::read_link(format!("/sys/class/net/{pf}/device")).unwrap();
        machine.simulate(function.file_name().unwrap().to_str().unwrap(), "traffic_class", class)
    };
    let classes = (class("eth0", "106"), class("eth1", "0"));
    healthy.has(&["warning lossless-differs eth0, eth1"], || (), || drop(classes));
}

fn vfs(healthy: &HealthyMachine<'_>) {
    let vf = healthy.machine.vf("eth0", 4);
    let driver = "/sys/bus/pci/drivers/igbvf";
    let expected = format!("error vf-without-driver {}", vf.pci);
    healthy.has(
        &[&expected],
        || write(format!("{driver}/unbind"), &vf.pci),
        || {
            write(format!("{driver}/bind"), &vf.pci);
            wait_until("the VF has its RDMA device", || {
                fs::read_dir(format!("/sys/bus/pci/devices/{}/infiniband", vf.pci))
                    .is_ok_and(|mut dir| dir.next().is_some())
            });
        },
    );
    let pf = fs::read_link("/sys/class/net/eth0/device").unwrap();
    let pf = pf.file_name().unwrap().to_str().unwrap();
    let autoprobe = "/sys/class/net/eth0/device/sriov_drivers_autoprobe";
    let expected = format!("info vf-autoprobe-off {pf}");
    healthy.has(&[&expected], || write(autoprobe, "0"), || write(autoprobe, "1"));
    // A file is mounted over the kernel's attribute.
    let zero = healthy.dir.path().join("zero");
    write(&zero, "0000:0000:0000:0000\n");
    let guid = "/sys/class/infiniband/mlx5_1/node_guid";
    let run = |program: &str, args: &[&str]| drop(healthy.machine.node.run(program, args));
    healthy.has(
        &["error node-guid-zero mlx5_1"],
        || run("mount", &["--bind", zero.to_str().unwrap(), guid]),
        || run("umount", &[guid]),
    );
}

fn node_file(healthy: &HealthyMachine<'_>) {
    let file = "/etc/silkrail/node.yaml";
    let pf = fs::read_link("/sys/class/net/eth0/device").unwrap();
    let pf = pf.file_name().unwrap().to_str().unwrap();
    let wants = |link: &str, vfs: u32| {
        write(file, &format!("pfs:\n  - match: {{link: {link}}}\n    vfs: {vfs}\n"));
    };
    healthy.has(&[], || wants("eth0", 7), || ());
    let fewer = format!("error vfs-fewer-than-configured {pf}");
    healthy.has(&[&fewer], || wants("eth0", 9), || ());
    healthy.has(&[&format!("error node-file-no-pf {file}")], || wants("eth99", 1), || ());
    let exclusive = "rdmaMode: exclusive\n";
    healthy.has(&["error rdma-mode-not-as-configured rdma-mode"], || write(file, exclusive), || remove(file));
}

fn device_nodes(healthy: &HealthyMachine<'_>) {
    let run = |program: &str, args: &[&str]| drop(healthy.machine.node.run(program, args));
    let (cm, moved, uverbs) = ("/dev/infiniband/rdma_cm", "/dev/infiniband/moved", "/dev/infiniband/uverbs1");
    let away = |path: &str| fs::rename(path, moved).unwrap();
    let back = |path: &str| fs::rename(moved, path).unwrap();
    healthy.has(&[&format!("error rdma-cm-node-missing {cm}")], || away(cm), || back(cm));
    healthy.has(&[&format!("error uverbs-node-missing {uverbs}")], || away(uverbs), || ());
    healthy.has(
        &[&format!("error device-node-wrong {uverbs}")],
        || {
            run("mknod", &[uverbs, "c", "1", "3"]);
            chmod(uverbs, 0o666);
        },
        || remove(uverbs),
    );
    healthy.has(&[&format!("error device-node-wrong {uverbs}")], || write(uverbs, ""), || back(uverbs));
    healthy.has(
        &[&format!("warning device-node-permissions {uverbs}")],
        || chmod(uverbs, 0o600),
        || chmod(uverbs, 0o666),
    );
    healthy.has(
        &[&format!("warning device-node-permissions {cm}")],
        || chmod(cm, 0o660),
        || chmod(cm, 0o666),
    );
}

fn sockets(healthy: &HealthyMachine<'_>) {
    let (plugins, resources) =
        ("/var/lib/kubelet/device-plugins/kubelet.sock", "/var/lib/kubelet/pod-resources/kubelet.sock");
    for path in [plugins, resources] {
        fs::create_dir_all(Path::new(path).parent().unwrap()).unwrap();
    }
    let _listens = UnixListener::bind(plugins).unwrap();
    drop(UnixListener::bind(resources).unwrap()); // the file stays
    healthy.has(&[&format!("warning kubelet-unreachable {resources}")], || (), || remove(resources));
    healthy.has(
        &[&format!("warning kubelet-unreachable {resources}")],
        || (),
        || {
            fs::remove_dir_all("/var/lib/kubelet").unwrap();
        },
    );
}

fn leftovers(healthy: &HealthyMachine<'_>) {
    let machine = healthy.machine;
    let pod = machine.node.pod("gone");
    let macvlan = machine.plugin("macvlan", &json!({"master": "eth0"})).pod(&pod);
    macvlan.add().ok();
    healthy.is_healthy(); // a running pod is not a finding
    pod.end();
    let stale = ["journal macvlan of network rail0", "journal silkrail-ipam of network rail0"];
    let stale = stale.map(|object| format!("warning leftover-stale {object}"));
    let gc = format!("gc --yes --state-dir {}", machine.node.state_dir().display());
    healthy.has(&stale.each_ref().map(String::as_str), || (), || drop(cli::silkrail(&gc).ended(0)));

    let map = machine.node.state_dir().join("podmap/v1");
    let broken = map.join("c9@net1.json");
    let expected = format!("warning podmap-broken {}", broken.display());
    healthy.has(&[&expected], || write(&broken, "{"), || remove(&broken));
    let journal = machine.node.state_dir().join("attachments/c9@net1.macvlan.journal");
    healthy.has(
        &["info leftover-kept journal macvlan of network ?"],
        || write(&journal, "half a jour"),
        || remove(&journal),
    );
    let vf = machine.vf("eth1", 5);
    let entry = json!({
        "schema": "podmap/1.0", "bootId": read("/proc/sys/kernel/random/boot_id").trim(), "createdAt": "now",
        "writer": {"name": "rdma", "version": "0.1.0"},
        "container": {"sandboxId": "c9", "netnsPath": "/run/netns/c9", "netnsIno": 1, "netnsDev": 1},
        "network": {"name": "rail0", "cniType": "rdma", "ifname": "net1"},
        "rdma": {"mode": "exclusive", "pci": vf.pci},
    });
    healthy.has(
        &[
            "warning leftover-stale pod map entry c9@net1.json",
            &format!("warning podmap-device-at-home {}", vf.pci),
        ],
        || write(&broken, &entry.to_string()),
        || remove(&broken),
    );
}

fn processes(healthy: &HealthyMachine<'_>) {
    // A process with the name of a container runtime and a memlock limit.
    let runtime = healthy.dir.path().join("containerd");
    fs::copy("/bin/sleep", &runtime).unwrap();
    let mut command = Command::new("prlimit");
    command.args(["--memlock=65536:65536", "--"]).arg(&runtime).arg("600").arg0("prlimit");
    let program = RxeProgram::spawn(&mut command);
    let comm = format!("/proc/{}/comm", program.pid());
    wait_until("the process runs", || read(&comm).trim() == "containerd");
    let expected = format!("warning memlock-limited containerd ({})", program.pid());
    healthy.has(&[&expected], || (), || drop(program));

    // In a pod's namespace the doctor does not examine the node.
    let pod = healthy.machine.node.pod("inside");
    let inside = |args: &[&str], to: &[&str]| {
        let output = Command::new(args[0]).args(&args[1..]).arg(cli::executable()).args(to).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            matches!(output.status.code(), Some(0 | 6)),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        text
    };
    let net = format!("--net={}", pod.path().display());
    let text = inside(&["nsenter", &net], &["doctor"]);
    assert!(text.contains("[not-the-nodes-namespace]") && text.contains("[not-examined]"), "{text}");
    // Nor without privileges.
    let text = inside(&["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"], &["doctor"]);
    assert!(
        text.contains("[not-root]") && text.contains("stale resources: it could not be examined"),
        "{text}"
    );
}

/// Plants a network in the runtime's directory. The plugins are the real ones, whose STATUS the doctor calls.
fn has_network(healthy: &HealthyMachine<'_>, expected: Option<&str>, plugins: &[Value]) {
    let file = "/etc/cni/net.d/20-rail.conflist";
    let conf = json!({"cniVersion": "1.0.0", "name": "rail0", "plugins": plugins}).to_string();
    let expected = expected.map(|id| format!("error {id} network rail0 ({file})"));
    healthy.has(expected.as_deref().as_slice(), || write(file, &conf), || remove(file));
}

#[test]
fn each_fault_of_a_network_is_reported() {
    let machine = LabMachine::shared();
    let healthy = HealthyMachine::with_real_plugins(&machine);
    let pool = json!({"name": "rail0", "subnet": "172.81.0.0/16", "ips": ["172.81.0.100-172.81.0.120"]});
    let ipam = json!({"type": "silkrail-ipam", "pools": [pool]});
    let child = |kind: &str, master: &str| json!({"type": kind, "master": master, "ipam": ipam, "rdma": {"require": true}});
    let vlan = json!({"type": "ifacer", "interfaces": ["eth0"], "vlanID": 7});
    let vf = |more: Value| silkrail_tests::rail::merged(json!({"type": "sriov", "ipam": ipam}), &more);
    let unusable = Some("network-unusable");
    let networks = [
        (None, vec![child("macvlan", "eth0")]),
        (None, vec![child("ipvlan", "eth0")]),
        // A link without an RDMA device.
        (unusable, vec![child("macvlan", "lo")]),
        (unusable, vec![child("ipvlan", "lo")]),
        (unusable, vec![child("ipoib", "eth0")]),
        (None, vec![vlan, child("macvlan", "eth0.7")]),
        (None, vec![vf(json!({}))]),
        (unusable, vec![vf(json!({"rdmaIsolation": true}))]),
        (unusable, vec![vf(json!({"deviceID": "0000:ff:1f.7"}))]),
        (unusable, vec![vf(json!({})), json!({"type": "rdma"})]),
        (Some("network-vf-layer"), vec![vf(json!({"type": "ib-sriov"}))]),
    ];
    for network in doctor_share().of_list("networks", networks.len()) {
        let (expected, plugins) = &networks[network];
        has_network(&healthy, *expected, plugins);
    }
    let ip = |args: &str| machine.node.run_ip(args);
    let used = machine.vf("eth1", 2);
    healthy.has(
        &[&format!("warning vf-used-by-node {}", used.pci)],
        || ip(&format!("address add 192.0.2.9/24 dev {}", used.link)),
        || ip(&format!("address del 192.0.2.9/24 dev {}", used.link)),
    );
    healthy.has(
        &["warning rails-share-subnet eth0, eth1"],
        || {
            ip("address add 192.0.2.1/24 dev eth0");
            ip("address add 192.0.2.2/24 dev eth1");
            wait_until("the addresses are GIDs", || {
                ["mlx5_0", "mlx5_1"].iter().all(|device| {
                    (0..16).any(|index| {
                        read(&format!("/sys/class/infiniband/{device}/ports/1/gids/{index}"))
                            .contains("ffff:c000:020")
                    })
                })
            });
        },
        || {
            ip("address del 192.0.2.1/24 dev eth0");
            ip("address del 192.0.2.2/24 dev eth1");
        },
    );
}

#[test]
fn each_fault_of_a_machine_in_exclusive_mode_is_reported() {
    let machine = LabMachine::exclusive();
    write("/etc/modprobe.d/ib_core.conf", "options ib_core netns_mode=0\n");
    {
        let healthy = HealthyMachine::new(&machine);
        let severe = healthy.baseline.iter().find(|finding| !finding.starts_with("info"));
        assert_eq!(severe, None, "a healthy machine has neither error nor warning");

        // A pod with a VF is not a finding. A device moved by another plugin is a finding of severity `info`.
        let (vf, other) = (machine.vf("eth0", 0), machine.vf("eth0", 1));
        let (pod, others) = (machine.node.pod("a"), machine.node.pod("b"));
        let chain = Chain::new(&machine, &vf, &pod, json!({}));
        chain.add();
        healthy.is_healthy();
        fs::create_dir_all("/run/netns").unwrap();
        symlink(others.path(), "/run/netns/doctor").unwrap();
        let expected = format!("info device-elsewhere {}", other.pci);
        let moved = || drop(machine.node.run("rdma", &["dev", "set", &other.rdma, "netns", "doctor"]));
        healthy.has(&[&expected], moved, || {
            remove("/run/netns/doctor");
            others.end();
            wait_until("the device is on the host", || !machine.vf("eth0", 1).rdma.is_empty());
        });
        chain.del();
        drop(pod);

        healthy.has(
            &["warning rdma-mode-not-kept ib_core"],
            || remove("/etc/modprobe.d/ib_core.conf"),
            || write("/etc/modprobe.d/ib_core.conf", "options ib_core netns_mode=0\n"),
        );
        healthy.is_healthy();

        // A support bundle contains no MAC addresses and GUIDs.
        let file = healthy.dir.path().join("bundle.tar");
        healthy.doctor(&format!("--bundle {}", file.display())).ended(0);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let tar = String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned();
        for private in ["/sys/class/net/eth0/address", "/sys/class/infiniband/mlx5_3/node_guid"].map(read) {
            assert!(private.len() > 10 && !tar.contains(private.trim()), "{private}");
        }
        assert!(tar.contains("igbvf") && tar.contains("mac-1"), "the kernel's log and the links are in it");
        assert_eq!(
            healthy.doctor(&format!("--bundle {}", file.display())).code,
            Some(1),
            "the file already exists"
        );
    }
    let rxe = Rxe::on(machine);
    let healthy = HealthyMachine::new(&rxe.machine);
    assert!(
        healthy.baseline.contains(&"error exclusive-cannot-move rxe0".to_owned()),
        "{:?}",
        healthy.baseline
    );
    remove("/etc/modprobe.d/ib_core.conf");
}
