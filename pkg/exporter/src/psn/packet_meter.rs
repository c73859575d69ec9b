//! Number of packets that queue pairs sent and received, computed from packet sequence numbers.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use rdma::resource::{QpState, QpType, QueuePair, ResourceOwner};

use crate::PodInfo;

/// Packet sequence numbers wrap around at this value.
const PSN_MODULUS: u32 = 1 << 24;
/// A sender that retransmits packets continues with the number of the first lost packet. A number that is at most this much
/// below the last one is a retransmission, not a wrap: at most `PSN_MODULUS - MAX_PSN_STEP_BACK` packets can be counted
/// between two samples.
const MAX_PSN_STEP_BACK: u32 = 1 << 20;

/// Numbers of packets. Retransmitted packets count once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PacketCounts {
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// Pod and port number, and the packets.
pub(crate) type PodPackets = ((Arc<PodInfo>, u32), PacketCounts);

/// The queue pairs of one device in the last sample.
#[derive(Debug, Default)]
pub(crate) struct PsnMeter {
    tracks: HashMap<u32, QueuePairTrack>,
}

#[derive(Debug)]
struct QueuePairTrack {
    pair: QueuePair,
    /// `None` while the owner is unknown; `Some(None)` for a process of the node.
    holder: Option<Option<Arc<PodInfo>>>,
    sent: Option<u32>,
    received: Option<u32>,
    /// The packets since the last call of [`PsnMeter::packets`].
    packets: PacketCounts,
}

/// Whether the packet numbers of a queue pair are meaningful: it is connected, and belongs to a user process.
pub(crate) fn is_countable(pair: &QueuePair) -> bool {
    matches!(pair.kind, QpType::Rc | QpType::Uc)
        && matches!(pair.state, QpState::Rtr | QpState::Rts | QpState::Sqd)
        && !matches!(pair.owner, ResourceOwner::Kernel(_))
}

impl PsnMeter {
    /// Adds a sample of all [countable](is_countable) queue pairs. The first sample of a queue pair counts no packets, because
    /// its initial number is unknown.
    pub(crate) fn sample(&mut self, pairs: &[QueuePair]) {
        let mut former = std::mem::take(&mut self.tracks);
        for pair in pairs {
            let track = former.remove(&pair.number).filter(|track| track.is_of(pair));
            let mut track = track.unwrap_or_else(|| QueuePairTrack::begin(pair));
            track.sample(pair);
            self.tracks.insert(pair.number, track);
        }
    }

    /// Whether the owner of any queue pair is unknown.
    pub(crate) fn has_unassigned(&self) -> bool {
        self.tracks.values().any(|track| track.holder.is_none())
    }

    /// Sets the owners of queue pairs owner_of owner is unknown; `owner_of` finds them by queue pair number.
    pub(crate) fn assign_owners(&mut self, owner_of: impl Fn(u32) -> Option<Option<Arc<PodInfo>>>) {
        for (number, track) in self.tracks.iter_mut().filter(|(_, track)| track.holder.is_none()) {
            track.holder = owner_of(*number);
        }
    }

    /// Returns the packets since the last call by pod and port, including pods with a connection and no packets. `only_port` is
    /// used if the kernel does not report the port of a queue pair.
    pub(crate) fn packets(&mut self, only_port: Option<u32>) -> Vec<PodPackets> {
        let mut all: BTreeMap<(Arc<PodInfo>, u32), PacketCounts> = BTreeMap::new();
        for track in self.tracks.values_mut() {
            let packets = std::mem::take(&mut track.packets);
            if let Some((pod, port)) = track.holder.clone().flatten().zip(track.pair.port.or(only_port)) {
                *all.entry((pod, port)).or_default() += packets;
            }
        }
        all.into_iter().collect()
    }
}

impl QueuePairTrack {
    fn begin(pair: &QueuePair) -> Self {
        Self {
            pair: pair.clone(),
            holder: None,
            sent: None,
            received: None,
            packets: PacketCounts::default(),
        }
    }

