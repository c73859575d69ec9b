//! Which devices each resource has.

use std::{collections::BTreeMap, fmt};

use crate::{
    Mismatch, NodeDevice, NodeDevices, ResourceMode, ResourceName, ResourceSpec, config::ExclusiveType,
};

/// The devices of each resource, and why the other ones belong to none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceDevices {
    /// The devices, by resource; empty for a resource without devices.
    pub devices: BTreeMap<ResourceName, Vec<NodeDevice>>,
    /// The devices that no resource has, by their IDs, with the reason of each resource.
    pub excluded: BTreeMap<String, Vec<(ResourceName, Exclusion)>>,
}

/// Why a device does not belong to a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exclusion {
    /// No selector matches: the first key of each that does not.
    Selectors(Vec<Mismatch>),
    /// It has VFs, which would be reset with it.
    HasVfs(u32),
    /// The node's default route uses its link.
    DefaultRoute,
    /// Another device type is configured.
    Type {
        /// The type that is configured.
        expected: &'static str,
    },
}

impl ResourceDevices {
    /// Assigns each device to the first exclusive resource that selects it, and to all shared ones.
    pub fn assign(specs: &[ResourceSpec], devices: &NodeDevices) -> Self {
        let mut assigned = Self::default();
        for spec in specs {
            assigned.devices.insert(spec.name.clone(), Vec::new());
        }
        for device in &devices.devices {
            assigned.assign_device(specs, device);
        }
        assigned
    }

    /// Leaves a device without a driver or an RDMA device with the resources that had it, although selectors of drivers and of
    /// RDMA do not match any more: then the kubelet is told that it is unhealthy, and not that it does not exist.
    pub fn keep_unready(&mut self, former: &Self, devices: &NodeDevices) {
        for device in devices.devices.iter().filter(|device| device.driver.is_none() || !device.is_rdma()) {
            if !self.excluded.contains_key(&device.id) {
                continue;
            }
            for (name, _) in
                former.devices.iter().filter(|(_, list)| list.iter().any(|it| it.id == device.id))
            {
                if let Some(list) = self.devices.get_mut(name) {
                    list.push(device.clone());
                    self.excluded.remove(&device.id);
                }
            }
        }
    }

    fn assign_device(&mut self, specs: &[ResourceSpec], device: &NodeDevice) {
        let (mut is_assigned, mut has_owner, mut reasons) = (false, false, Vec::new());
        for spec in specs {
            let is_exclusive = matches!(spec.mode, ResourceMode::Exclusive(_));
            if is_exclusive && has_owner {
                continue;
            }
            match exclusion(spec, device) {
                Some(reason) => reasons.push((spec.name.clone(), reason)),
                None => {
                    self.devices.entry(spec.name.clone()).or_default().push(device.clone());
                    is_assigned = true;
                    has_owner |= is_exclusive;
                }
            }
        }
        if !is_assigned {
            self.excluded.insert(device.id.clone(), reasons);
        }
    }
}

fn exclusion(spec: &ResourceSpec, device: &NodeDevice) -> Option<Exclusion> {
    if let ResourceMode::Exclusive(expected) = spec.mode {
        let reason = exclusive_exclusion(expected, device);
        if reason.is_some() {
            return reason;
        }
    }
    let mismatches: Option<Vec<_>> =
        spec.selectors.iter().map(|selector| selector.mismatch(device)).collect();
    mismatches.map(Exclusion::Selectors)
}

