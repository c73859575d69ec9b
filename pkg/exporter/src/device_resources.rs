//! The objects that users of a device made.

use rdma::{
    Device, Handle,
    resource::{
        CmId, CompletionQueue, Context, CounterSet, MemoryRegion, ProtectionDomain, QueuePair,
        ResourceCounts, SharedReceiveQueue,
    },
};

use crate::{CollectError, Collector, ErrorReason};

/// The objects of a device. What this kernel does not tell of is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceResources {
    /// Queue pairs.
    pub queue_pairs: Vec<QueuePair>,
    /// Whether there are too many of them to be listed.
    pub queue_pairs_left_out: bool,
    /// Completion queues.
    pub completion_queues: Vec<CompletionQueue>,
    /// Memory regions.
    pub memory_regions: Vec<MemoryRegion>,
    /// Protection domains.
    pub protection_domains: Vec<ProtectionDomain>,
    /// User contexts: one for each time a process opened the device.
    pub contexts: Vec<Context>,
    /// Shared receive queues.
    pub shared_receive_queues: Vec<SharedReceiveQueue>,
    /// Connection manager IDs.
    pub cm_ids: Vec<CmId>,
    /// Sets of counters that are bound to queue pairs, if they were read.
    pub counter_sets: Option<Vec<CounterSet>>,
}

/// More objects of one kind are counted and not listed: a process can make millions, and a list has a hundred bytes for each.
const MAX_LISTED_RESOURCES: u64 = 65_536;

/// Lists them. Of a kind of which there are too many none are listed, and nothing of that kind is told by pod. A device that
/// nobody has opened is not asked: a list of queue pairs costs a firmware command for each.
pub(crate) fn read(
    rdma: &Handle,
    device: &Device,
    counts: &ResourceCounts,
    troubles: &mut Vec<CollectError>,
) -> Option<DeviceResources> {
    let mut objects = DeviceResources::default();
    let mut ask = ResourceReader { rdma, device, troubles };
    if counts.cm_id != Some(0) {
        objects.cm_ids = ask.list("connection manager IDs", counts.cm_id, Handle::cm_ids)?;
    }
    if counts.ctx == Some(0) {
        return Some(objects);
    }
    objects.contexts = ask.list("user contexts", counts.ctx, Handle::contexts)?;
    objects.protection_domains = ask.list("protection domains", counts.pd, Handle::protection_domains)?;
    objects.queue_pairs = ask.list("queue pairs", counts.qp, Handle::queue_pairs)?;
    objects.queue_pairs_left_out = counts.qp.is_some_and(|count| count > MAX_LISTED_RESOURCES);
    objects.completion_queues = ask.list("completion queues", counts.cq, Handle::completion_queues)?;
    objects.memory_regions = ask.list("memory regions", counts.mr, Handle::memory_regions)?;
    let queues = ask.list("shared receive queues", counts.srq, Handle::shared_receive_queues)?;
    objects.shared_receive_queues = queues;
    Some(objects)
}

/// What is said of a kind of which there are too many.
fn too_many(device: &str, kind: &str, count: Option<u64>) -> Option<CollectError> {
    let count = count.filter(|count| *count > MAX_LISTED_RESOURCES)?;
    let what = format!(
        "{device} has {count} {kind}; more than {MAX_LISTED_RESOURCES} are not listed, nor told by pod"
    );
    Some(CollectError { collector: Collector::Resources, reason: ErrorReason::TooMany, what })
}

struct ResourceReader<'a> {
    rdma: &'a Handle,
    device: &'a Device,
    troubles: &'a mut Vec<CollectError>,
}

impl ResourceReader<'_> {
    /// A list; `None` if there is none to be had, so that nothing is told of a device that was read half.
    fn list<T>(
        &mut self,
        kind: &str,
        count: Option<u64>,
        of: impl FnOnce(&Handle, &Device) -> Result<Option<Vec<T>>, rdma::Error>,
    ) -> Option<Vec<T>> {
        if let Some(trouble) = too_many(&self.device.name, kind, count) {
            self.troubles.push(trouble);
            return Some(Vec::new());
        }
        match of(self.rdma, self.device) {
            Ok(list) => Some(list.unwrap_or_default()),
            Err(rdma::Error::NoSuchDevice { .. }) => None,
            Err(error) => {
                self.troubles.push(CollectError::new(Collector::Resources, &error));
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
        let said = |count| too_many("mlx5_0", "memory regions", count);
        assert!(
            said(None).is_none() && said(Some(3)).is_none() && said(Some(MAX_LISTED_RESOURCES)).is_none()
        );
        let trouble = said(Some(1_000_000)).unwrap();
        assert_eq!(trouble.reason, ErrorReason::TooMany);
        assert!(trouble.what.starts_with("mlx5_0 has 1000000 memory regions"), "{}", trouble.what);
    }
}