    /// Whether it is the same queue pair. Devices reuse queue pair numbers immediately, but a new queue pair has another
    /// protection domain or peer. The kernel does not report the creator if its thread has ended.
    fn is_of(&self, pair: &QueuePair) -> bool {
        let of = |pair: &QueuePair| (pair.kind, pair.protection_domain, pair.remote_number, pair.port);
        let makers = [&self.pair.owner, &pair.owner];
        of(&self.pair) == of(pair) && (makers.contains(&&ResourceOwner::Unknown) || makers[0] == makers[1])
    }

    fn sample(&mut self, pair: &QueuePair) {
        // The send number is not set before the state RTS.
        let sends = pair.state != QpState::Rtr;
        self.packets.sent += psn_delta(&mut self.sent, pair.send_psn.filter(|_| sends));
        self.packets.received += psn_delta(&mut self.received, pair.receive_psn);
        if self.pair.owner == ResourceOwner::Unknown {
            self.pair.owner = pair.owner.clone();
        }
    }
}

/// Returns the increment of a packet number since the last sample, and stores the number.
fn psn_delta(last: &mut Option<u32>, now: Option<u32>) -> u64 {
    let Some(now) = now else {
        *last = None;
        return 0;
    };
    let steps = last.map_or(0, |last| now.wrapping_sub(last) % PSN_MODULUS);
    if steps > PSN_MODULUS - MAX_PSN_STEP_BACK {
        return 0;
    }
    *last = Some(now);
    steps.into()
}

