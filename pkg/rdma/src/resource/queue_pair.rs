//! Queue pairs.

use netlink_packet_rdma::{NldevCommand, ResourceAttribute, ResourceKind};

use super::{QpState, QpType, ResourceOwner, query::ResourceQuery};
use crate::{Device, Error, Handle};

/// A queue pair: one end of a connection, or a connectionless endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePair {
    /// The number of the queue pair. The kernel's number 1 may exist once for each port.
    pub number: u32,
    /// The number of its port, from 1; `None` before it is initialised, and with some kernels.
    pub port: Option<u32>,
    /// The transport.
    pub kind: QpType,
    /// The driver's own name of the transport, such as `DCT`; since Linux 6.11.
    pub subtype: Option<String>,
    /// The state.
    pub state: QpState,
    /// The thread or the part of the kernel that created it.
    pub owner: ResourceOwner,
    /// The number of its protection domain; `None` for resources of the kernel.
    pub protection_domain: Option<u32>,
    /// The number of the remote queue pair; only RC and UC.
    pub remote_number: Option<u32>,
    /// The sequence number of the next packet to send, modulo 2^24. Its accuracy depends on the driver.
    pub send_psn: Option<u32>,
    /// The sequence number of the next packet to receive, modulo 2^24; only RC and UC.
    pub receive_psn: Option<u32>,
}

impl Handle {
    /// Returns the queue pairs of a device; `None` if this kernel does not report them.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`] if the device is not visible in the handle's namespace.
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_RES_QP_GET` as a dump, since 4.16. The kernel queries the driver for each queue pair's state: mlx5
    /// needs a firmware command for each.
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
    /// Reads the queue pair in an entry; `None` without a number, a type or a state.
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

    /// Returns the name of the transport in lower case, such as `rc`, or the driver's own name, such as `dct`.
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
    fn a_connected_queue_pair_has_every_attribute() {
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
    fn an_entry_without_number_type_or_state_is_not_a_queue_pair() {
        let whole = [Lqpn(2), Type(2), State(0)];
        for left_out in 0..whole.len() {
            let mut entry = whole.to_vec();
            entry.remove(left_out);
            assert_eq!(QueuePair::read(entry), None);
        }
    }
}
