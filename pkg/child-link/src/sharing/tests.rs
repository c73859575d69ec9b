//! Tests of which port and GIDs a pod gets.

use cni::IpConfig;

use super::*;
use crate::fixture::{NodeFixture, link};

const V1: &str = "IB/RoCE v1";
const V2: &str = "RoCE v2";

/// Two ports of a bond, each with the link-local GID of its link.
fn two_ports() -> NodeFixture {
    let tree = NodeFixture::new();
    for (device, function) in [("mlx5_0", "0000:af:00.0"), ("mlx5_1", "0000:b0:00.0")] {
        tree.device(device, function, &[1]);
        tree.gids(device, &[("fe80::1", V1), ("fe80::1", V2)]);
    }
    tree
}

fn shared(need: SharedRdmaRequirement) -> SharedPorts {
    let port = |device: &str| SharedPort { device: device.into(), number: 1 };
    let ports = vec![port("mlx5_0"), port("mlx5_1")];
    SharedPorts { ports, need, parent: "bond0".into(), layer: LinkLayer::Ethernet }
}

fn pod(addresses: &[&str]) -> AddResult {
    let ip = |address: &&str| IpConfig { address: address.parse().unwrap(), gateway: None, interface: None };
    AddResult { ips: addresses.iter().map(ip).collect(), ..AddResult::default() }
}

fn described(tree: &NodeFixture, need: SharedRdmaRequirement, addresses: &[&str]) -> Result<RdmaInfo, Error> {
    let mut entry = RdmaInfo::default();
    shared(need).wait_and_describe(&tree.node, &pod(addresses), &mut entry)?;
    Ok(entry)
}

const REQUIRED: SharedRdmaRequirement = SharedRdmaRequirement::Required(Duration::from_millis(1));

#[test]
fn the_port_with_the_most_of_the_addresses_is_the_pods() {
    let tree = two_ports();
    tree.gids("mlx5_0", &[("fe80::1", V2), ("::ffff:10.7.0.5", V2), ("fd00:7::5", V1)]);
    tree.gids(
        "mlx5_1",
        &[("fe80::1", V2), ("::ffff:10.7.0.5", V1), ("::ffff:10.7.0.5", V2), ("fd00:7::5", V2)],
    );
    let entry = described(&tree, REQUIRED, &["10.7.0.5/24", "fd00:7::5/64"]).unwrap();
    assert_eq!(
        (entry.mode, entry.ibdev.as_deref(), entry.port),
        (AttachMode::Shared, Some("mlx5_1"), Some(1))
    );
    let gid = |index, gid: &str| GidInfo { index, kind: V2.into(), gid: gid.into() };
    assert_eq!(entry.gids, [gid(2, "::ffff:10.7.0.5"), gid(3, "fd00:7::5")]);
    let entry = described(&tree, REQUIRED, &["10.7.0.5/24"]).unwrap();
    assert_eq!(entry.ibdev.as_deref(), Some("mlx5_0"), "the first of equal ones");
}

#[test]
fn one_missing_gid_fails_only_a_pod_that_requires_all() {
    let tree = two_ports();
    tree.gids("mlx5_1", &[("fe80::1", V2), ("::ffff:10.7.0.5", V2)]);
    let addresses = ["10.7.0.5/24", "fd00:7::5/64"];
    let error = described(&tree, REQUIRED, &addresses).unwrap_err().to_string();
    assert!(error.starts_with("address fd00:7::5 did not become a RoCE v2 GID of mlx5_1 port 1"), "{error}");
    let entry = described(&tree, SharedRdmaRequirement::Optional, &addresses).unwrap();
    assert_eq!((entry.ibdev.as_deref(), entry.gids.len()), (Some("mlx5_1"), 1));
}

#[test]
fn no_port_has_roce_v2_only_if_each_lacks_it() {
    let tree = two_ports();
    let reason = || shared(REQUIRED).reason_unavailable(&tree.node).unwrap();
    for device in ["mlx5_0", "mlx5_1"] {
        assert_eq!(reason(), None);
        tree.gids(device, &[("fe80::1", V1), ("fe80::1", V1)]);
    }
    assert_eq!(reason(), Some(NoRoceV2::V1Only));
    let error = described(&tree, REQUIRED, &["10.7.0.5/24"]).unwrap_err().to_string();
    assert!(error.contains("10.7.0.5 cannot become a RoCE v2 GID"), "{error}");
}

#[test]
fn an_infiniband_port_has_gids_of_its_own() {
    let tree = two_ports();
    tree.file("class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand");
    tree.gids("mlx5_0", &[("fe80::1", V1), ("fe80::2", V1)]);
    let mut entry = RdmaInfo::default();
    let ports = SharedPorts { layer: LinkLayer::InfiniBand, ..shared(SharedRdmaRequirement::Optional) };
    ports.wait_and_describe(&tree.node, &pod(&["10.7.0.5/24"]), &mut entry).unwrap();
    assert_eq!((entry.ibdev.as_deref(), entry.port), (Some("mlx5_0"), Some(1)));
    let gid = |index, gid: &str| GidInfo { index, kind: "IB".into(), gid: gid.into() };
    assert_eq!(entry.gids, [gid(0, "fe80::1"), gid(1, "fe80::2")]);
}

#[test]
fn without_a_port_only_a_pod_that_requires_one_does_not_start() {
    let tree = two_ports();
    tree.link("eth0", "0000:af:00.0");
    let find = |name: &str, need| SharedPorts::find(&tree.node, &Parent { link: link(7, name) }, need);
    assert!(find("eth0", REQUIRED).unwrap().is_some());
    assert!(find("eth9", SharedRdmaRequirement::Optional).unwrap().is_none());
    assert!(find("eth9", REQUIRED).is_err_and(|error| error.to_string().contains("eth9")));
    tree.file("module/ib_core/parameters/netns_mode", "N");
    assert!(find("eth0", SharedRdmaRequirement::Optional).unwrap().is_none());
    assert!(find("eth0", REQUIRED).is_err_and(|error| error.to_string().contains("exclusive RDMA mode")));
}