fn exclusive_exclusion(expected: ExclusiveType, device: &NodeDevice) -> Option<Exclusion> {
    let is_expected = match expected {
        ExclusiveType::Network => device.function.is_some() && device.auxiliary_type.is_none(),
        ExclusiveType::Auxiliary => device.auxiliary_type.is_some(),
    };
    if !is_expected {
        return Some(Exclusion::Type { expected: expected.key() });
    }
    if device.num_vfs > 0 {
        return Some(Exclusion::HasVfs(device.num_vfs));
    }
    device.has_default_route.then_some(Exclusion::DefaultRoute)
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Selectors(mismatches) => {
                let texts: Vec<_> = mismatches.iter().map(ToString::to_string).collect();
                f.write_str(&texts.join("; "))
            }
            Self::HasVfs(number) => write!(f, "it has {number} VFs, which would be reset with it"),
            Self::DefaultRoute => f.write_str("the node's default route uses it"),
            Self::Type { expected } => write!(f, "its type is not deviceType {expected}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, device::fixture::vf};

    const FILE: &str = r#"{"resourceList": [
        {"resourceName": "low", "resourcePrefix": "a.io", "selectors": {"pfNames": ["p0#0-1"]}},
        {"resourceName": "all", "resourcePrefix": "a.io", "selectors": [{"pfNames": ["p1"]}, {"pfNames": ["p0"]}]},
        {"resourceName": "sf", "resourcePrefix": "a.io", "deviceType": "auxNetDevice", "selectors": {"auxTypes": ["sf"]}}
      ], "configList": [
        {"resourceName": "hca", "rdmaHcaMax": 100, "selectors": {"ifNames": ["p0", "p0v1"]}}
      ]}"#;

    fn pf() -> NodeDevice {
        NodeDevice {
            id: "0000:af:00.0".into(),
            links: vec!["p0".parse().unwrap()],
            pf: None,
            index: None,
            ..vf("p0", 0)
        }
    }

    fn assign(devices: &[NodeDevice]) -> ResourceDevices {
        let config = Config::parse(FILE).unwrap();
        assert_eq!(config.findings, []);
        ResourceDevices::assign(
            &config.resources,
            &NodeDevices { devices: devices.to_vec(), gpus: Vec::new() },
        )
    }

    fn ids(assigned: &ResourceDevices, name: &str) -> Vec<String> {
        assigned.devices[&name.parse().unwrap()].iter().map(|device| device.id.clone()).collect()
    }

    #[test]
    fn the_first_exclusive_resource_and_every_shared_one_has_the_device() {
        let devices: Vec<_> = (0..4).map(|index| vf("p0", index)).collect();
        let assigned = assign(&devices);
        assert_eq!(ids(&assigned, "a.io/low"), ["0000:af:00.2", "0000:af:00.3"]);
        assert_eq!(ids(&assigned, "a.io/all"), ["0000:af:00.4", "0000:af:00.5"]);
        assert_eq!(ids(&assigned, "rdma/hca"), ["0000:af:00.3"]);
        assert!(ids(&assigned, "a.io/sf").is_empty() && assigned.excluded.is_empty());
    }

    #[test]
    fn a_pf_with_vfs_and_a_link_with_the_default_route_are_not_given_out() {
        let with_vfs = NodeDevice { num_vfs: 8, ..pf() };
        let route = NodeDevice { id: "0000:b0:00.0".into(), has_default_route: true, ..vf("p0", 3) };
        let assigned = assign(&[with_vfs, route]);
        assert!(ids(&assigned, "a.io/all").is_empty());
        assert_eq!(ids(&assigned, "rdma/hca"), ["0000:af:00.0"], "shared, it is not taken from the node");
        let reasons: Vec<_> =
            assigned.excluded["0000:b0:00.0"].iter().map(|(name, why)| format!("{name}: {why}")).collect();
        assert_eq!(
            reasons,
            [
                "a.io/low: the node's default route uses it",
                "a.io/all: the node's default route uses it",
                "a.io/sf: its type is not deviceType auxNetDevice",
                "rdma/hca: ifNames is p0v3, expected p0 or p0v1",
            ]
        );
    }

    #[test]
    fn each_selector_tells_why_it_does_not_match() {
        let assigned = assign(&[vf("p7", 1)]);
        let reasons: BTreeMap<_, _> = assigned.excluded["0000:af:00.3"].iter().cloned().collect();
        let of = |name: &str| reasons[&name.parse().unwrap()].to_string();
        assert_eq!(of("a.io/all"), "pfNames is p7#1, expected p1; pfNames is p7#1, expected p0");
    }

    #[test]
    fn a_device_without_its_driver_stays_in_its_resource() {
        let config = Config::parse(
            r#"{"resourceList": [
                {"resourceName": "rdma", "resourcePrefix": "a.io", "selectors": {"isRdma": true}},
                {"resourceName": "vfio", "resourcePrefix": "a.io", "selectors": {"drivers": ["vfio-pci"]}}
            ]}"#,
        )
        .unwrap();
        let mut former = ResourceDevices::default();
        let mut ids_after = |device: NodeDevice| {
            let devices = NodeDevices { devices: vec![device], gpus: Vec::new() };
            let mut assigned = ResourceDevices::assign(&config.resources, &devices);
            assigned.keep_unready(&former, &devices);
            former = assigned.clone();
            assert_eq!(assigned.devices.values().flatten().count() + assigned.excluded.len(), 1);
            (ids(&assigned, "a.io/rdma").len(), ids(&assigned, "a.io/vfio").len())
        };
        let no_rdma = |driver: Option<&str>| NodeDevice {
            driver: driver.map(str::to_owned),
            rdma: Vec::new(),
            char_devices: Vec::new(),
            ..vf("p0", 0)
        };
        assert_eq!(ids_after(no_rdma(None)), (0, 0), "it was never selected");
        assert_eq!(ids_after(vf("p0", 0)), (1, 0));
        assert_eq!(ids_after(no_rdma(None)), (1, 0));
        assert_eq!(ids_after(no_rdma(Some("mlx5_core"))), (1, 0));
        assert_eq!(ids_after(no_rdma(Some("vfio-pci"))), (0, 1), "another resource selects it");
        assert_eq!(ids_after(no_rdma(None)), (0, 1));
    }

    #[test]
    fn a_pf_without_vfs_is_given_out() {
        assert_eq!(ids(&assign(&[pf()]), "a.io/all"), ["0000:af:00.0"]);
    }
}
