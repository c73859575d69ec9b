//! What a container gets for the devices that it was allocated.

use std::path::{Path, PathBuf};

use kubelet_api::deviceplugin::{ContainerAllocateResponse, DeviceSpec};
use prost::Message;
use serde_json::{Map, Value, json};
use sysfs::UserSpaceNodes;

use crate::{NodeDevice, ResourceName, ResourceSpec};

/// Makes the answers for a resource.
#[derive(Debug, Clone)]
pub struct Allocation<'a> {
    /// The resource.
    pub spec: &'a ResourceSpec,
    /// Whether there is `rdma_cm`, the connection manager's device, which all RDMA devices share.
    pub has_connection_manager: bool,
    /// Whether containers get `umadN` and `issmN`. Who can open them can send any management packet to the fabric, and can
    /// claim to be its subnet manager.
    pub has_management: bool,
}

/// Why a container cannot get a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AllocationError {
    /// The device has no character device.
    #[error("device {device} of {resource} has no uverbs device: {remedy}")]
    NoVerbs {
        /// The resource.
        resource: ResourceName,
        /// The device.
        device: String,
        /// What to do.
        remedy: &'static str,
    },
}

/// The directory of device nodes on the node.
const NODES: &str = "/dev";

impl Allocation<'_> {
    /// Returns the answer for devices that were read just now: their numbers change when they move to another namespace.
    ///
    /// # Errors
    /// [`AllocationError`]: a container must not start without its device.
    pub fn answer(
        &self,
        ids: &[String],
        devices: &[NodeDevice],
    ) -> Result<ContainerAllocateResponse, AllocationError> {
        let mut response = ContainerAllocateResponse::default();
        let mut information = Map::new();
        for device in devices {
            let nodes = self.nodes(device)?;
            information.insert(device.id.clone(), self.information(device, &nodes));
            nodes.iter().for_each(|node| add(&mut response.devices, node));
        }
        if devices.iter().any(|device| self.spec.requires_vhost_net(device)) {
            for node in ["vhost-net", "net/tun"] {
                add(&mut response.devices, &Path::new(NODES).join(node));
            }
        }
        for variable in variables(&self.spec.name) {
            response.envs.insert(format!("PCIDEVICE_{variable}"), ids.join(","));
            response
                .envs
                .insert(format!("PCIDEVICE_{variable}_INFO"), Value::Object(information.clone()).to_string());
        }
        Ok(response)
    }

    /// Returns the nodes of a device. Whether they exist is not tested: in a container, /dev is another one.
    pub(crate) fn nodes(&self, device: &NodeDevice) -> Result<Vec<PathBuf>, AllocationError> {
        let in_dev = |name: &str| Path::new(NODES).join(name);
        let is_rdma = self.spec.requires_rdma(device);
        let is_given = |name: &&String| is_rdma && (name.starts_with("uverbs") || self.has_management);
        let mut nodes: Vec<_> = device.char_devices.iter().filter(is_given).map(rdma_node).collect();
        if nodes.is_empty() && is_rdma {
            let remedy = if device.rdma.is_empty() {
                "its driver has not created an RDMA device"
            } else {
                "load ib_uverbs"
            };
            let resource = self.spec.name.clone();
            return Err(AllocationError::NoVerbs { resource, device: device.id.clone(), remedy });
        }
        if !nodes.is_empty() && self.has_connection_manager {
            nodes.push(in_dev("infiniband/rdma_cm"));
        }
        if let Some(UserSpaceNodes { group, uio, .. }) = &device.user_space {
            nodes.extend(group.iter().flat_map(|group| ["vfio/vfio", group]).map(in_dev));
            nodes.extend(uio.as_deref().map(in_dev));
        }
        Ok(nodes)
    }

    /// Returns the facts of a device in the form of sriov-network-device-plugin.
    fn information(&self, device: &NodeDevice, nodes: &[PathBuf]) -> Value {
        let mut information = json!({"generic": {"deviceID": device.id}});
        let mut rdma = Map::new();
        for node in nodes.iter().filter(|node| node.starts_with("/dev/infiniband")) {
            let name = node.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let key = name.trim_end_matches(|c: char| c.is_ascii_digit());
            rdma.insert(key.to_owned(), json!(node));
        }
        if !rdma.is_empty() {
            rdma.insert("rdma_dev".into(), json!(device.rdma.join(",")));
            information["rdma"] = Value::Object(rdma);
        }
        if let Some(UserSpaceNodes { group, uio, .. }) = &device.user_space {
            let in_dev = |node: &String| Path::new(NODES).join(node);
            if let Some(group) = group.as_ref().map(in_dev) {
                information["vfio"] = json!({"mount": "/dev/vfio/vfio", "dev-mount": group});
            }
            if let Some(uio) = uio.as_ref().map(in_dev) {
                information["uio"] = json!({"mount": uio});
            }
        }
        if self.spec.requires_vhost_net(device) {
            information["vhost"] = json!({"net-mount": "/dev/vhost-net", "tun-mount": "/dev/net/tun"});
        }
        // For a scalable function, the key is the address of its card (`NewAuxNetDevice` in pkg/auxnetdevice/auxNetDevice.go).
        let ids = [Some("*".into()), device.card(), Some(device.id.clone())];
        let of = |id: String| self.spec.additional_info.get(&id).and_then(Value::as_object);
        let extra: Map<_, _> =
            ids.into_iter().flatten().filter_map(of).flatten().map(|(k, v)| (k.clone(), v.clone())).collect();
        if !extra.is_empty() {
            information["extra"] = Value::Object(extra);
        }
        information
    }
}

