//! `silkrail doctor --root`: faults that no test machine can have, in a tree of files that simulates a node.
//!
//! Faults of a real kernel are tested in the lab: `tests/tests/lab/doctor.rs`.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
};

use serde_json::Value;
use silkrail_tests::cli;

const PF0: &str = "0000:af:00.0";
const PF1: &str = "0000:b0:00.0";
const VF0: &str = "0000:af:00.1";

/// A tree of files that simulates a node.
struct DoctorFixture {
    dir: tempfile::TempDir,
}

impl DoctorFixture {
    /// A node with two PFs (RoCE) and a VF, with the files of the kernel in `/sys` and `/proc`.
    fn new() -> Self {
        let tree = Self { dir: tempfile::tempdir().unwrap() };
        tree.kernel();
        tree.function(PF0, "sys/devices/pci0000:ae/0000:ae:00.0", 0);
        tree.function(PF1, "sys/devices/pci0000:ae/0000:ae:02.0", 1);
        tree.vf();
        tree.put("opt/cni/bin/macvlan", concat!("\x7fELF silkrail-cni ", env!("CARGO_PKG_VERSION"), "\n"));
        fs::set_permissions(tree.path("opt/cni/bin/macvlan"), fs::Permissions::from_mode(0o755)).unwrap();
        tree
    }

    fn kernel(&self) {
        self.put("proc/sys/kernel/osrelease", "6.12.0-tree\n");
        self.put("proc/sys/kernel/hostname", "gpu-17\n");
        self.put("proc/cmdline", "quiet\n");
        self.put("proc/stat", "cpu 1\nbtime 1763664000\n");
        let modules = ["ib_core", "ib_uverbs", "rdma_cm", "rdma_ucm", "mlx5_core", "mlx5_ib"];
        self.put("proc/modules", &modules.map(|name| format!("{name} 1 0 - Live 0x0\n")).concat());
        self.put("proc/7/comm", "containerd\n");
        self.put(
            "proc/7/limits",
            "Max locked memory         unlimited            unlimited            bytes\n",
        );
        self.put("lib/modules/6.12.0-tree/modules.dep", "kernel/drivers/infiniband/core/ib_core.ko.xz:\n");
        self.put("sys/module/ib_core/parameters/netns_mode", "Y\n");
        // Any character device: the tree does not have the correct number.
        self.link("dev/infiniband/rdma_cm", "/dev/null");
    }

    fn function(&self, address: &str, bridge: &str, number: u32) {
        let (dir, link) = (format!("{bridge}/{address}"), format!("eth{number}"));
        for (name, text) in [
            ("class", "0x020000"),
            ("vendor", "0x15b3"),
            ("device", "0x101b"),
            ("subsystem_vendor", "0x15b3"),
            ("subsystem_device", "0x0007"),
            ("numa_node", "0"),
            ("current_link_speed", "16.0 GT/s PCIe"),
            ("max_link_speed", "16.0 GT/s PCIe"),
            ("current_link_width", "16"),
            ("max_link_width", "16"),
        ] {
            self.put(&format!("{dir}/{name}"), text);
        }
        self.link(&format!("sys/bus/pci/devices/{address}"), self.path(&dir).to_str().unwrap());
        self.link(&format!("{dir}/driver"), "../../../bus/pci/drivers/mlx5_core");
        self.device(&dir, number, "4: ACTIVE");
        for (name, text) in
            [("mtu", "4200"), ("flags", "0x1003"), ("carrier", "1"), ("speed", "100000"), ("ifindex", "2")]
        {
            self.put(&format!("sys/class/net/{link}/{name}"), text);
        }
    }

