//! Queue pairs.

use netlink_packet_rdma::{NldevCommand, ResourceAttribute, ResourceKind};

use super::{QpState, QpType, ResourceOwner, ResourceQuery};
use crate::{Device, Error, Handle};

/// A queue pair: one end of a connection, or of none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePair {
    /// Its number; the kernel's own 1 may be there once for each port.
    pub number: u32,
    /// Its port, from 1; not before it is initialised, and not every kernel tells.
    pub port: Option<u32>,
    /// Its transport.
    pub kind: QpType,
    /// The driver's own name for its transport, like `DCT`. Linux 6.11 and newer tell.
    pub subtype: Option<String>,
    /// Its state.
    pub state: QpState,
    /// Who made it.
    pub owner: ResourceOwner,
    /// Its protection domain: not told of the kernel's own.
    pub protection_domain: Option<u32>,
    /// The number of the queue pair it is connected to: only RC and UC.
    pub remote_number: Option<u32>,
    /// The number of the next packet to be sent, modulo 2^24. What it is worth depends on the driver.
    pub send_psn: Option<u32>,
    /// The number of the next packet to be received, modulo 2^24: only RC and UC.
    pub receive_psn: Option<u32>,
}

impl Handle {
    /// The queue pairs of a device; `None` if this kernel does not tell.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`] if the device is not visible in the handle's namespace.
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_RES_QP_GET` as a dump, since 4.16. The driver is asked for each queue pair's state: with mlx5
    /// that is a command to the firmware for each.
    #[doc(alias = "rdma resource show qp")]
    pub fn queue_pairs(&self, device: &Device) -> Result<Option<Vec<QueuePair>>, Error> {
        const LIST: ResourceQuery = ResourceQuery {
            what: "queue pairs",
            command: NldevCommand::ResQpGet,
            kind: ResourceKind::QueuePair,
        };
        LIST.of(self, device, None, QueuePair::read)
    }
}

impl QueuePair {
    /// The queue pair that an entry tells of; `None` without a number, a type or a state.
    pub fn read(entry: Vec<ResourceAttribute>) -> Option<Self> {
        let owner = ResourceOwner::of(&entry);
        let (mut number, mut kind, mut state) = (None, None, None);
        let (mut port, mut subtype, mut protection_domain) = (None, None, None);
        let (mut remote_number, mut send_psn, mut receive_psn) = (None, None, None);
        for attribute in entry {
            match attribute {
                ResourceAttribute::Lqpn(v) => number = Some(v),
                ResourceAttribute::Type(v) => kind = Some(v.into()),
                ResourceAttribute::State(v) => state = Some(v.into()),
                ResourceAttribute::PortIndex(v) => port = Some(v),
                ResourceAttribute::Subtype(v) => subtype = Some(v),
                ResourceAttribute::Pdn(v) => protection_domain = Some(v),
                ResourceAttribute::Rqpn(v) => remote_number = Some(v),
                ResourceAttribute::SqPsn(v) => send_psn = Some(v),
                ResourceAttribute::RqPsn(v) => receive_psn = Some(v),
                _ => {}
            }
        }
        Some(Self {
            number: number?,
            port,
            kind: kind?,
            subtype,
            state: state?,
            owner,
            protection_domain,
            remote_number,
            send_psn,
            receive_psn,
        })
    }

    /// The name of its transport: the driver's own if there is one, in lower case, like `rc` or `dct`.
    pub fn transport(&self) -> String {
        match &self.subtype {
            Some(subtype) if self.kind == QpType::Driver => subtype.to_ascii_lowercase(),
            _ => self.kind.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ResourceAttribute::*;

    #[test]
    fn a_connected_queue_pair_says_all_of_itself() {
        let entry =
            vec![PortIndex(1), Lqpn(17), Pdn(3), Pid(304), Rqpn(18), RqPsn(7), SqPsn(9), Type(2), State(3)];
        let expected = QueuePair {
            number: 17,
            port: Some(1),
            kind: QpType::Rc,
            subtype: None,
            state: QpState::Rts,
            owner: ResourceOwner::Process(304),
            protection_domain: Some(3),
            remote_number: Some(18),
            send_psn: Some(9),
            receive_psn: Some(7),
        };
        assert_eq!(QueuePair::read(entry), Some(expected));
    }

    #[test]
    fn the_drivers_own_transport_has_the_drivers_name() {
        let driver = vec![Lqpn(2), Type(0xff), State(0)];
        assert_eq!(QueuePair::read(driver.clone()).unwrap().transport(), "driver");
        let named = [driver, vec![Subtype("DCT".into())]].concat();
        assert_eq!(QueuePair::read(named).unwrap().transport(), "dct");
        let standard = vec![Lqpn(2), Type(2), State(0), Subtype("DCT".into())];
        assert_eq!(QueuePair::read(standard).unwrap().transport(), "rc");
    }

    #[test]
    fn an_entry_without_number_type_or_state_is_no_queue_pair() {
        let whole = [Lqpn(2), Type(2), State(0)];
        for left_out in 0..whole.len() {
            let mut entry = whole.to_vec();
            entry.remove(left_out);
            assert_eq!(QueuePair::read(entry), None);
        }
    }
}
