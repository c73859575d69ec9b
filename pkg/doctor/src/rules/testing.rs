//! The facts of a healthy node, for the tests of the rules: each test changes one fact.

mod snapshot;

use std::collections::BTreeMap;

use cni_networks::{Network, NetworkPlugin};
use serde_json::{Value, json};

use crate::{
    Finding, Known, NodeFacts,
    facts::{
        ExaminationScope,
        cni::{CniFacts, PluginFile, PluginFileKind},
        devices::{DeviceFacts, GidFacts, PortFacts},
        functions::FunctionFacts,
        kernel::KernelFacts,
        kubelet::{KubeletFacts, KubeletSocket, SocketState},
        limits::MemlockLimit,
        links::{CongestionControl, LinkFacts},
        mode::ModeFacts,
        networks::{NetworkOfNode, NetworkSource, PluginOfNetwork},
        nodes::{self, DeviceNode, DeviceNodes},
        pci_express::PcieLink,
        plugin_status::PluginStatus,
    },
};

/// Two PFs with a VF each, RoCE, in shared mode.
pub(super) fn healthy() -> NodeFacts {
    let socket = KubeletSocket { path: "/socket", purpose: "a test", state: SocketState::Listens };
    NodeFacts {
        look: ExaminationScope { superuser: true, this_machine: true, nodes_netns: Some(true) },
        kernel: kernel(),
        mode: ModeFacts {
            now: Some(rdma::NetnsMode::Shared),
            next: Some(modprobe::NextBootMode::of(&[], None)),
            ..ModeFacts::default()
        },
        functions: vec![pf(0), pf(1), vf(0), vf(1)],
        devices: vec![device(0, "0000:af:00.0"), device(1, "0000:b0:00.0"), device(2, "0000:af:00.1")],
        links: vec![link("eth0"), link("eth1"), LinkFacts { up: Known::Value(false), ..link("eth2") }],
        nodes: DeviceNodes { uverbs: vec![node("uverbs0", "231:192")], rdma_cm: node("rdma_cm", "10:122") },
        limits: vec![MemlockLimit { pid: Some(7), command: "containerd".into(), bytes: None }],
        cni: CniFacts {
            dir: "/opt/cni/bin".into(),
            dirs: vec!["/opt/cni/bin".into()],
            files: Known::Value(vec![ours("macvlan"), ours("sriov")]),
        },
        kubelet: KubeletFacts { is_there: true, sockets: vec![socket] },
        ..NodeFacts::default()
    }
}

fn kernel() -> KernelFacts {
    let modules = ["ib_core", "mlx5_core", "mlx5_ib", "ib_uverbs", "rdma_ucm"];
    KernelFacts {
        release: Known::Value("6.12.0".into()),
        command_line: Known::Value("quiet".into()),
        modules: Known::Value(modules.map(|name| (name.to_owned(), String::new())).into()),
        parts: Known::Value(Vec::new()),
        ib_core: Some(modprobe::IbCoreLocation::Module),
        has_rdma: Known::Value(true),
        numa_nodes: 1,
        ..KernelFacts::default()
    }
}

fn pf(number: u32) -> FunctionFacts {
    let (address, vf) = (
        ["0000:af:00.0", "0000:b0:00.0"][number as usize],
        ["0000:af:00.1", "0000:b0:00.1"][number as usize],
    );
    FunctionFacts {
        address: address.into(),
        vendor: "0x15b3".into(),
        model: "0x15b3:0x101b:0x15b3:0x0007".into(),
        driver: Some("mlx5_core".into()),
        vfs: vec![vf.into()],
        num_vfs: Known::Value(1),
        total_vfs: Known::Value(8),
        autoprobe: Known::Value(1),
        links: vec![format!("eth{number}")],
        rdma: vec![format!("mlx5_{number}")],
        uverbs: vec![format!("uverbs{number}")],
        numa_node: Some(0),
        pcie: PcieLink { speed: Some(16.0), max_speed: Some(16.0), width: Some(16), max_width: Some(16) },
        ..FunctionFacts::default()
    }
}

fn vf(number: u32) -> FunctionFacts {
    let pf = pf(number);
    FunctionFacts {
        address: pf.vfs[0].clone(),
        pf: Some(pf.address),
        vfs: Vec::new(),
        num_vfs: Known::Absent,
        total_vfs: Known::Absent,
        autoprobe: Known::Absent,
        links: vec![format!("eth{}", number + 2)],
        rdma: vec![format!("mlx5_{}", number + 2)],
        uverbs: vec![format!("uverbs{}", number + 2)],
        pcie: PcieLink::default(),
        ..pf
    }
}

