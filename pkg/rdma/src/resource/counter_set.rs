//! Counter sets: hardware counters that are bound to queue pairs.

use netlink_packet_rdma::{HwCounter, NldevAttribute, NldevCommand, ResourceAttribute, ResourceKind};

use super::{QpType, ResourceOwner, query::ResourceQuery};
use crate::{Device, Error, Handle};

/// A set of hardware counters that only counts for some queue pairs of a port.
///
/// It is deleted with its last queue pair; its values are then added to the port's own counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterSet {
    /// The number of the set.
    pub id: u32,
    /// The number of its port, from 1.
    pub port: Option<u32>,
    /// Whether the kernel or an operator binds queue pairs to it.
    pub mode: BindMode,
    /// The type of all its queue pairs, if the kernel binds by type.
    pub kind: Option<QpType>,
    /// The thread that created all its queue pairs, if the kernel binds by process (in fact by thread).
    pub owner: ResourceOwner,
    /// The numbers of its queue pairs.
    pub queue_pairs: Vec<u32>,
    /// The counters, in the driver's order.
    pub counters: Vec<HwCounter>,
}

/// How queue pairs are bound to counter sets (`RDMA_COUNTER_MODE_`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[doc(alias = "rdma_nl_counter_mode")]
pub enum BindMode {
    /// Queue pairs are not bound.
    None,
    /// The kernel binds each new queue pair, by its type or its thread.
    Auto,
    /// An operator binds queue pairs.
    Manual,
    /// A mode unknown to this crate.
    Other(u32),
}

impl Handle {
    /// Returns the counter sets of a device; empty also if its driver has none, `None` if this kernel does not report
    /// them.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`] if the device is not visible in the handle's namespace; [`netlink::Error::Endless`]
    /// if a set has more queue pairs than fit into a reply, about 2,600: then the handle cannot be used any more.
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_STAT_GET` as a dump, with `RDMA_NLDEV_ATTR_STAT_RES`, since 5.3. Each set needs a firmware
    /// command.
    #[doc(alias = "rdma statistic qp show")]
    pub fn counter_sets(&self, device: &Device) -> Result<Option<Vec<CounterSet>>, Error> {
        const LIST: ResourceQuery = ResourceQuery {
            what: "counter sets",
            command: NldevCommand::StatGet,
            kind: ResourceKind::CounterSet,
        };
        let of_queue_pairs = NldevAttribute::StatRes(ResourceKind::QueuePair.number().into());
        LIST.of(self, device, Some(of_queue_pairs), CounterSet::read)
    }
}

impl CounterSet {
    /// Reads the set in an entry; `None` without a number.
    pub fn read(entry: Vec<ResourceAttribute>) -> Option<Self> {
        let owner = ResourceOwner::of(&entry);
        let (mut id, mut port, mut mode, mut kind) = (None, None, BindMode::None, None);
        let (mut queue_pairs, mut counters) = (Vec::new(), Vec::new());
        for attribute in entry {
            match attribute {
                ResourceAttribute::StatCounterId(v) => id = Some(v),
                ResourceAttribute::PortIndex(v) => port = Some(v),
                ResourceAttribute::StatMode(v) => mode = v.into(),
                ResourceAttribute::Type(v) => kind = Some(v.into()),
                // The kernel sends single numbers here, never ranges, whose length would not be limited.
                ResourceAttribute::QueuePairs(v) => {
                    queue_pairs = v.into_iter().map(|one| one.first).collect()
                }
                ResourceAttribute::StatHwCounters(v) => counters = v,
                _ => {}
            }
        }
        Some(Self { id: id?, port, mode, kind, owner, queue_pairs, counters })
    }
}

impl From<u32> for BindMode {
    fn from(number: u32) -> Self {
        match number {
            0 => Self::None,
            1 => Self::Auto,
            2 => Self::Manual,
            other => Self::Other(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_rdma::QueuePairRange;

    use super::*;
    use ResourceAttribute::*;

    #[test]
    fn a_set_counts_for_its_queue_pairs() {
        let counters = vec![HwCounter { name: "rx_bytes".into(), value: 9 }];
        let bound = [17, 19].map(|number| QueuePairRange { first: number, last: number });
        let entry = vec![
            PortIndex(1),
            StatCounterId(4),
            StatMode(1),
            Type(2),
            Pid(304),
            QueuePairs(bound.to_vec()),
            StatHwCounters(counters.clone()),
        ];
        let expected = CounterSet {
            id: 4,
            port: Some(1),
            mode: BindMode::Auto,
            kind: Some(QpType::Rc),
            owner: ResourceOwner::Process(304),
            queue_pairs: vec![17, 19],
            counters,
        };
        assert_eq!(CounterSet::read(entry), Some(expected));
        assert_eq!(CounterSet::read(vec![PortIndex(1)]), None);
    }
}
