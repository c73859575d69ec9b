//! Sets of hardware counters that are bound to queue pairs.

use netlink_packet_rdma::{HwCounter, NldevAttribute, NldevCommand, ResourceAttribute, ResourceKind};

use super::{QpType, ResourceOwner, ResourceQuery};
use crate::{Device, Error, Handle};

/// A set of hardware counters that counts for some queue pairs of a port only.
///
/// It ends with its last queue pair; the port's own counters then keep what it counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterSet {
    /// Its number.
    pub id: u32,
    /// Its port, from 1.
    pub port: Option<u32>,
    /// Who binds queue pairs to it.
    pub mode: BindMode,
    /// The type that all its queue pairs have, if the kernel binds by type.
    pub kind: Option<QpType>,
    /// The thread that made all its queue pairs, if the kernel binds by process. It binds by thread.
    pub owner: ResourceOwner,
    /// The numbers of its queue pairs.
    pub queue_pairs: Vec<u32>,
    /// Its counters, in the driver's order.
    pub counters: Vec<HwCounter>,
}

/// Who binds queue pairs to sets of counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[doc(alias = "rdma_nl_counter_mode")]
pub enum BindMode {
    /// Nobody.
    None,
    /// The kernel: each new queue pair, by its type or its thread.
    Auto,
    /// An operator.
    Manual,
    /// A mode this crate does not know.
    Other(u32),
}

impl Handle {
    /// The sets of counters of a device; empty also if its driver has none, `None` if this kernel does not tell.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`] if the device is not visible in the handle's namespace; [`netlink::Error::Endless`]
    /// if a set has more queue pairs than an answer has room for, some 2,600: the handle cannot be used any more.
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_STAT_GET` as a dump, with `RDMA_NLDEV_ATTR_STAT_RES`, since 5.3. Each set costs the card's
    /// firmware a command.
    #[doc(alias = "rdma statistic qp show")]
    pub fn counter_sets(&self, device: &Device) -> Result<Option<Vec<CounterSet>>, Error> {
        const LIST: ResourceQuery = ResourceQuery {
            what: "sets of counters",
            command: NldevCommand::StatGet,
            kind: ResourceKind::CounterSet,
        };
        let of_queue_pairs = NldevAttribute::StatRes(ResourceKind::QueuePair.number().into());
        LIST.of(self, device, Some(of_queue_pairs), CounterSet::read)
    }
}

impl CounterSet {
    /// The set that an entry tells of; `None` without a number.
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
                // The kernel sends numbers here, never ranges, whose length nothing would bound.
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
