//! Which devices each resource has.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use crate::{
    DeviceUse, Mismatch, NodeDevice, NodeDevices, ResourceMode, ResourceName, ResourceSpec,
    config::ExclusiveType,
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
    /// It is no PCI function, of which k8s-rdma-shared-dev-plugin knows none, and no selector names it.
    Unnamed,
    /// Another device type is configured.
    Type {
        /// The type that is configured.
        expected: &'static str,
    },
}

impl ResourceDevices {
    /// Assigns each device to the first exclusive resource that selects it, and to all shared ones.
    ///
    /// A device stays with the resource that has `former`ly had it, or that the kubelet has allocated it from, although selectors
    /// do not match any more: without a driver, in a pod, or while its files cannot be read, a device has fewer properties. So
    /// the kubelet is told that it is unhealthy, or stays with its pod, and not that it does not exist.
    pub fn assign(
        specs: &[ResourceSpec],
        devices: &NodeDevices,
        former: &Self,
        device_use: &DeviceUse,
    ) -> Self {
        let mut assigned = Self::default();
        for spec in specs {
            assigned.devices.insert(spec.name.clone(), Vec::new());
        }
        for device in &devices.devices {
            assigned.assign_device(specs, device);
        }
        assigned.keep(former, devices, device_use);
        assigned
    }

    /// Returns the IDs of the devices of exclusive resources.
    pub fn exclusive(&self, specs: &[ResourceSpec]) -> BTreeSet<String> {
        let exclusive = specs.iter().filter(|spec| matches!(spec.mode, ResourceMode::Exclusive(_)));
        let devices = exclusive.filter_map(|spec| self.devices.get(&spec.name)).flatten();
        devices.map(|device| device.id.clone()).collect()
    }

    fn keep(&mut self, former: &Self, devices: &NodeDevices, device_use: &DeviceUse) {
        let incomplete = devices.devices.iter().filter(|device| is_incomplete(device));
        let incomplete: Vec<_> =
            incomplete.filter(|device| self.is_excluded_by_selectors(&device.id)).cloned().collect();
        for device in incomplete {
            let id = device.id.clone();
            self.give_back(
                &id,
                |name, had| {
                    let is_owner = had.is_some() || device_use.is_allocated(&name.to_string(), &id);
                    let selector = had.and_then(|had| had.selector);
                    is_owner.then(|| NodeDevice { selector, is_unselected: true, ..device.clone() })
                },
                former,
            );
        }
        for (id, error) in &devices.unreadable {
            let unreadable = |had: &NodeDevice| NodeDevice { unreadable: Some(error.clone()), ..had.clone() };
            self.give_back(id, |_, had| had.map(unreadable), former);
        }
    }

    /// Adds a device to each resource for which `device` returns it, given how the resource had it formerly.
    fn give_back(
        &mut self,
        id: &str,
        device: impl Fn(&ResourceName, Option<&NodeDevice>) -> Option<NodeDevice>,
        former: &Self,
    ) {
        for (name, list) in &mut self.devices {
            let had = former.devices.get(name).and_then(|had| had.iter().find(|it| it.id == id));
            if let Some(device) = device(name, had) {
                list.push(device);
                self.excluded.remove(id);
            }
        }
    }

    /// Whether nothing but selectors excludes a device: one with VFs, or of the default route, must not be given to a pod.
    fn is_excluded_by_selectors(&self, id: &str) -> bool {
        let reasons = self.excluded.get(id);
        let is_selector =
            |reason: &Exclusion| matches!(reason, Exclusion::Selectors(_) | Exclusion::Type { .. });
        reasons.is_some_and(|reasons| reasons.iter().all(|(_, reason)| is_selector(reason)))
    }

