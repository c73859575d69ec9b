//! The objects that users of a device made.

use rdma::{
    Device, Socket,
    resource::{
        self, CmId, CompletionQueue, Context, CounterSet, MemoryRegion, ProtectionDomain, QueuePair,
        ResourceCounts, SharedReceiveQueue,
    },
};

use crate::{Collector, Reason, Trouble};

/// The objects of a device. What this kernel does not tell of is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Objects {
    /// Queue pairs.
    pub queue_pairs: Vec<QueuePair>,
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
const MOST: u64 = 65_536;

/// Lists them; none if there are too many. A device that nobody has opened is not asked: a list of queue pairs costs a firmware command for each.
pub(crate) fn read(
    socket: &mut Socket,
    device: &Device,
    counts: &ResourceCounts,
    troubles: &mut Vec<Trouble>,
) -> Option<Objects> {
    if let Some(what) = too_many(counts) {
        troubles.push(Trouble { collector: Collector::Resources, reason: Reason::TooMany, what });
        return None;
    }
    let mut objects = Objects::default();
    let mut ask = Ask { socket, device, troubles };
    if counts.cm_id != Some(0) {
        objects.cm_ids = ask.list(resource::cm_ids)?;
    }
    if counts.ctx == Some(0) {
        return Some(objects);
    }
    objects.contexts = ask.list(resource::contexts)?;
    objects.protection_domains = ask.list(resource::protection_domains)?;
    objects.queue_pairs = ask.list(resource::queue_pairs)?;
    objects.completion_queues = ask.list(resource::completion_queues)?;
    objects.memory_regions = ask.list(resource::memory_regions)?;
    objects.shared_receive_queues = ask.list(resource::shared_receive_queues)?;
    Some(objects)
}

/// What there is too much of.
fn too_many(counts: &ResourceCounts) -> Option<String> {
    let kinds = [
        ("queue pairs", counts.qp),
        ("completion queues", counts.cq),
        ("memory regions", counts.mr),
        ("protection domains", counts.pd),
        ("user contexts", counts.ctx),
        ("shared receive queues", counts.srq),
        ("connection manager IDs", counts.cm_id),
    ];
    let (kind, count) =
        kinds.into_iter().find_map(|(kind, count)| Some((kind, count.filter(|it| *it > MOST)?)))?;
    let device = &counts.device_name;
    Some(format!("{device} has {count} {kind}; more than {MOST} are not listed, nor told by pod"))
}

struct Ask<'a> {
    socket: &'a mut Socket,
    device: &'a Device,
    troubles: &'a mut Vec<Trouble>,
}

impl Ask<'_> {
    /// A list; `None` if there is none to be had, so that nothing is told of a device that was read half.
    fn list<T>(
        &mut self,
        of: impl FnOnce(&mut Socket, &Device) -> Result<Option<Vec<T>>, rdma::Error>,
    ) -> Option<Vec<T>> {
        match of(self.socket, self.device) {
            Ok(list) => Some(list.unwrap_or_default()),
            Err(rdma::Error::NoSuchDevice { .. }) => None,
            Err(error) => {
                self.troubles.push(Trouble::new(Collector::Resources, &error));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_objects_are_counted_and_not_listed() {
        let counts = |mr| ResourceCounts {
            device_name: "mlx5_0".into(),
            qp: Some(3),
            mr,
            ..ResourceCounts::default()
        };
        assert_eq!(too_many(&counts(None)), None);
        assert_eq!(too_many(&counts(Some(MOST))), None);
        let said = too_many(&counts(Some(1_000_000))).unwrap();
        assert!(said.starts_with("mlx5_0 has 1000000 memory regions"), "{said}");
    }
}
