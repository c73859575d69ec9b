//! How many packets queue pairs have sent and received, by their packet numbers.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use rdma::resource::{QpState, QpType, QueuePair, ResourceOwner};

use crate::PodInfo;

/// Packet numbers begin anew here.
const PSN_MODULUS: u32 = 1 << 24;
/// A sender that sends packets again counts them again, from the first that was lost. A number that is this little below
/// the last one is such a step back, and no turn: so no more than `TURN - BACK` packets may pass between two samples.
const MAX_PSN_STEP_BACK: u32 = 1 << 20;

/// Packets, each once however often it was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PacketCounts {
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// The packets of a pod, and the port.
pub(crate) type PodPackets = ((Arc<PodInfo>, u32), PacketCounts);

/// The queue pairs of one device, as they were last seen.
#[derive(Debug, Default)]
pub(crate) struct PsnMeter {
    tracks: HashMap<u32, QueuePairTrack>,
}

#[derive(Debug)]
struct QueuePairTrack {
    pair: QueuePair,
    /// `None` before it is known; then the pod, if it is one's.
    holder: Option<Option<Arc<PodInfo>>>,
    sent: Option<u32>,
    received: Option<u32>,
    /// Since they were last asked for.
    packets: PacketCounts,
}

/// Whether a queue pair has numbers that mean something: it is a connection's, and a program's.
pub(crate) fn is_countable(pair: &QueuePair) -> bool {
    matches!(pair.kind, QpType::Rc | QpType::Uc)
        && matches!(pair.state, QpState::Rtr | QpState::Rts | QpState::Sqd)
        && !matches!(pair.owner, ResourceOwner::Kernel(_))
}

impl PsnMeter {
    /// Takes the numbers of all queue pairs that [count](is_countable). One that is seen for the first time has sent nothing
    /// yet: nobody knows with which number it began.
    pub(crate) fn turn(&mut self, pairs: &[QueuePair]) {
        let mut former = std::mem::take(&mut self.tracks);
        for pair in pairs {
            let track = former.remove(&pair.number).filter(|track| track.is_of(pair));
            let mut track = track.unwrap_or_else(|| QueuePairTrack::begin(pair));
            track.turn(pair);
            self.tracks.insert(pair.number, track);
        }
    }

    /// Whether of some it is not known whose they are.
    pub(crate) fn has_unassigned(&self) -> bool {
        self.tracks.values().any(|track| track.holder.is_none())
    }

    /// Learns whose those are of which it is not known.
    pub(crate) fn assign_owners(&mut self, whose: impl Fn(u32) -> Option<Option<Arc<PodInfo>>>) {
        for (number, track) in self.tracks.iter_mut().filter(|(_, track)| track.holder.is_none()) {
            track.holder = whose(*number);
        }
    }

    /// The packets since the last call, by pod and port: also none, of a pod that has a connection. Of a kernel that does
    /// not tell ports, only those of a device that has one.
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

    /// Whether that is the same queue pair. Cards use numbers again at once, but a new one is in another protection
    /// domain, or connected elsewhere. Its maker is not told any more when the thread has ended.
    fn is_of(&self, pair: &QueuePair) -> bool {
        let of = |pair: &QueuePair| (pair.kind, pair.protection_domain, pair.remote_number, pair.port);
        let makers = [&self.pair.owner, &pair.owner];
        of(&self.pair) == of(pair) && (makers.contains(&&ResourceOwner::Unknown) || makers[0] == makers[1])
    }

    fn turn(&mut self, pair: &QueuePair) {
        // Before it can send, its number is not set.
        let sends = pair.state != QpState::Rtr;
        self.packets.sent += psn_delta(&mut self.sent, pair.send_psn.filter(|_| sends));
        self.packets.received += psn_delta(&mut self.received, pair.receive_psn);
        if self.pair.owner == ResourceOwner::Unknown {
            self.pair.owner = pair.owner.clone();
        }
    }
}

