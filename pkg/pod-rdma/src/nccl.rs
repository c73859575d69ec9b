//! The content of `nccl.conf`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    net::IpAddr,
    path::PathBuf,
};

use podmap::AttachMode;

use crate::{PodGid, PodRdma, PodRdmaDevice};

impl PodRdma {
    /// Returns the content of `nccl.conf` for a container with these device nodes, or unknown ones: the devices that it can open, and the GIDs that
    /// NCCL must use on them.
    ///
    /// NCCL has one GID index for all devices. If those of the devices differ, NCCL (2.21 and later) can choose them itself by
    /// address family, but only on devices that no other pod uses: of a shared one it would take the first index, which may be
    /// another pod's.
    pub fn nccl_conf(&self, nodes: &BTreeSet<PathBuf>) -> String {
        let mut text = "# Written by silkraild when the container was started.\n".to_owned();
        let can_open = |device: &&PodRdmaDevice| {
            let own = &device.char_devices;
            nodes.is_empty() || own.is_empty() || own.iter().any(|node| nodes.contains(node))
        };
        let devices: Vec<_> = self.devices.iter().filter(can_open).collect();
        let hcas: BTreeSet<_> = devices.iter().map(|device| (&device.name, device.port)).collect();
        let hcas: Vec<_> = hcas.into_iter().map(|(name, port)| format!("{name}:{port}")).collect();
        if hcas.is_empty() {
            return text;
        }
        // `=` after the first one: exactly these, not all whose names begin so.
        let _ = writeln!(text, "NCCL_IB_HCA=={}", hcas.join(","));
        if let Some(class) = devices.iter().find_map(|device| device.traffic_class) {
            let _ = writeln!(text, "NCCL_IB_TC={class}");
        }
        let roce: Vec<_> = devices.into_iter().filter(|device| !device.gids.is_empty()).collect();
        match GidSetting::of(&roce) {
            GidSetting::None => {}
            GidSetting::Index(index) => {
                let _ = writeln!(text, "NCCL_IB_GID_INDEX={index}");
            }
            GidSetting::Family(family) => {
                let _ = writeln!(text, "NCCL_IB_ADDR_FAMILY={family}\nNCCL_IB_ROCE_VERSION_NUM=2");
            }
            GidSetting::Differ => text += &differing(&roce),
        }
        text
    }
}

/// Whether an address is of a family.
type IsOfFamily = fn(&IpAddr) -> bool;

/// How NCCL finds the GIDs.
#[derive(Debug, PartialEq, Eq)]
enum GidSetting {
    /// There are none.
    None,
    /// At the same index of all devices.
    Index(u32),
    /// By the address family.
    Family(&'static str),
    /// It cannot.
    Differ,
}

impl GidSetting {
    /// Queue pairs connect addresses of the same family only, so the family must not depend on the indexes of a pod: it is IPv4 if
    /// all ports have such an address. Of several interfaces of a port the first is used, as in other pods.
    fn of(devices: &[&PodRdmaDevice]) -> Self {
        if devices.is_empty() {
            return Self::None;
        }
        let families: [(IsOfFamily, _); 2] = [(IpAddr::is_ipv4, "AF_INET"), (IpAddr::is_ipv6, "AF_INET6")];
        for (is_of_family, name) in families {
            let ports = gids_of_ports(devices, is_of_family);
            if ports.iter().any(Vec::is_empty) {
                continue;
            }
            let is_exclusive = devices.iter().all(|device| device.mode == AttachMode::Exclusive);
            return match common_index(&ports) {
                Some(index) => Self::Index(index),
                None if is_exclusive => Self::Family(name),
                None => Self::Differ,
            };
        }
        Self::Differ
    }
}

/// Returns the GIDs of a family that the pod has on each port, in the order of its interfaces.
fn gids_of_ports<'a>(devices: &[&'a PodRdmaDevice], is_of_family: IsOfFamily) -> Vec<Vec<&'a PodGid>> {
    let mut ports: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for device in devices {
        let gids = device.gids.iter().filter(|gid| is_of_family(&gid.address));
        ports.entry((&device.name, device.port)).or_default().extend(gids);
    }
    ports.into_values().collect()
}