    fn assign_device(&mut self, specs: &[ResourceSpec], device: &NodeDevice) {
        let (mut is_assigned, mut has_owner, mut reasons) = (false, false, Vec::new());
        for spec in specs {
            let is_exclusive = matches!(spec.mode, ResourceMode::Exclusive(_));
            if is_exclusive && has_owner {
                continue;
            }
            match selection(spec, device) {
                Err(reason) => reasons.push((spec.name.clone(), reason)),
                Ok(selector) => {
                    let device = NodeDevice { selector: Some(selector), ..device.clone() };
                    self.devices.entry(spec.name.clone()).or_default().push(device);
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

/// Whether a device has lost properties that selectors need.
fn is_incomplete(device: &NodeDevice) -> bool {
    device.driver.is_none() || device.rdma.is_empty() || device.function.is_some() && device.links.is_empty()
}

/// Returns the place of the selector that matches a device.
fn selection(spec: &ResourceSpec, device: &NodeDevice) -> Result<usize, Exclusion> {
    if let ResourceMode::Exclusive(expected) = spec.mode
        && let Some(reason) = exclusive_exclusion(expected, device)
    {
        return Err(reason);
    }
    if matches!(spec.mode, ResourceMode::Shared { .. }) && !is_pci(device) && !spec.names(device) {
        return Err(Exclusion::Unnamed);
    }
    let mismatches = || spec.selectors.iter().filter_map(|selector| selector.mismatch(device)).collect();
    spec.matching(device).ok_or_else(|| Exclusion::Selectors(mismatches()))
}

fn is_pci(device: &NodeDevice) -> bool {
    device.function.as_ref().is_some_and(|function| function.pci().is_some())
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
            Self::Unnamed => {
                f.write_str("it is no PCI function, and neither ifNames, rdmaDevices nor drivers names it")
            }
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
        {"resourceName": "all", "resourcePrefix": "a.io", "selectors": [{"pfNames": ["p1"]}, {"pfNames": ["p0"]}, {"rdmaDevices": ["mlx5_0"]}]},
        {"resourceName": "sf", "resourcePrefix": "a.io", "deviceType": "auxNetDevice", "selectors": {"auxTypes": ["sf"]}}
      ], "configList": [
        {"resourceName": "hca", "rdmaHcaMax": 100, "selectors": {"ifNames": ["p0", "p0v1"]}}
      ]}"#;

    fn pf() -> NodeDevice {
        NodeDevice {
            id: "0000:af:00.0".into(),
            links: vec!["p0".parse().unwrap()],
            rdma: vec!["mlx5_0".into()],
            pf: None,
            index: None,
            ..vf("p0", 0)
        }
    }

    fn assign(devices: &[NodeDevice]) -> ResourceDevices {
        let config = Config::parse(FILE).unwrap();
        assert_eq!(config.findings, []);
        let devices = NodeDevices { devices: devices.to_vec(), ..NodeDevices::default() };
        ResourceDevices::assign(
            &config.resources,
            &devices,
            &ResourceDevices::default(),
            &DeviceUse::default(),
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
        assert_eq!(
            of("a.io/all"),
            "pfNames is p7#1, expected p1; pfNames is p7#1, expected p0; rdmaDevices is mlx5_3, expected mlx5_0"
        );
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
            let devices = NodeDevices { devices: vec![device], ..NodeDevices::default() };
            let assigned =
                ResourceDevices::assign(&config.resources, &devices, &former, &DeviceUse::default());
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
    fn a_pf_in_a_pod_stays_in_its_resource_and_one_with_a_default_route_does_not() {
        let config = Config::parse(FILE).unwrap();
        let node = |device: NodeDevice| NodeDevices { devices: vec![device], ..NodeDevices::default() };
        let former = assign(&[pf()]);
        let after = |devices: &NodeDevices, former: &ResourceDevices| {
            let assigned = ResourceDevices::assign(&config.resources, devices, former, &DeviceUse::default());
            let exclusive = assigned.exclusive(&config.resources);
            assert!(ids(&assigned, "a.io/all").iter().all(|id| exclusive.contains(id)));
            ids(&assigned, "a.io/all")
        };
        let in_pod = NodeDevice { links: Vec::new(), ..pf() };
        let in_pod = NodeDevice { rdma: Vec::new(), ..in_pod };
        assert_eq!(after(&node(in_pod.clone()), &former), ["0000:af:00.0"]);
        assert_eq!(after(&node(in_pod), &ResourceDevices::default()), [""; 0]);
        let without_rdma = NodeDevice { rdma: Vec::new(), char_devices: Vec::new(), ..pf() };
        let uplink = NodeDevice { has_default_route: true, ..without_rdma.clone() };
        let with_vfs = NodeDevice { num_vfs: 8, ..without_rdma };
        assert_eq!((after(&node(uplink), &former), after(&node(with_vfs), &former)), (vec![], vec![]));
        let dead = [("0000:af:00.0".to_owned(), "Input/output error".to_owned())].into();
        let unreadable = NodeDevices { unreadable: dead, ..NodeDevices::default() };
        assert_eq!(after(&unreadable, &former), ["0000:af:00.0"]);
    }

    #[test]
    fn a_pf_without_vfs_is_given_out() {
        assert_eq!(ids(&assign(&[pf()]), "a.io/all"), ["0000:af:00.0"]);
    }
}
