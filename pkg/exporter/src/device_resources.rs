//! The objects of a device, such as queue pairs and memory regions.

use std::sync::Arc;

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

/// The objects of a device, and what was known of them when they were listed.
#[derive(Debug, Clone)]
pub(crate) struct ListedResources {
    /// The objects.
    pub(crate) objects: Arc<DeviceResources>,
    counts: ResourceCounts,
}

impl ListedResources {
    /// Lists the objects that the kernel has counted; `None` if that fails.
    pub(crate) fn read(
        rdma: &Handle,
        device: &Device,
        counts: ResourceCounts,
        errors: &mut Vec<CollectError>,
    ) -> Option<Self> {
        Some(Self { objects: Arc::new(list(rdma, device, &counts, errors)?), counts })
    }

    /// Whether the device still has as many objects of each type.
    pub(crate) fn has_counts(&self, counts: &ResourceCounts) -> bool {
        self.counts == *counts
    }

    /// Whether the same processes have the device open, by their user contexts, or on kernels that do not list them, by their
    /// protection domains. The kernel does not soon reuse the number of either, so others mean another process. This costs no
    /// firmware command.
    ///
    /// # Errors
    /// As of [`Handle::contexts`].
    pub(crate) fn has_same_users(&self, rdma: &Handle, device: &Device) -> Result<bool, rdma::Error> {
        if self.counts.ctx == Some(0) {
            return Ok(true);
        }
        let DeviceResources { contexts, protection_domains, .. } = &*self.objects;
        if !contexts.is_empty() {
            let now = rdma.contexts(device)?.unwrap_or_default();
            return Ok(now
                .iter()
                .map(|context| context.number)
                .eq(contexts.iter().map(|context| context.number)));
        }
        // Too many to be listed are too many to be compared.
        if protection_domains.is_empty() {
            return Ok(true);
        }
        let now = rdma.protection_domains(device)?.unwrap_or_default();
        Ok(now.iter().map(|pd| pd.number).eq(protection_domains.iter().map(|pd| pd.number)))
    }
}

/// More objects of one type are counted, but not listed: a process can create millions, and each needs about 100 bytes.
const MAX_LISTED_RESOURCES: u64 = 65_536;

/// Lists the objects. A type with too many objects is not listed, and not attributed to pods. Nothing is listed for a device
/// without user contexts, because listing queue pairs costs one firmware command each.
fn list(
    rdma: &Handle,
    device: &Device,
    counts: &ResourceCounts,
    errors: &mut Vec<CollectError>,
) -> Option<DeviceResources> {
    let mut objects = DeviceResources::default();
    let mut reader = ResourceReader { rdma, device, errors };
    objects.cm_ids = reader.list(counts.cm_id, Handle::cm_ids)?;
    if counts.ctx == Some(0) {
        return Some(objects);
    }
    objects.contexts = reader.list(counts.ctx, Handle::contexts)?;
    objects.protection_domains = reader.list(counts.pd, Handle::protection_domains)?;
    objects.queue_pairs = reader.list(counts.qp, Handle::queue_pairs)?;
    objects.queue_pairs_left_out = counts.qp.is_some_and(|count| count > MAX_LISTED_RESOURCES);
    objects.completion_queues = reader.list(counts.cq, Handle::completion_queues)?;
    objects.memory_regions = reader.list(counts.mr, Handle::memory_regions)?;
    let queues = reader.list(counts.srq, Handle::shared_receive_queues)?;
    objects.shared_receive_queues = queues;
    Some(objects)
}

/// Returns an error for each type with too many objects.
pub(crate) fn too_many_of_a_type<'a>(
    device: &'a str,
    counts: &ResourceCounts,
) -> impl Iterator<Item = CollectError> + use<'a> {
    let of_users = [
        ("user contexts", counts.ctx),
        ("protection domains", counts.pd),
        ("queue pairs", counts.qp),
        ("completion queues", counts.cq),
        ("memory regions", counts.mr),
        ("shared receive queues", counts.srq),
    ];
    let listed = if counts.ctx == Some(0) { 0 } else { of_users.len() };
    let types = of_users.into_iter().take(listed).chain([("connection manager IDs", counts.cm_id)]);
    types.filter_map(|(kind, count)| too_many(device, kind, count))
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
        count: Option<u64>,
        of: impl FnOnce(&Handle, &Device) -> Result<Option<Vec<T>>, rdma::Error>,
    ) -> Option<Vec<T>> {
        if count.is_some_and(|count| count == 0 || count > MAX_LISTED_RESOURCES) {
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
    fn each_type_with_too_many_objects_is_an_error_if_it_would_be_listed() {
        let none = ResourceCounts::default();
        let errors = |counts: &ResourceCounts| too_many_of_a_type("mlx5_0", counts).count();
        assert_eq!(errors(&none), 0);
        let many = Some(MAX_LISTED_RESOURCES + 1);
        let mut counts =
            ResourceCounts { qp: many, cq: many, mr: many, pd: many, srq: many, cm_id: many, ..none };
        assert_eq!(errors(&counts), 6);
        counts.ctx = many;
        assert_eq!(errors(&counts), 7);
        counts.ctx = Some(0);
        assert_eq!(errors(&counts), 1, "without user contexts only connection manager IDs are listed");
    }

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
