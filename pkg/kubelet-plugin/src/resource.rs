//! What a resource must provide.

use kubelet_api::deviceplugin::{self, ContainerAllocateResponse, NumaNode, TopologyInfo};
use tokio::sync::watch;

/// A device as the kubelet sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its ID, at most 63 bytes.
    pub id: String,
    /// Whether it can be given to a container.
    pub is_healthy: bool,
    /// Its NUMA node.
    pub numa_node: Option<u32>,
}

/// All devices of a resource, sorted by ID.
pub type DeviceList = Vec<Device>;

/// The error of a resource, as the kubelet shows it in the events of a pod.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ResourceError(pub String);

/// A resource. Its methods read files of sysfs only, and may be called by several threads.
pub trait Resource: Send + Sync + 'static {
    /// Returns its name, such as `rdma/hca_shared_devices`.
    fn name(&self) -> String;

    /// Returns the file name of its socket.
    fn socket_name(&self) -> String;

    /// Returns its devices, and their changes.
    fn devices(&self) -> watch::Receiver<DeviceList>;

    /// Returns which of the available devices a container should get; `None` if all are equal.
    ///
    /// # Errors
    /// If no devices can be chosen.
    fn preferred(
        &self,
        available: &[String],
        included: &[String],
        size: usize,
    ) -> Result<Option<Vec<String>>, ResourceError>;

    /// Returns what a container gets for its devices.
    ///
    /// # Errors
    /// If a device cannot be given to it. The kubelet then rejects the pod for ever.
    fn allocate(&self, ids: &[String]) -> Result<ContainerAllocateResponse, ResourceError>;

    /// Checks the devices of a container that is about to start, after the pod has its network.
    ///
    /// # Errors
    /// If a device is not as it was allocated. The kubelet tries again.
    fn check(&self, ids: &[String]) -> Result<(), ResourceError>;
}

impl From<&Device> for deviceplugin::Device {
    fn from(device: &Device) -> Self {
        let node = |id: u32| TopologyInfo { nodes: vec![NumaNode { id: i64::from(id) }] };
        Self {
            id: device.id.clone(),
            health: if device.is_healthy { "Healthy" } else { "Unhealthy" }.to_owned(),
            topology: device.numa_node.map(node),
        }
    }
}