    fn device(&self, function: &str, number: u32, state: &str) {
        let (name, link) = (format!("mlx5_{number}"), format!("eth{number}"));
        let device = format!("sys/class/infiniband/{name}");
        self.put(&format!("{device}/node_guid"), &format!("0c42:a103:0065:123{number}\n"));
        self.put(&format!("{device}/fw_ver"), "22.41.1000\n");
        self.put(&format!("{device}/board_id"), "MT_0000000223\n");
        self.link(&format!("{device}/device"), self.path(function).to_str().unwrap());
        let port = format!("{device}/ports/1");
        for (name, text) in [
            ("state", state),
            ("phys_state", "5: LinkUp"),
            ("link_layer", "Ethernet"),
            ("rate", "100 Gb/sec (4X EDR)"),
            ("sm_lid", "0x0"),
            ("gids/2", "0000:0000:0000:0000:0000:0000:0000:0000"),
        ] {
            self.put(&format!("{port}/{name}"), text);
        }
        for (index, kind) in [(0, "IB/RoCE v1"), (1, "RoCE v2")] {
            self.put(&format!("{port}/gids/{index}"), "fe80:0000:0000:0000:0e42:a1ff:fe65:1234\n");
            self.put(&format!("{port}/gid_attrs/types/{index}"), kind);
            self.put(&format!("{port}/gid_attrs/ndevs/{index}"), &link);
        }
        self.put(&format!("{function}/infiniband/{name}/x"), "");
        self.put(&format!("{function}/net/{link}/x"), "");
    }

    fn vf(&self) {
        let dir = format!("sys/devices/pci0000:ae/0000:ae:00.0/{VF0}");
        self.put(&format!("{dir}/class"), "0x020000");
        self.put(&format!("{dir}/vendor"), "0x15b3");
        self.put(&format!("{dir}/infiniband/mlx5_2/x"), "");
        self.link(&format!("sys/bus/pci/devices/{VF0}"), self.path(&dir).to_str().unwrap());
        self.link(&format!("{dir}/driver"), "../../../bus/pci/drivers/mlx5_core");
        self.link(&format!("{dir}/physfn"), &format!("../{PF0}"));
        let pf = format!("sys/bus/pci/devices/{PF0}");
        self.link(&format!("{pf}/virtfn0"), &format!("../{VF0}"));
        self.put(&format!("{pf}/sriov_numvfs"), "1");
        self.put(&format!("{pf}/sriov_totalvfs"), "8");
        self.put(&format!("{pf}/sriov_drivers_autoprobe"), "1");
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    fn remove(&self, path: &str) {
        let path = self.path(path);
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }

    /// Writes a file of the first PF.
    fn pci(&self, name: &str, text: &str) {
        self.put(&format!("sys/bus/pci/devices/{PF0}/{name}"), text);
    }

    /// Writes a file of the first device's port.
    fn port(&self, name: &str, text: &str) {
        self.put(&format!("sys/class/infiniband/mlx5_0/ports/1/{name}"), text);
    }

    /// `severity id object` of each finding.
    fn found(&self) -> Vec<String> {
        let ran = cli::silkrail(&format!("doctor --json --root {}", self.dir.path().display()));
        let report = ran.json();
        let one = |finding: &Value| {
            ["severity", "id", "object"].map(|key| finding[key].as_str().unwrap()).join(" ")
        };
        let found: Vec<String> = report["findings"].as_array().unwrap().iter().map(one).collect();
        let has_error = found.iter().any(|finding| finding.starts_with("error"));
        assert_eq!(ran.code, Some(if has_error { 6 } else { 0 }), "{ran:?}");
        found
    }
}

/// The findings in addition to those of a healthy tree, and the function that plants the fault.
type PlantedFault = (&'static [&'static str], fn(&DoctorFixture));

/// A network of Silkrail's plugin in the runtime's directory.
fn network(tree: &DoctorFixture, plugin: &str, conf: &str) {
    tree.put(
        &format!("opt/cni/bin/{plugin}"),
        concat!("\x7fELF silkrail-cni ", env!("CARGO_PKG_VERSION"), "\n"),
    );
    fs::set_permissions(tree.path(&format!("opt/cni/bin/{plugin}")), fs::Permissions::from_mode(0o755))
        .unwrap();
    tree.put("etc/cni/net.d/rail.conf", &format!("{{\"name\": \"rail\", \"type\": \"{plugin}\"{conf}}}"));
}

fn neighbours(tree: &DoctorFixture, family: &str, table: &str, entries: &str) {
    tree.put(&format!("proc/sys/net/{family}/neigh/default/gc_thresh3"), "1024\n");
    tree.put(&format!("proc/net/stat/{table}"), &format!("entries allocs\n{entries} 0\n"));
}