fn device(number: u32, function: &str) -> DeviceFacts {
    let is_vf = number > 1;
    let link = format!("eth{number}");
    let gid = |index, kind| GidFacts {
        index,
        gid: "::ffff:172.81.0.1".parse().unwrap(),
        kind,
        link: Some(link.clone()),
    };
    DeviceFacts {
        name: format!("mlx5_{number}"),
        driver: Some("mlx5".into()),
        function: Some(function.into()),
        node_type: Known::Value("CA".into()),
        node_guid: Known::Value(format!("0c42:a103:0065:123{number}")),
        firmware: Known::Value("16.35.4506".into()),
        board: Known::Value("MT_0000000223".into()),
        ports: vec![PortFacts {
            number: 1,
            state: Known::Value(if is_vf { "DOWN" } else { "ACTIVE" }.into()),
            physical: Known::Value(if is_vf { "Disabled" } else { "LinkUp" }.into()),
            layer: Known::Value("Ethernet".into()),
            rate: Known::Value("100 Gb/sec (4X EDR)".into()),
            sm_lid: Known::Value("0x0".into()),
            link: Some(link.clone()),
            gids: Some(vec![gid(0, "RoCE v1"), gid(1, "RoCE v2")]),
            gid_table: 255,
            traffic_class: Some(106),
            cm_traffic_class: None,
        }],
    }
}

fn link(name: &str) -> LinkFacts {
    LinkFacts {
        name: name.into(),
        mtu: Known::Value(4200),
        up: Known::Value(true),
        carrier: Known::Value(1),
        speed: Known::Value(100_000),
        addresses: Some(vec!["172.81.0.1/16".parse().unwrap()]),
        lossless: CongestionControl {
            ecn_receiver: Some(vec![3]),
            ecn_sender: Some(vec![3]),
            trust: Some("dscp".into()),
        },
        ..LinkFacts::default()
    }
}

pub(super) fn node(name: &str, number: &str) -> DeviceNode {
    let file = nodes::DeviceNodeFile { is_device: true, number: number.into(), permissions: 0o666 };
    DeviceNode {
        path: format!("/dev/infiniband/{name}"),
        file: Known::Value(file),
        number: Known::Value(number.into()),
    }
}

pub(super) fn ours(name: &str) -> PluginFile {
    PluginFile {
        name: name.into(),
        kind: PluginFileKind::Ours { version: env!("CARGO_PKG_VERSION").into(), content: 1 },
        executable: true,
    }
}

/// A network for Multus, whose plugins are ours, are there and accept it.
pub(super) fn network(name: &str, plugins: &Value) -> NetworkOfNode {
    let list = json!({"cniVersion": "1.0.0", "name": name, "plugins": plugins});
    let plugin = |conf: NetworkPlugin| PluginOfNetwork {
        file: Known::Value(conf.kind.clone()),
        ipam_file: None,
        ours: true,
        status: Some(PluginStatus::Ready),
        conf,
    };
    let plugins = Network::from_file("x.conflist", &list.to_string()).unwrap().plugins;
    NetworkOfNode {
        source: NetworkSource::Multus(format!("/{name}")),
        name: name.into(),
        plugins: plugins.into_iter().map(plugin).collect(),
        resource: None,
    }
}

/// Returns the findings for a healthy node after `change`, as `severity id object`.
pub(super) fn with(change: impl FnOnce(&mut NodeFacts)) -> Vec<String> {
    let name = |finding: &Finding| format!("{} {} {}", finding.severity, finding.id, finding.object);
    findings(change).iter().map(name).collect()
}

/// Returns the findings for a healthy node after `change`. Each must be in the snapshot, with all its texts.
pub(super) fn findings(change: impl FnOnce(&mut NodeFacts)) -> Vec<Finding> {
    let mut facts = healthy();
    change(&mut facts);
    let findings = super::examine(&facts).findings;
    for finding in &findings {
        assert!(finding.severity == crate::Severity::Info || !finding.fix.is_empty(), "{finding:?}");
        snapshot::compare(finding);
    }
    findings
}

pub(super) fn modules(facts: &mut NodeFacts) -> &mut BTreeMap<String, String> {
    match &mut facts.kernel.modules {
        Known::Value(modules) => modules,
        _ => panic!("a healthy node's modules are known"),
    }
}