/// Returns the node of a character device, such as `uverbs3`.
pub(crate) fn rdma_node(name: impl AsRef<str>) -> PathBuf {
    Path::new(NODES).join("infiniband").join(name.as_ref())
}

/// Returns the nodes of a device that no other device has, whether containers get them or not.
pub(crate) fn own_nodes(device: &NodeDevice) -> Vec<PathBuf> {
    let user_space = device.user_space.iter().flat_map(UserSpaceNodes::iter);
    let user_space = user_space.map(|node| Path::new(NODES).join(node));
    device.char_devices.iter().map(rdma_node).chain(user_space).collect()
}

/// Returns the names in environment variables: with the letters of the resource, and if it has a hyphen, which no shell can
/// read, with `_` in its place too.
fn variables(name: &ResourceName) -> Vec<String> {
    let exact = name.variable();
    let readable = exact.replace('-', "_");
    if exact == readable { vec![exact] } else { vec![exact, readable] }
}

/// Returns the nodes of an answer in the kubelet's checkpoint; none if it is malformed.
pub(crate) fn answered_nodes(answer: &[u8]) -> impl Iterator<Item = PathBuf> + use<> {
    let answer = ContainerAllocateResponse::decode(answer).unwrap_or_default();
    answer.devices.into_iter().map(|device| device.host_path.into())
}