/// Returns the configuration space of a function with a value of the Device Control register, all of whose bytes are ASCII.
fn configuration_space(device_control: u16) -> String {
    let mut bytes = [0; 256];
    (bytes[0x06], bytes[0x34], bytes[0x40]) = (0x10, 0x40, 0x10);
    bytes[0x48..0x4a].copy_from_slice(&device_control.to_le_bytes());
    String::from_utf8(bytes.to_vec()).unwrap()
}

const FAULTS: [PlantedFault; 59] = [
    (&["warning kernel-limit-near net.ipv4.neigh.default.gc_thresh3"], |tree| {
        neighbours(tree, "ipv4", "arp_cache", "000003ff");
    }),
    (&["error kernel-limit-reached net.ipv6.neigh.default.gc_thresh3"], |tree| {
        neighbours(tree, "ipv6", "ndisc_cache", "00000400");
    }),
    (&["warning kernel-limit-near net.netfilter.nf_conntrack_max"], |tree| {
        tree.put("proc/sys/net/netfilter/nf_conntrack_max", "262144\n");
        tree.put("proc/sys/net/netfilter/nf_conntrack_count", "262000\n");
    }),
    (&["error network-module-missing network rail (/etc/cni/net.d/rail.conf)"], |tree| {
        network(tree, "macvlan", ", \"master\": \"eth0\"");
        tree.put("lib/modules/6.12.0-tree/modules.builtin", "kernel/drivers/net/veth.ko\n");
    }),
    (&["error network-vf-layer network rail (/etc/cni/net.d/rail.conf)"], |tree| {
        network(tree, "sriov", "");
        tree.put("sys/class/infiniband/mlx5_2/ports/1/link_layer", "InfiniBand\n");
        tree.link(
            "sys/class/infiniband/mlx5_2/device",
            tree.path(&format!("sys/bus/pci/devices/{VF0}")).to_str().unwrap(),
        );
    }),
    (&["warning vf-used-by-node 0000:af:00.1"], |tree| {
        tree.put(&format!("sys/bus/pci/devices/{VF0}/net/eth2/x"), "");
        tree.put("sys/class/net/eth2/ifindex", "7");
        tree.link("sys/class/net/eth2/master", "../bond0");
    }),
    (&["warning pcie-speed-reduced 0000:af:00.0"], |tree| tree.pci("current_link_speed", "8.0 GT/s PCIe")),
    (&["warning pcie-width-reduced 0000:af:00.0"], |tree| tree.pci("current_link_width", "8")),
    (&["warning pcie-below-port 0000:af:00.0"], |tree| tree.put("sys/class/net/eth0/speed", "400000")),
    (&["warning pcie-errors 0000:af:00.0"], |tree| {
        tree.pci("aer_dev_nonfatal", "Undefined 0\nCmpltTO 3\nTOTAL_ERR_NONFATAL 3\n");
        tree.pci("aer_dev_fatal", "Undefined 0\nTOTAL_ERR_FATAL 0\n");
    }),
    (&["info pcie-small-reads 0000:af:00.0"], |tree| tree.pci("config", &configuration_space(0x2910))),
    (&["info pcie-ordered-writes 0000:af:00.0"], |tree| tree.pci("config", &configuration_space(0x5900))),
    (&["warning interrupts-remote 0000:af:00.0"], |tree| {
        tree.pci("local_cpulist", "0-1\n");
        for (irq, cpu) in [(40, 2), (41, 3)] {
            tree.pci(&format!("msi_irqs/{irq}"), "msix\n");
            tree.put(&format!("proc/irq/{irq}/effective_affinity_list"), &format!("{cpu}\n"));
        }
    }),
    (&["warning pcie-width-reduced 0000:01:00.0", "warning pcie-errors 0000:01:00.0"], |tree| {
        for (address, lanes, fatal) in [("0000:01:00.0", "8", "1"), ("0000:02:00.0", "16", "0")] {
            let gpu = [
                ("class", "0x030200"),
                ("vendor", "0x10de"),
                ("device", "0x2330"),
                ("numa_node", "0"),
                ("current_link_speed", "2.5 GT/s PCIe"),
                ("max_link_speed", "32.0 GT/s PCIe"),
                ("current_link_width", lanes),
                ("max_link_width", "16"),
                ("aer_dev_fatal", &format!("TOTAL_ERR_FATAL {fatal}\n")),
            ];
            for (name, text) in gpu {
                tree.put(&format!("sys/bus/pci/devices/{address}/{name}"), text);
            }
        }
        tree.put("sys/module/nvidia_peermem/x", "");
    }),
    (&["warning firmware-mixed mlx5_0, mlx5_1"], |tree| {
        tree.put("sys/class/infiniband/mlx5_1/fw_ver", "22.35.2000")
    }),
    (&["warning rdma-mode-command-line /proc/cmdline"], |tree| {
        tree.put("proc/cmdline", "quiet ib_core.netns_mode=1");
        tree.put("etc/modprobe.d/ib_core.conf", "options ib_core netns_mode=0\n");
    }),
    (&["warning rdma-mode-not-kept ib_core"], |tree| tree.put("proc/cmdline", "quiet ib_core.netns_mode=0")),
    (&["warning rdma-mode-built-in /etc/modprobe.d/ib_core.conf"], |tree| {
        tree.put("lib/modules/6.12.0-tree/modules.builtin", "kernel/drivers/infiniband/core/ib_core.ko\n");
        tree.put("etc/modprobe.d/ib_core.conf", "options ib_core netns_mode=1\n");
    }),
    (&["info rdma-mode-initramfs /boot/initrd.img-6.12.0-tree"], |tree| {
        tree.put("boot/initrd.img-6.12.0-tree", "");
        let initrd = fs::File::open(tree.path("boot/initrd.img-6.12.0-tree")).unwrap();
        initrd.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000)).unwrap();
        tree.put("etc/modprobe.d/ib_core.conf", "options ib_core netns_mode=1\n");
    }),
    (&["error exclusive-cannot-move mlx5_0"], |tree| {
        tree.put("sys/module/ib_core/parameters/netns_mode", "N\n");
        tree.put("etc/modprobe.d/ib_core.conf", "options ib_core netns_mode=0\n");
        tree.remove(&format!("sys/bus/pci/devices/{PF0}/driver"));
        tree.link(&format!("sys/bus/pci/devices/{PF0}/driver"), "../../../bus/pci/drivers/efa");
    }),
    (&["error rdma-missing ib_core"], |tree| {
        for path in ["sys/class/infiniband", "sys/module/ib_core"] {
            tree.remove(path);
        }
        for (address, number) in [(PF0, 0), (PF1, 1)] {
            tree.remove(&format!("sys/bus/pci/devices/{address}/infiniband/mlx5_{number}"));
        }
        tree.remove(&format!("sys/bus/pci/devices/{VF0}/infiniband"));
    }),
    (&["error rdma-no-device /sys/class/infiniband"], |tree| {
        for (device, address) in [("mlx5_0", PF0), ("mlx5_1", PF1)] {
            tree.remove(&format!("sys/class/infiniband/{device}"));
            tree.remove(&format!("sys/bus/pci/devices/{address}/infiniband"));
        }
        tree.remove(&format!("sys/bus/pci/devices/{VF0}/infiniband"));
    }),
    (&["info rdma-module-missing irdma"], |tree| {
        tree.put("sys/bus/pci/devices/0000:01:00.0/class", "0x020000");
        tree.link("sys/bus/pci/devices/0000:01:00.0/driver", "../../drivers/ice");
    }),
    (&["error uverbs-module-missing ib_uverbs"], |tree| {
        let text = fs::read_to_string(tree.path("proc/modules")).unwrap();
        tree.put("proc/modules", &text.replace("ib_uverbs", "loop"));
    }),
    (&["error rdma-stack-mixed ib_core"], |tree| {
        let text = fs::read_to_string(tree.path("proc/modules")).unwrap();
        tree.put("proc/modules", &text.replacen("Live 0x0", "Live 0x0 (OE)", 1));
    }),
    (&["info rdma-stack-vendor ib_core"], |tree| tree.put("sys/module/ib_core/version", "24.10-0.7.0\n")),
    (&["error ib-no-subnet-manager mlx5_0 port 1"], |tree| {
        tree.port("link_layer", "InfiniBand");
        tree.port("state", "2: INIT");
    }),
    (&["error port-not-active mlx5_0 port 1"], |tree| {
        tree.port("link_layer", "InfiniBand");
        tree.port("state", "1: DOWN");
        tree.port("phys_state", "2: Polling");
    }),
    (&["error link-no-carrier eth0"], |tree| {
        tree.put("sys/class/net/eth0/carrier", "0");
        tree.port("state", "1: DOWN");
    }),
    (&["error port-not-active mlx5_0 port 1"], |tree| tree.port("state", "1: DOWN")),
    (&["error node-guid-zero mlx5_1"], |tree| {
        tree.put("sys/class/infiniband/mlx5_1/node_guid", "0000:0000:0000:0000\n");
    }),
    (&["warning node-guid-duplicate mlx5_0"], |tree| {
        tree.put("sys/class/infiniband/mlx5_1/node_guid", "0c42:a103:0065:1230\n");
    }),
    (&["error gid-no-roce-v2 mlx5_0 port 1"], |tree| tree.port("gid_attrs/types/1", "IB/RoCE v1")),
    (&["warning gid-table-full mlx5_0 port 1"], |tree| {
        tree.remove("sys/class/infiniband/mlx5_0/ports/1/gids/2");
    }),
    (&["error mtu-too-small eth1", "warning mtu-differs eth1"], |tree| {
        tree.put("sys/class/net/eth1/mtu", "576")
    }),
    (&["error vf-without-rdma 0000:af:00.1"], |tree| {
        tree.remove(&format!("sys/bus/pci/devices/{VF0}/infiniband"));
    }),
    (&["error vf-count-differs 0000:af:00.0"], |tree| tree.pci("sriov_numvfs", "3")),
    (&["error pf-without-driver 0000:b0:00.0"], |tree| {
        tree.remove(&format!("sys/bus/pci/devices/{PF1}/driver"));
    }),
    (&["warning ecn-off eth0"], |tree| {
        for place in ["roce_np", "roce_rp"] {
            (0..8).for_each(|priority| {
                tree.put(&format!("sys/class/net/eth0/ecn/{place}/enable/{priority}"), "0")
            });
        }
    }),
    (&["info iommu-translates /proc/cmdline"], |tree| tree.put("sys/kernel/iommu_groups/12/type", "DMA-FQ")),
    (&["info acs-redirects 0000:af:00.0"], |tree| {
        tree.put("sys/bus/pci/devices/0000:c0:00.0/class", "0x030200");
        tree.put("sys/bus/pci/devices/0000:c0:00.0/vendor", "0x10de");
        tree.put("sys/bus/pci/devices/0000:c0:00.0/numa_node", "0");
        let mut config = vec![0; 4096];
        config[0x100..0x108].copy_from_slice(&[0x0d, 0, 1, 0, 0x1f, 0, 0x1d, 0]);
        fs::write(tree.path("sys/devices/pci0000:ae/0000:ae:00.0/config"), config).unwrap();
    }),
    (&["info numa-unknown 0000:af:00.0"], |tree| {
        tree.pci("numa_node", "-1");
        (0..2).for_each(|node| tree.put(&format!("sys/devices/system/node/node{node}/cpulist"), "0"));
    }),
    (&["info gpu-without-near-card 0000:c0:00.0"], |tree| {
        tree.put("sys/bus/pci/devices/0000:c0:00.0/class", "0x030200");
        tree.put("sys/bus/pci/devices/0000:c0:00.0/vendor", "0x10de");
        tree.put("sys/bus/pci/devices/0000:c0:00.0/numa_node", "1");
    }),
    (&["info kernel-lockdown kernel"], |tree| {
        tree.put("sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
    }),
    (&["info selinux-enforcing SELinux"], |tree| tree.put("sys/fs/selinux/enforce", "1")),
    (&["warning cni-version-other /opt/cni/bin"], |tree| {
        tree.put("opt/cni/bin/macvlan", "silkrail-cni 0.0.7\n");
    }),
    (&["error node-file-broken /etc/silkrail/node.yaml"], |tree| {
        tree.put("etc/silkrail/node.yaml", "pfs:\n  - match: {link: eth0}\n    numvfs: 4\n");
    }),
    (&["warning kernel-command-timeout 0000:af:00.0", "warning kernel-link-flaps 0000:af:00.0"], |tree| {
        let timeout = "wait_func:1:(pid 2): QUERY_QP(0x50b) timeout. Will cause a leak of a command resource";
        let flap = "5,2,6000000,-;mlx5_core 0000:af:00.0 eth0: Link down\n SUBSYSTEM=pci\n";
        tree.put("dev/kmsg", &format!("4,1,5000000,-;mlx5_core 0000:af:00.0: {timeout}\n{}", flap.repeat(3)));
        tree.put("proc/uptime", "3600.00 1.00\n");
    }),
    (&["error site-file-broken /etc/silkrail/site.yaml"], |tree| {
        tree.put("etc/silkrail/site.yaml", "roles:\n  - match: {link: eth0}\n    speed: 400\n");
    }),
    (&["error policy-broken /etc/silkrail/policy.yaml"], |tree| {
        tree.put("etc/silkrail/policy.yaml", "version: 1\nrules:\n- {name: a, allow: {master: [eth0]}}\n");
    }),
    (&["error site-ports-missing role rail"], |tree| {
        tree.put("etc/silkrail/site.yaml", "roles: [{name: rail, match: {link: 'eth*'}, ports: 3}]\n");
    }),
    (&["warning site-firmware-differs mlx5_1"], |tree| {
        tree.put(
            "etc/silkrail/site.yaml",
            "roles: [{name: rail, match: {link: 'eth*'}, firmware: ['22.41.*']}]\n",
        );
        tree.put("sys/class/infiniband/mlx5_1/fw_ver", "22.35.2000");
    }),
    (&["warning rdma-mode-competing /etc/modprobe.d/zz-other.conf"], |tree| {
        tree.put("etc/modprobe.d/ib_core.conf", "options ib_core netns_mode=0\n");
        tree.put("etc/modprobe.d/zz-other.conf", "options ib_core netns_mode=1\n");
    }),
    (&["warning rdma-mode-duplicate /etc/modprobe.d/ib_core.conf"], |tree| {
        tree.put("etc/modprobe.d/ib_core.conf", &"options ib_core netns_mode=1\n".repeat(2));
    }),
    (&["error cni-dangling /opt/cni/bin/sriov"], |tree| {
        tree.link("opt/cni/bin/sriov", "/nowhere/silkrail-cni")
    }),
    (&["error cni-not-executable /opt/cni/bin/sriov"], |tree| {
        let ours = fs::read_to_string(tree.path("opt/cni/bin/macvlan")).unwrap();
        tree.put("opt/cni/bin/sriov", &ours);
    }),
    (&["warning cni-foreign /opt/cni/bin/sriov"], |tree| {
        tree.put("opt/cni/bin/sriov", "#!/bin/sh\necho another project\n");
        fs::set_permissions(tree.path("opt/cni/bin/sriov"), fs::Permissions::from_mode(0o755)).unwrap();
    }),
    (&["error rdma-mode-malformed /etc/modprobe.d/a.conf"], |tree| {
        tree.put("etc/modprobe.d/a.conf", "options ib_core netns_mode=both\n");
    }),
    (&["info not-examined /sys/class/net/eth1/mtu"], |tree| tree.put("sys/class/net/eth1/mtu", "many")),
];

