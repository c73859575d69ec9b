//! The objects of a device, such as queue pairs and memory regions.

use rdma::{
    Device, Handle,
    resource::{
        CmId, CompletionQueue, Context, MemoryRegion, ProtectionDomain, QueuePair, ResourceCounts,
        SharedReceiveQueue,
    },
};

use crate::{CollectError, Collector, ErrorReason};

/// The objects of a device. Types that the kernel does not list are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceResources {
    /// Queue pairs.
    pub queue_pairs: Vec<QueuePair>,
    /// Whether there are too many queue pairs to list them.
    pub queue_pairs_left_out: bool,
    /// Completion queues.
    pub completion_queues: Vec<CompletionQueue>,
    /// Memory regions.
    pub memory_regions: Vec<MemoryRegion>,
    /// Protection domains.
    pub protection_domains: Vec<ProtectionDomain>,
    /// User contexts: one for each open(2) of the device.
    pub contexts: Vec<Context>,
    /// Shared receive queues.
    pub shared_receive_queues: Vec<SharedReceiveQueue>,
    /// Connection manager IDs.
    pub cm_ids: Vec<CmId>,
}

/// More objects of one type are counted, but not listed: a process can create millions, and each needs about 100 bytes.
const MAX_LISTED_RESOURCES: u64 = 65_536;

/// Lists the objects. A type with too many objects is not listed, and not attributed to pods. Nothing is listed for a device
/// without user contexts, because listing queue pairs costs one firmware command each.
pub(crate) fn read(
    rdma: &Handle,
    device: &Device,
    counts: &ResourceCounts,
    errors: &mut Vec<CollectError>,
) -> Option<DeviceResources> {
    let mut objects = DeviceResources::default();
    let mut reader = ResourceReader { rdma, device, errors };
    if counts.cm_id != Some(0) {
        objects.cm_ids = reader.list("connection manager IDs", counts.cm_id, Handle::cm_ids)?;
    }
    if counts.ctx == Some(0) {
        return Some(objects);
    }
    objects.contexts = reader.list("user contexts", counts.ctx, Handle::contexts)?;
    objects.protection_domains = reader.list("protection domains", counts.pd, Handle::protection_domains)?;
    objects.queue_pairs = reader.list("queue pairs", counts.qp, Handle::queue_pairs)?;
    objects.queue_pairs_left_out = counts.qp.is_some_and(|count| count > MAX_LISTED_RESOURCES);
    objects.completion_queues = reader.list("completion queues", counts.cq, Handle::completion_queues)?;
    objects.memory_regions = reader.list("memory regions", counts.mr, Handle::memory_regions)?;
    let queues = reader.list("shared receive queues", counts.srq, Handle::shared_receive_queues)?;
    objects.shared_receive_queues = queues;
    Some(objects)
}

/// Returns the error for a type with too many objects.
fn too_many(device: &str, kind: &str, count: Option<u64>) -> Option<CollectError> {
    let count = count.filter(|count| *count > MAX_LISTED_RESOURCES)?;
    let what = format!(
        "{device} has {count} {kind}; more than {MAX_LISTED_RESOURCES} are not listed and not attributed to pods"
    );
    Some(CollectError { collector: Collector::Resources, reason: ErrorReason::TooMany, what })
}

struct ResourceReader<'a> {
    rdma: &'a Handle,
    device: &'a Device,
    errors: &'a mut Vec<CollectError>,
}

impl ResourceReader<'_> {
    /// Lists the objects of one type; `None` if that fails, so that a partly read device is not exposed.
    fn list<T>(
        &mut self,
        kind: &str,
        count: Option<u64>,
        of: impl FnOnce(&Handle, &Device) -> Result<Option<Vec<T>>, rdma::Error>,
    ) -> Option<Vec<T>> {
        if let Some(error) = too_many(&self.device.name, kind, count) {
            self.errors.push(error);
            return Some(Vec::new());
        }
        match of(self.rdma, self.device) {
            Ok(list) => Some(list.unwrap_or_default()),
            Err(rdma::Error::NoSuchDevice { .. }) => None,
            Err(error) => {
                self.errors.push(CollectError::new(Collector::Resources, &error));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_objects_of_a_kind_are_counted_and_not_listed() {
        let error = |count| too_many("mlx5_0", "memory regions", count);
        assert!(
            error(None).is_none() && error(Some(3)).is_none() && error(Some(MAX_LISTED_RESOURCES)).is_none()
        );
        let error = error(Some(1_000_000)).unwrap();
        assert_eq!(error.reason, ErrorReason::TooMany);
        assert!(error.what.starts_with("mlx5_0 has 1000000 memory regions"), "{}", error.what);
    }
}
