//! The content of `nccl.conf`.

use std::{collections::BTreeSet, fmt::Write, net::IpAddr};

use podmap::AttachMode;

use crate::{PodRdma, PodRdmaDevice};

impl PodRdma {
    /// Returns the content of `nccl.conf`: the devices and the GIDs that NCCL must use.
    ///
    /// NCCL has one GID index for all devices. If those of the devices differ, NCCL (2.21 and later) can choose them itself by
    /// address family, but only on devices that no other pod uses: of a shared one it would take the first index, which may be
    /// another pod's.
    pub fn nccl_conf(&self) -> String {
        let mut text = "# Written by silkraild when the container was started.\n".to_owned();
        let hcas: BTreeSet<_> = self.devices.iter().map(|device| (&device.name, device.port)).collect();
        let hcas: Vec<_> = hcas.into_iter().map(|(name, port)| format!("{name}:{port}")).collect();
        if hcas.is_empty() {
            return text;
        }
        // `=` after the first one: exactly these, not all whose names begin so.
        let _ = writeln!(text, "NCCL_IB_HCA=={}", hcas.join(","));
        let roce: Vec<_> = self.devices.iter().filter(|device| !device.gids.is_empty()).collect();
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
    fn of(devices: &[&PodRdmaDevice]) -> Self {
        if devices.is_empty() {
            return Self::None;
        }
        let families: [(IsOfFamily, _); 2] = [(IpAddr::is_ipv4, "AF_INET"), (IpAddr::is_ipv6, "AF_INET6")];
        for (is_of_family, _) in families {
            if let Some(index) = common_index(devices, is_of_family) {
                return Self::Index(index);
            }
        }
        let is_exclusive = devices.iter().all(|device| device.mode == AttachMode::Exclusive);
        let in_all = families.into_iter().find(|(is_of_family, _)| {
            devices.iter().all(|device| first_index(device, *is_of_family).is_some())
        });
        match in_all {
            Some((_, family)) if is_exclusive => Self::Family(family),
            _ => Self::Differ,
        }
    }
}

/// Returns the index that the first address of a family has on all devices.
fn common_index(devices: &[&PodRdmaDevice], is_of_family: IsOfFamily) -> Option<u32> {
    let indexes: BTreeSet<_> = devices.iter().map(|device| first_index(device, is_of_family)).collect();
    if indexes.len() == 1 { indexes.into_iter().next()? } else { None }
}

fn first_index(device: &PodRdmaDevice, is_of_family: IsOfFamily) -> Option<u32> {
    device.gids.iter().find(|gid| is_of_family(&gid.address))?.index
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
        let text = pod(devices).nccl_conf();
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[test]
    fn devices_with_a_common_index_are_used_with_it() {
        let found = conf(vec![
            device("mlx5_3", &[("10.0.0.1", Some(3))]),
            device("mlx5_5", &[("10.0.1.1", Some(3)), ("fd00::1", Some(5))]),
        ]);
        assert_eq!(found, ["NCCL_IB_HCA==mlx5_3:1,mlx5_5:1", "NCCL_IB_GID_INDEX=3"]);
        // IPv4 differs, IPv6 does not.
        let found = conf(vec![
            device("a", &[("10.0.0.1", Some(3)), ("fd00::1", Some(5))]),
            device("b", &[("10.0.0.2", Some(4)), ("fd00::2", Some(5))]),
        ]);
        assert_eq!(found[1], "NCCL_IB_GID_INDEX=5");
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
        let shared = |name, gids: &[_]| PodRdmaDevice { mode: AttachMode::Shared, ..device(name, gids) };
        let devices = vec![shared("a", &[("10.0.0.1", Some(9))]), shared("b", &[("10.0.0.2", Some(12))])];
        assert_eq!(conf(devices.clone()), ["NCCL_IB_HCA==a:1,b:1"]);
        let text = pod(devices).nccl_conf();
        for part in ["they differ", "#   a port 1, 10.0.0.1: index 9", "#   b port 1, 10.0.0.2: index 12"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(text.lines().filter(|line| line.starts_with('#')).all(|line| !line.contains('=')), "{text}");
        let missing = pod(vec![device("a", &[("10.0.0.1", None)])]).nccl_conf();
        assert!(missing.contains("10.0.0.1: no GID"), "{missing}");
    }

    #[test]
    fn infiniband_needs_no_index_and_a_pod_without_devices_nothing() {
        assert_eq!(conf(vec![device("mlx5_0", &[])]), ["NCCL_IB_HCA==mlx5_0:1"]);
        assert_eq!(conf(Vec::new()), [""; 0]);
    }

    #[test]
    fn two_interfaces_of_a_shared_port_are_one_device() {
        let found = conf(vec![device("a", &[("10.0.0.1", Some(3))]), device("a", &[("10.0.0.2", Some(3))])]);
        assert_eq!(found[0], "NCCL_IB_HCA==a:1");
    }
}