#[test]
fn a_healthy_tree_has_neither_error_nor_warning_and_lists_what_was_not_examined() {
    let found = DoctorFixture::new().found();
    assert!(found.iter().all(|finding| finding.starts_with("info")), "{found:?}");
    let kernel = "info not-examined data from netlink (addresses, drivers of software devices)";
    assert!(found.contains(&kernel.to_owned()), "{found:?}");
}

#[test]
fn each_fault_of_a_tree_is_reported_and_no_other() {
    let healthy = DoctorFixture::new().found();
    for (expected, plant) in FAULTS {
        let tree = DoctorFixture::new();
        plant(&tree);
        let mut found = tree.found();
        found.retain(|finding| !healthy.contains(finding));
        // Other findings of severity info may change with any fault.
        found.retain(|finding| !finding.starts_with("info") || expected.contains(&finding.as_str()));
        assert_eq!(found, expected);
    }
}

#[test]
fn the_site_file_accepts_and_expects_on_the_nodes_that_it_names() {
    let tree = DoctorFixture::new();
    tree.put("sys/class/net/eth1/carrier", "0");
    tree.put("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN");
    tree.put(
        "etc/site.yaml",
        "roles: [{name: unused, nodes: ['gpu-1?'], match: {rdma: mlx5_1}, cabled: false}]\n",
    );
    let root = tree.dir.path().display();
    let run = |more: &str| cli::silkrail(&format!("doctor --json --root {root} {more}"));
    let has = |report: &Value, id: &str| {
        report["findings"].as_array().unwrap().iter().any(|finding| finding["id"] == id)
    };
    assert!(has(&run("").ended(6).json(), "link-no-carrier"));
    assert!(!has(&run("--site /etc/site.yaml").ended(0).json(), "link-no-carrier"));
    let other = run("--site /etc/site.yaml --node-name cpu-1").ended(6).json();
    assert!(has(&other, "link-no-carrier"), "the role is of other nodes");
    assert!(has(&run("--site /etc/none.yaml").ended(6).json(), "site-file-broken"));
    tree.put("etc/silkrail/site.yaml", "ignore: [{finding: link-no-carrier, object: eth1, reason: moved}]\n");
    let accepted = run("").ended(0).json();
    assert_eq!(accepted["ignored"][0]["reason"], "moved", "{accepted}");
    let text = cli::silkrail(&format!("doctor --root {root}")).ended(0).stdout;
    assert!(text.ends_with("; the site file accepts 1 more (--json shows them)\n"), "{text}");
    // What the site expects of ports is recorded for the metrics.
    run("--record --site /etc/site.yaml").ended(0);
    let record: Value =
        serde_json::from_str(&fs::read_to_string(tree.path("run/silkrail/doctor.json")).unwrap()).unwrap();
    assert_eq!(record["ports"], serde_json::json!([{"device": "mlx5_1", "port": 1, "isUp": false}]));
    let state = tree.path("run/silkrail");
    let arguments =
        ["--once", "--node-name", "gpu-17", "--kubernetes", "off", "--state-dir", state.to_str().unwrap()];
    let output = silkrail_tests::daemon::run(&arguments);
    let metrics = silkrail_tests::scrape::Scrape::parse(std::str::from_utf8(&output.stdout).unwrap());
    assert_eq!(metrics.value("rdma_port_expected_up", &[("device", "mlx5_1"), ("port", "1")]), "0");
}

