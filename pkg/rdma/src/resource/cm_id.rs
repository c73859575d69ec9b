//! Connection manager IDs.

use std::net::SocketAddr;

use netlink_packet_rdma::{NldevCommand, ResourceAttribute, ResourceKind};

use super::{QpType, ResourceOwner, address::address, query::ResourceQuery};
use crate::{Device, Error, Handle};

/// A connection manager ID, which corresponds to a TCP socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CmId {
    /// The number of the ID.
    pub number: u32,
    /// The number of its port, from 1; `None` while it listens on all.
    pub port: Option<u32>,
    /// The state of the connection.
    pub state: CmIdState,
    /// The space of the port numbers in its addresses.
    pub port_space: Option<PortSpace>,
    /// The transport of its queue pair.
    pub kind: Option<QpType>,
    /// The number of its queue pair.
    pub queue_pair: Option<u32>,
    /// The local address.
    pub source: Option<SocketAddr>,
    /// The remote address.
    pub destination: Option<SocketAddr>,
    /// The thread or the part of the kernel that created it.
    pub owner: ResourceOwner,
}

/// The state of a connection manager ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[doc(alias = "rdma_cm_state")]
pub enum CmIdState {
    /// Newly created.
    Idle,
    /// The remote address is being resolved.
    AddrQuery,
    /// The remote address is resolved.
    AddrResolved,
    /// The route is being resolved.
    RouteQuery,
    /// The route is resolved.
    RouteResolved,
    /// Connecting, or connected.
    Connect,
    /// Disconnected.
    Disconnect,
    /// Bound to a local address.
    AddrBound,
    /// Listening for connections.
    Listen,
    /// The device is being removed.
    DeviceRemoval,
    /// The ID is being destroyed.
    Destroying,
    /// A state unknown to this crate.
    Other(u8),
}

/// The space of an ID's port numbers (`RDMA_PS_`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[doc(alias = "rdma_ucm_port_space")]
pub enum PortSpace {
    /// `RDMA_PS_IPOIB`: IP over InfiniBand.
    Ipoib,
    /// `RDMA_PS_IB`: InfiniBand service IDs.
    Ib,
    /// `RDMA_PS_TCP`: for reliable connections.
    Tcp,
    /// `RDMA_PS_UDP`: for datagrams.
    Udp,
    /// A space unknown to this crate.
    Other(u32),
}

impl Handle {
    /// Returns the connection manager IDs of a device; `None` if this kernel does not report them.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`] if the device is not visible in the handle's namespace.
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_RES_CM_ID_GET` as a dump, with numbers since 5.0. It also lists the IDs of other namespaces.
    #[doc(alias = "rdma resource show cm_id")]
    pub fn cm_ids(&self, device: &Device) -> Result<Option<Vec<CmId>>, Error> {
        const LIST: ResourceQuery = ResourceQuery {
            what: "connection manager IDs",
            command: NldevCommand::ResCmIdGet,
            kind: ResourceKind::CmId,
        };
        LIST.of(self, device, None, CmId::read)
    }
}

impl CmId {
    /// Reads the ID in an entry; `None` without a number or a state.
    pub fn read(entry: Vec<ResourceAttribute>) -> Option<Self> {
        let owner = ResourceOwner::of(&entry);
        let (mut number, mut state, mut kind, mut port_space) = (None, None, None, None);
        let (mut port, mut queue_pair, mut source, mut destination) = (None, None, None, None);
        for attribute in entry {
            match attribute {
                ResourceAttribute::CmIdn(v) => number = Some(v),
                ResourceAttribute::State(v) => state = Some(v.into()),
                ResourceAttribute::Type(v) => kind = Some(v.into()),
                ResourceAttribute::Ps(v) => port_space = Some(v.into()),
                ResourceAttribute::PortIndex(v) => port = Some(v),
                ResourceAttribute::Lqpn(v) => queue_pair = Some(v),
                ResourceAttribute::SrcAddr(v) => source = address(&v),
                ResourceAttribute::DstAddr(v) => destination = address(&v),
                _ => {}
            }
        }
        Some(Self {
            number: number?,
            port,
            state: state?,
            port_space,
            kind,
            queue_pair,
            source,
            destination,
            owner,
        })
    }
}

impl From<u8> for CmIdState {
    fn from(number: u8) -> Self {
        match number {
            0 => Self::Idle,
            1 => Self::AddrQuery,
            2 => Self::AddrResolved,
            3 => Self::RouteQuery,
            4 => Self::RouteResolved,
            5 => Self::Connect,
            6 => Self::Disconnect,
            7 => Self::AddrBound,
            8 => Self::Listen,
            9 => Self::DeviceRemoval,
            10 => Self::Destroying,
            other => Self::Other(other),
        }
    }
}

impl From<u32> for PortSpace {
    fn from(number: u32) -> Self {
        match number {
            0x0002 => Self::Ipoib,
            0x013f => Self::Ib,
            0x0106 => Self::Tcp,
            0x0111 => Self::Udp,
            other => Self::Other(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ResourceAttribute::*;

    #[test]
    fn a_listener_has_a_local_address_and_a_connection_both() {
        let mut storage = [2_u16.to_ne_bytes(), [0x1f, 0x90], [192, 0], [2, 7]].concat();
        storage.resize(128, 0);
        let entry = vec![CmIdn(1), PortIndex(1), Pid(304), State(8), Ps(0x106), SrcAddr(storage)];
        let expected = CmId {
            number: 1,
            port: Some(1),
            state: CmIdState::Listen,
            port_space: Some(PortSpace::Tcp),
            kind: None,
            queue_pair: None,
            source: Some("192.0.2.7:8080".parse().unwrap()),
            destination: None,
            owner: ResourceOwner::Process(304),
        };
        assert_eq!(CmId::read(entry), Some(expected.clone()));
        let storage = |last| {
            let mut storage = [2_u16.to_ne_bytes(), [0x1f, 0x90], [192, 0], [2, last]].concat();
            storage.resize(128, 0);
            storage
        };
        let connected = vec![
            CmIdn(1),
            PortIndex(1),
            Pid(304),
            State(5),
            Ps(0x106),
            Type(2),
            Lqpn(17),
            SrcAddr(storage(7)),
            DstAddr(storage(8)),
        ];
        let expected = CmId {
            state: CmIdState::Connect,
            kind: Some(QpType::Rc),
            queue_pair: Some(17),
            destination: Some("192.0.2.8:8080".parse().unwrap()),
            ..expected
        };
        assert_eq!(CmId::read(connected), Some(expected));
        assert_eq!(CmId::read(vec![State(5)]), None);
        assert_eq!(CmId::read(vec![CmIdn(1)]), None);
    }
}