impl std::ops::AddAssign for PacketCounts {
    fn add_assign(&mut self, more: Self) {
        self.sent += more.sent;
        self.received += more.received;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connected queue pair, with the numbers of its next packets.
    fn pair(sent: u32, received: u32) -> QueuePair {
        QueuePair {
            number: 17,
            port: Some(1),
            kind: QpType::Rc,
            subtype: None,
            state: QpState::Rts,
            owner: ResourceOwner::Process(304),
            protection_domain: Some(3),
            remote_number: Some(18),
            send_psn: Some(sent),
            receive_psn: Some(received),
        }
    }

    fn pod(name: &str) -> Arc<PodInfo> {
        Arc::new(PodInfo { namespace: "ml".into(), name: name.into(), uid: Some(name.into()) })
    }

    /// Returns the packets sent and received in these samples. New queue pairs belong to pod `a`.
    fn total(meter: &mut PsnMeter, samples: &[QueuePair]) -> (u64, u64) {
        let mut total = PacketCounts::default();
        for sample in samples {
            meter.sample(std::slice::from_ref(sample));
            meter.assign_owners(|_| Some(Some(pod("a"))));
            for (_, packets) in meter.packets(None) {
                total += packets;
            }
        }
        (total.sent, total.received)
    }

    fn counted(samples: &[QueuePair]) -> (u64, u64) {
        total(&mut PsnMeter::default(), samples)
    }

    #[test]
    fn packets_are_the_increments_of_the_numbers() {
        assert_eq!(counted(&[pair(100, 7), pair(130, 7), pair(131, 9)]), (31, 2));
    }

    #[test]
    fn the_first_sample_of_a_queue_pair_counts_no_packets() {
        let mut meter = PsnMeter::default();
        assert_eq!(total(&mut meter, &[pair(100, 7)]), (0, 0));
        assert_eq!(
            meter.packets(None),
            [((pod("a"), 1), PacketCounts::default())],
            "but its pod is reported"
        );
    }

    #[test]
    fn numbers_continue_after_a_24_bit_wrap() {
        assert_eq!(counted(&[pair(PSN_MODULUS - 5, PSN_MODULUS - 1), pair(10, 0)]), (15, 1));
        assert_eq!(
            counted(&[pair(7, 0), pair(6 + PSN_MODULUS - MAX_PSN_STEP_BACK, 0)]),
            ((PSN_MODULUS - MAX_PSN_STEP_BACK - 1).into(), 0)
        );
    }

    #[test]
    fn retransmitted_packets_count_once() {
        assert_eq!(counted(&[pair(100, 0), pair(150, 0), pair(120, 0), pair(140, 0), pair(160, 0)]), (60, 0));
        assert_eq!(
            counted(&[pair(2, 0), pair(PSN_MODULUS - 1, 0), pair(4, 0)]),
            (2, 0),
            "a step back across the wrap"
        );
    }

    #[test]
    fn a_reused_number_causes_no_jump() {
        let before = pair(100, 100);
        let others = [
            QueuePair { protection_domain: Some(4), ..pair(9000, 9000) },
            QueuePair { remote_number: Some(19), ..pair(9000, 9000) },
            QueuePair { owner: ResourceOwner::Process(305), ..pair(9000, 9000) },
            QueuePair { kind: QpType::Uc, ..pair(9000, 9000) },
        ];
        for other in others {
            let next = QueuePair { send_psn: Some(9001), ..other.clone() };
            assert_eq!(counted(&[before.clone(), other, next]), (1, 0));
        }
    }

    #[test]
    fn a_queue_pair_remains_the_same_when_its_thread_ends() {
        let orphan = |sent| QueuePair { owner: ResourceOwner::Unknown, ..pair(sent, 0) };
        assert_eq!(counted(&[pair(100, 0), orphan(110), orphan(120)]), (20, 0));
    }

    #[test]
    fn packets_under_a_reused_number_belong_to_the_new_pod() {
        let mut meter = PsnMeter::default();
        assert_eq!(total(&mut meter, &[pair(0, 0), pair(5, 0)]), (5, 0));
        let other = |sent| QueuePair { protection_domain: Some(4), ..pair(sent, 0) };
        for sent in [700, 703] {
            meter.sample(&[other(sent)]);
            assert_eq!(meter.has_unassigned(), sent == 700);
            meter.assign_owners(|_| Some(Some(pod("b"))));
        }
        assert_eq!(meter.packets(None), [((pod("b"), 1), PacketCounts { sent: 3, received: 0 })]);
    }

    #[test]
    fn packets_of_the_node_and_of_unknown_owners_belong_to_no_pod() {
        let mut meter = PsnMeter::default();
        for (sent, holder) in [(10, None), (20, None), (30, Some(None)), (40, Some(Some(pod("late"))))] {
            meter.sample(&[pair(sent, 0)]);
            meter.assign_owners(|_| holder.clone());
            assert!(meter.packets(None).is_empty());
        }
        assert!(!meter.has_unassigned(), "the owner of the node's queue pairs is known");
    }

    #[test]
    fn only_connected_queue_pairs_of_user_processes_count() {
        assert!(is_countable(&pair(0, 0)) && is_countable(&QueuePair { kind: QpType::Uc, ..pair(0, 0) }));
        for state in [QpState::Reset, QpState::Init, QpState::Err, QpState::Sqe] {
            assert!(!is_countable(&QueuePair { state, ..pair(0, 0) }), "{state}");
        }
        assert!(!is_countable(&QueuePair { kind: QpType::Ud, ..pair(0, 0) }));
        assert!(!is_countable(&QueuePair { owner: ResourceOwner::Kernel("rds".into()), ..pair(0, 0) }));
    }

    #[test]
    fn the_send_number_is_ignored_before_the_state_rts() {
        let receiving = |sent, received| QueuePair { state: QpState::Rtr, ..pair(sent, received) };
        assert_eq!(counted(&[receiving(0, 5), receiving(0, 8), pair(5000, 9), pair(5001, 9)]), (1, 4));
    }

    #[test]
    fn a_missing_port_is_the_only_port_of_the_device() {
        let pair = |sent| QueuePair { port: None, ..pair(sent, 0) };
        let mut meter = PsnMeter::default();
        for (sent, only_port, expected) in [(0, None, 0), (1, None, 0), (2, Some(1), 1)] {
            meter.sample(&[pair(sent)]);
            meter.assign_owners(|_| Some(Some(pod("a"))));
            assert_eq!(meter.packets(only_port).len(), expected);
        }
    }
}