#[test]
fn every_kind_of_finding_is_listed_and_can_be_selected() {
    let list = cli::silkrail("doctor --list").ended(0).stdout;
    let tree = DoctorFixture::new();
    tree.port("state", "1: DOWN");
    tree.put("sys/class/infiniband/mlx5_1/fw_ver", "22.35.2000");
    for finding in tree.found() {
        let id = finding.split(' ').nth(1).unwrap().to_owned();
        assert!(list.lines().any(|line| line.split(' ').next() == Some(&id)), "{id} is not in\n{list}");
    }
    let root = tree.dir.path().display();
    let only = cli::silkrail(&format!("doctor --json --only firmware-mixed --root {root}")).ended(0).json();
    assert_eq!(only["findings"].as_array().unwrap().len(), 1, "{only}");
    cli::silkrail(&format!("doctor --only port-not-active --root {root}")).ended(6);
    cli::silkrail("doctor --only no-such-finding").ended(2);
}

#[test]
fn an_empty_tree_is_not_a_healthy_node() {
    let empty = tempfile::tempdir().unwrap();
    let text = cli::silkrail(&format!("doctor --root {}", empty.path().display())).ended(6).stdout;
    assert!(text.contains("[rdma-unknown]") && text.contains("[not-examined]"), "{text}");
}
