//! Connection manager IDs.

use std::net::SocketAddr;

use netlink_packet_rdma::{NldevCommand, ResourceAttribute, ResourceKind};

use super::{QpType, ResourceOwner, ResourceQuery, address::address};
use crate::{Device, Error, Handle};

/// A connection manager ID: what a socket is to TCP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CmId {
    /// Its number.
    pub number: u32,
    /// Its port, from 1; none while it listens on all.
    pub port: Option<u32>,
    /// Its state.
    pub state: CmIdState,
    /// Whose port numbers its addresses have.
    pub port_space: Option<PortSpace>,
    /// The transport of its queue pair.
    pub kind: Option<QpType>,
    /// Its queue pair's number.
    pub queue_pair: Option<u32>,
    /// Its own address.
    pub source: Option<SocketAddr>,
    /// The other end's address.
    pub destination: Option<SocketAddr>,
    /// Who made it.
    pub owner: ResourceOwner,
}

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[doc(alias = "rdma_cm_state")]
pub enum CmIdState {
    /// Just made.
    Idle,
    /// The other end's address is looked up.
    AddrQuery,
    /// It was found.
    AddrResolved,
    /// The way there is looked up.
    RouteQuery,
    /// It was found.
    RouteResolved,
    /// Connecting, or connected.
    Connect,
    /// Disconnected.
    Disconnect,
    /// Has an address of its own.
    AddrBound,
    /// Listens.
    Listen,
    /// Its device is being removed.
    DeviceRemoval,
    /// Is being removed itself.
    Destroying,
    /// A state this crate does not know.
    Other(u8),
}

/// Whose port numbers an ID has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[doc(alias = "rdma_ucm_port_space")]
pub enum PortSpace {
    /// IP over InfiniBand.
    Ipoib,
    /// InfiniBand's service IDs.
    Ib,
    /// TCP's.
    Tcp,
    /// UDP's.
    Udp,
    /// One this crate does not know.
    Other(u32),
}

impl Handle {
    /// The connection manager IDs of a device; `None` if this kernel does not tell.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`] if the device is not visible in the handle's namespace.
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_RES_CM_ID_GET` as a dump, with numbers since 5.0. It lists also IDs of other namespaces.
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
    /// The ID that an entry tells of; `None` without a number or a state.
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
    fn a_listener_says_where() {
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
        assert_eq!(CmId::read(entry), Some(expected));
        assert_eq!(CmId::read(vec![CmIdn(1)]), None);
    }
}