fn add(devices: &mut Vec<DeviceSpec>, node: &Path) {
    let path = node.display().to_string();
    if !devices.iter().any(|device| device.host_path == path) {
        devices.push(DeviceSpec { container_path: path.clone(), host_path: path, permissions: "rw".into() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, device::fixture::vf};

    fn spec(keys: &str) -> ResourceSpec {
        let text = format!("resourceList: [{{resourceName: vf-a, resourcePrefix: a.io, {keys}}}]");
        let config = Config::parse(&text).unwrap();
        assert_eq!(config.findings, []);
        config.resources.into_iter().next().unwrap()
    }

    fn answer(
        spec: &ResourceSpec,
        has_management: bool,
        devices: &[NodeDevice],
    ) -> Result<ContainerAllocateResponse, AllocationError> {
        let ids: Vec<_> = devices.iter().map(|device| device.id.clone()).collect();
        Allocation { spec, has_connection_manager: true, has_management }.answer(&ids, devices)
    }

    fn names(response: &ContainerAllocateResponse) -> Vec<String> {
        let relative = |device: &DeviceSpec| {
            assert_eq!((&device.host_path, device.permissions.as_str()), (&device.container_path, "rw"));
            device.host_path.strip_prefix("/dev/").unwrap().to_owned()
        };
        response.devices.iter().map(relative).collect()
    }

    fn device(index: u32) -> NodeDevice {
        let number = index + 2;
        NodeDevice {
            char_devices: vec![format!("uverbs{number}"), format!("umad{number}"), format!("issm{number}")],
            ..vf("p0", index)
        }
    }

    #[test]
    fn a_container_gets_the_verbs_nodes_of_its_devices_only() {
        let spec = spec("selectors: {isRdma: true}");
        let response = answer(&spec, false, &[device(0), device(1)]).unwrap();
        assert_eq!(names(&response), ["infiniband/uverbs2", "infiniband/rdma_cm", "infiniband/uverbs3"]);
        let response = answer(&spec, true, &[device(0)]).unwrap();
        assert_eq!(
            names(&response),
            ["infiniband/uverbs2", "infiniband/umad2", "infiniband/issm2", "infiniband/rdma_cm"]
        );
        assert!(
            response.annotations.is_empty() && response.mounts.is_empty() && response.cdi_devices.is_empty()
        );
    }

    #[test]
    fn environment_variables_tell_the_devices() {
        let spec = spec(
            "selectors: {isRdma: true, needVhostNet: true}, additionalInfo: {'*': {rail: '1', x: a}, '0000:af:00.3': {rail: '2'}}",
        );
        let response = answer(&spec, false, &[device(0), device(1)]).unwrap();
        assert_eq!(names(&response)[3..], ["vhost-net", "net/tun"]);
        assert_eq!(response.envs["PCIDEVICE_A_IO_VF-A"], "0000:af:00.2,0000:af:00.3");
        assert_eq!(response.envs["PCIDEVICE_A_IO_VF_A"], response.envs["PCIDEVICE_A_IO_VF-A"]);
        let information: Value = serde_json::from_str(&response.envs["PCIDEVICE_A_IO_VF_A_INFO"]).unwrap();
        let uverbs = "/dev/infiniband/uverbs3";
        let expected = json!({
            "generic": {"deviceID": "0000:af:00.3"}, "rdma": {"uverbs": uverbs, "rdma_cm": "/dev/infiniband/rdma_cm", "rdma_dev": "mlx5_3"}, "vhost": {"net-mount": "/dev/vhost-net", "tun-mount": "/dev/net/tun"}, "extra": {"rail": "2", "x": "a"}
        });
        assert_eq!(information["0000:af:00.3"], expected);
    }

    /// The keys are those of the information providers of sriov-network-device-plugin (pkg/infoprovider), except that the node of a
    /// group without an IOMMU has its own name in the container, too.
    #[test]
    fn environment_variables_tell_the_nodes_of_user_space() {
        let spec = spec("selectors: {needVhostNet: true}");
        let nodes = |group: Option<&str>, uio: Option<&str>| {
            let [group, uio] = [group, uio].map(|node| node.map(str::to_owned));
            let user_space = Some(UserSpaceNodes { group, device: None, uio });
            let response = answer(&spec, false, &[NodeDevice { user_space, ..device(0) }]).unwrap();
            let information: Value =
                serde_json::from_str(&response.envs["PCIDEVICE_A_IO_VF_A_INFO"]).unwrap();
            information["0000:af:00.2"].clone()
        };
        let vhost = json!({"net-mount": "/dev/vhost-net", "tun-mount": "/dev/net/tun"});
        let vfio = json!({"mount": "/dev/vfio/vfio", "dev-mount": "/dev/vfio/noiommu-17"});
        let generic = json!({"deviceID": "0000:af:00.2"});
        assert_eq!(
            nodes(Some("vfio/noiommu-17"), None),
            json!({"generic": generic, "vfio": vfio, "vhost": vhost})
        );
        let uio = json!({"mount": "/dev/uio0"});
        assert_eq!(nodes(None, Some("uio0")), json!({"generic": generic, "uio": uio, "vhost": vhost}));
    }

    #[test]
    fn a_container_does_not_start_without_its_device() {
        let spec = spec("selectors: {isRdma: true}");
        let without = NodeDevice { char_devices: Vec::new(), ..device(0) };
        let error = answer(&spec, false, std::slice::from_ref(&without)).unwrap_err().to_string();
        assert_eq!(error, "device 0000:af:00.2 of a.io/vf-a has no uverbs device: load ib_uverbs");
        let without = NodeDevice { rdma: Vec::new(), ..without };
        let error = answer(&spec, false, &[without]).unwrap_err().to_string();
        assert!(error.ends_with("its driver has not created an RDMA device"), "{error}");
    }

    #[test]
    fn a_device_without_rdma_has_no_nodes() {
        let spec = spec("selectors: {pfNames: [p0]}");
        let device = NodeDevice { rdma: Vec::new(), char_devices: Vec::new(), ..device(0) };
        assert_eq!(names(&answer(&spec, false, std::slice::from_ref(&device)).unwrap()), [""; 0]);
        let [group, uio] = ["vfio/noiommu-17", "uio0"].map(|node| Some(node.to_owned()));
        let vfio = UserSpaceNodes { group, device: Some("vfio/devices/vfio3".into()), uio: None };
        let uio = UserSpaceNodes { uio, ..UserSpaceNodes::default() };
        let [vfio, uio] = [vfio, uio].map(|nodes| NodeDevice { user_space: Some(nodes), ..device.clone() });
        assert_eq!(names(&answer(&spec, false, &[vfio]).unwrap()), ["vfio/vfio", "vfio/noiommu-17"]);
        assert_eq!(names(&answer(&spec, false, &[uio]).unwrap()), ["uio0"]);
    }
}