/// How far a number went on.
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

    /// What pods have sent and received up to the last of these samples; all are pod `a`'s that are new.
    fn total(meter: &mut PsnMeter, samples: &[QueuePair]) -> (u64, u64) {
        let mut total = PacketCounts::default();
        for sample in samples {
            meter.turn(std::slice::from_ref(sample));
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
    fn packets_are_how_far_the_numbers_went_on() {
        assert_eq!(counted(&[pair(100, 7), pair(130, 7), pair(131, 9)]), (31, 2));
    }

    #[test]
    fn the_first_sight_of_a_queue_pair_gives_nothing() {
        let mut meter = PsnMeter::default();
        assert_eq!(total(&mut meter, &[pair(100, 7)]), (0, 0));
        assert_eq!(meter.packets(None), [((pod("a"), 1), PacketCounts::default())], "but its pod is told of");
    }

    #[test]
    fn numbers_that_begin_anew_at_24_bits_go_on() {
        assert_eq!(counted(&[pair(PSN_MODULUS - 5, PSN_MODULUS - 1), pair(10, 0)]), (15, 1));
        assert_eq!(
            counted(&[pair(7, 0), pair(6 + PSN_MODULUS - MAX_PSN_STEP_BACK, 0)]),
            ((PSN_MODULUS - MAX_PSN_STEP_BACK - 1).into(), 0)
        );
    }

    #[test]
    fn packets_that_are_sent_again_count_once() {
        assert_eq!(counted(&[pair(100, 0), pair(150, 0), pair(120, 0), pair(140, 0), pair(160, 0)]), (60, 0));
        assert_eq!(
            counted(&[pair(2, 0), pair(PSN_MODULUS - 1, 0), pair(4, 0)]),
            (2, 0),
            "back across the turn"
        );
    }

    #[test]
    fn a_number_that_is_used_again_makes_no_jump() {
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
    fn a_maker_that_ended_does_not_make_another_queue_pair() {
        let orphan = |sent| QueuePair { owner: ResourceOwner::Unknown, ..pair(sent, 0) };
        assert_eq!(counted(&[pair(100, 0), orphan(110), orphan(120)]), (20, 0));
    }

    #[test]
    fn what_another_pod_s_queue_pair_sends_under_the_same_number_is_the_other_s() {
        let mut meter = PsnMeter::default();
        assert_eq!(total(&mut meter, &[pair(0, 0), pair(5, 0)]), (5, 0));
        let other = |sent| QueuePair { protection_domain: Some(4), ..pair(sent, 0) };
        for sent in [700, 703] {
            meter.turn(&[other(sent)]);
            assert_eq!(meter.has_unassigned(), sent == 700);
            meter.assign_owners(|_| Some(Some(pod("b"))));
        }
        assert_eq!(meter.packets(None), [((pod("b"), 1), PacketCounts { sent: 3, received: 0 })]);
    }

    #[test]
    fn what_nobody_is_known_for_and_what_the_node_sends_is_no_pod_s() {
        let mut meter = PsnMeter::default();
        for (sent, holder) in [(10, None), (20, None), (30, Some(None)), (40, Some(Some(pod("late"))))] {
            meter.turn(&[pair(sent, 0)]);
            meter.assign_owners(|_| holder.clone());
            assert!(meter.packets(None).is_empty());
        }
        assert!(!meter.has_unassigned(), "the node's own stay the node's");
    }

    #[test]
    fn only_connections_of_programs_that_are_set_up_count() {
        assert!(is_countable(&pair(0, 0)) && is_countable(&QueuePair { kind: QpType::Uc, ..pair(0, 0) }));
        for state in [QpState::Reset, QpState::Init, QpState::Err, QpState::Sqe] {
            assert!(!is_countable(&QueuePair { state, ..pair(0, 0) }), "{state}");
        }
        assert!(!is_countable(&QueuePair { kind: QpType::Ud, ..pair(0, 0) }));
        assert!(!is_countable(&QueuePair { owner: ResourceOwner::Kernel("rds".into()), ..pair(0, 0) }));
    }

    #[test]
    fn what_a_queue_pair_will_send_first_is_not_known_before_it_can_send() {
        let receiving = |sent, received| QueuePair { state: QpState::Rtr, ..pair(sent, received) };
        assert_eq!(counted(&[receiving(0, 5), receiving(0, 8), pair(5000, 9), pair(5001, 9)]), (1, 4));
    }

    #[test]
    fn a_kernel_that_tells_no_port_is_believed_if_there_is_but_one() {
        let pair = |sent| QueuePair { port: None, ..pair(sent, 0) };
        let mut meter = PsnMeter::default();
        for (sent, only_port, told) in [(0, None, 0), (1, None, 0), (2, Some(1), 1)] {
            meter.turn(&[pair(sent)]);
            meter.assign_owners(|_| Some(Some(pod("a"))));
            assert_eq!(meter.packets(only_port).len(), told);
        }
    }
}