/// Returns the first index that is the pod's on all ports.
fn common_index(ports: &[Vec<&PodGid>]) -> Option<u32> {
    let (first, others) = ports.split_first()?;
    let is_everywhere =
        |index: &u32| others.iter().all(|port| port.iter().any(|gid| gid.index == Some(*index)));
    first.iter().filter_map(|gid| gid.index).find(is_everywhere)
}

/// A comment. A line without `=` sets nothing.
fn differing(devices: &[&PodRdmaDevice]) -> String {
    let mut text =
        "# No NCCL_IB_GID_INDEX: NCCL uses the same index on all devices, and they differ:\n".to_owned();
    for device in devices {
        for gid in &device.gids {
            let index = gid.index.map_or("no GID".into(), |index| format!("index {index}"));
            let _ = writeln!(text, "#   {} port {}, {}: {index}", device.name, device.port, gid.address);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod_rdma::fixture::{device, pod};

    /// The lines without comments.
    fn conf(devices: Vec<PodRdmaDevice>) -> Vec<String> {
        let text = pod(devices).nccl_conf(&BTreeSet::new());
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    fn shared(name: &str, gids: &[(&str, Option<u32>)]) -> PodRdmaDevice {
        PodRdmaDevice { mode: AttachMode::Shared, ..device(name, gids) }
    }

    #[test]
    fn devices_with_a_common_index_are_used_with_it() {
        let found = conf(vec![
            device("mlx5_3", &[("10.0.0.1", Some(3))]),
            device("mlx5_5", &[("10.0.1.1", Some(3)), ("fd00::1", Some(5))]),
        ]);
        assert_eq!(found, ["NCCL_IB_HCA==mlx5_3:1,mlx5_5:1", "NCCL_IB_GID_INDEX=3"]);
        let found = conf(vec![device("a", &[("fd00::1", Some(5))]), device("b", &[("fd00::2", Some(5))])]);
        assert_eq!(found[1], "NCCL_IB_GID_INDEX=5");
    }

    #[test]
    fn ipv4_is_used_if_all_devices_have_it_whatever_the_indexes() {
        let gids =
            [[("10.0.0.1", Some(3)), ("fd00::1", Some(5))], [("10.0.0.2", Some(4)), ("fd00::2", Some(5))]];
        let exclusive = conf(vec![device("a", &gids[0]), device("b", &gids[1])]);
        assert_eq!(exclusive[1..], ["NCCL_IB_ADDR_FAMILY=AF_INET", "NCCL_IB_ROCE_VERSION_NUM=2"]);
        let shared = conf(vec![shared("a", &gids[0]), shared("b", &gids[1])]);
        assert_eq!(shared, ["NCCL_IB_HCA==a:1,b:1"]);
    }

    #[test]
    fn an_address_that_is_not_in_the_table_yet_does_not_change_the_family() {
        let found = conf(vec![device("a", &[("10.0.0.1", None), ("fd00::1", Some(5))])]);
        assert_eq!(found[1..], ["NCCL_IB_ADDR_FAMILY=AF_INET", "NCCL_IB_ROCE_VERSION_NUM=2"]);
        let found = conf(vec![shared("a", &[("10.0.0.1", None), ("fd00::1", Some(5))])]);
        assert_eq!(found[1..], [""; 0]);
    }

    #[test]
    fn exclusive_devices_with_other_indexes_are_used_by_address_family() {
        let found = conf(vec![device("a", &[("10.0.0.1", Some(3))]), device("b", &[("10.0.0.2", Some(5))])]);
        assert_eq!(
            found,
            ["NCCL_IB_HCA==a:1,b:1", "NCCL_IB_ADDR_FAMILY=AF_INET", "NCCL_IB_ROCE_VERSION_NUM=2"]
        );
        let found = conf(vec![device("a", &[("fd00::1", Some(3))]), device("b", &[("fd00::2", Some(5))])]);
        assert_eq!(found[1], "NCCL_IB_ADDR_FAMILY=AF_INET6");
    }

    #[test]
    fn what_nccl_cannot_be_told_is_a_comment() {
        let devices = vec![shared("a", &[("10.0.0.1", Some(9))]), shared("b", &[("10.0.0.2", Some(12))])];
        assert_eq!(conf(devices.clone()), ["NCCL_IB_HCA==a:1,b:1"]);
        let text = pod(devices).nccl_conf(&BTreeSet::new());
        for part in ["they differ", "#   a port 1, 10.0.0.1: index 9", "#   b port 1, 10.0.0.2: index 12"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(text.lines().filter(|line| line.starts_with('#')).all(|line| !line.contains('=')), "{text}");
        let missing = pod(vec![shared("a", &[("10.0.0.1", None)])]).nccl_conf(&BTreeSet::new());
        assert!(missing.contains("10.0.0.1: no GID"), "{missing}");
    }

    #[test]
    fn infiniband_needs_no_index_and_a_pod_without_devices_nothing() {
        assert_eq!(conf(vec![device("mlx5_0", &[])]), ["NCCL_IB_HCA==mlx5_0:1"]);
        assert_eq!(conf(Vec::new()), [""; 0]);
    }

    #[test]
    fn of_several_interfaces_of_a_port_the_first_is_used_if_it_can_be() {
        let two = || vec![shared("a", &[("10.0.0.1", Some(15))]), shared("a", &[("10.0.0.2", Some(12))])];
        assert_eq!(conf(two()), ["NCCL_IB_HCA==a:1", "NCCL_IB_GID_INDEX=15"]);
        let other = shared("b", &[("10.0.1.1", Some(12))]);
        assert_eq!(conf([two(), vec![other]].concat())[1], "NCCL_IB_GID_INDEX=12");
    }

    #[test]
    fn devices_that_the_container_cannot_open_are_left_out() {
        let with_node = |name: &str, node: &str, index| PodRdmaDevice {
            char_devices: vec![node.into()],
            ..device(name, &[("10.0.0.1", Some(index))])
        };
        let pod = pod(vec![
            with_node("a", "/dev/infiniband/uverbs0", 3),
            with_node("b", "/dev/infiniband/uverbs1", 4),
        ]);
        let text =
            pod.nccl_conf(&["/dev/infiniband/uverbs1".into(), "/dev/infiniband/rdma_cm".into()].into());
        assert!(text.ends_with("\nNCCL_IB_HCA==b:1\nNCCL_IB_GID_INDEX=4\n"), "{text}");
    }

    #[test]
    fn a_device_without_known_nodes_and_one_of_which_the_container_has_a_node_are_used() {
        let nodes = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let with_nodes =
            |name: &str, names: &[&str]| PodRdmaDevice { char_devices: nodes(names), ..device(name, &[]) };
        let pod = pod(vec![
            with_nodes("a", &[]),
            with_nodes("b", &["/dev/infiniband/uverbs1", "/dev/infiniband/umad1"]),
            with_nodes("c", &["/dev/infiniband/uverbs2"]),
        ]);
        let text = pod.nccl_conf(&["/dev/infiniband/umad1".into()].into());
        assert!(text.contains("NCCL_IB_HCA==a:1,b:1\n"), "{text}");
    }

    #[test]
    fn each_port_is_used_and_the_traffic_class_is_that_of_any_device() {
        let second = PodRdmaDevice { port: 2, traffic_class: Some(106), ..device("a", &[]) };
        let found = conf(vec![device("a", &[]), second]);
        assert_eq!(found, ["NCCL_IB_HCA==a:1,a:2", "NCCL_IB_TC=106"]);
    }

    #[test]
    fn one_shared_device_keeps_nccl_from_choosing_by_address_family() {
        let found = conf(vec![device("a", &[("10.0.0.1", Some(3))]), shared("b", &[("10.0.0.2", Some(5))])]);
        assert_eq!(found, ["NCCL_IB_HCA==a:1,b:1"]);
        let families =
            conf(vec![device("a", &[("10.0.0.1", Some(3))]), device("b", &[("fd00::1", Some(3))])]);
        assert_eq!(families, ["NCCL_IB_HCA==a:1,b:1"], "no family is on all ports");
    }
}
