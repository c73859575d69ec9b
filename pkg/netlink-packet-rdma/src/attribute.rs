//! The attributes of messages.

use netlink_packet_core::{DecodeError, DefaultNla, NLA_F_NESTED, Nla, NlaBuffer, Parseable};

use crate::{
    EnabledCounter, HwCounter, HwCounterStatus, NodeType, PhysState, PortState, RawNetnsMode, ResourceCount,
    ResourceTable,
    counter::HwCounters,
    uapi::*,
    value::{AttributeValue, odd_name, text},
};

/// An attribute of the nldev client, an `RDMA_NLDEV_ATTR_` number with its value.
///
/// A text must not contain a NUL; numbers are in the machine's byte order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NldevAttribute {
    /// The device's index, which does not change when the device moves or is renamed.
    DevIndex(u32),
    /// The device's name, such as `mlx5_0`; unique on the node across namespaces.
    DevName(String),
    /// A port's number, from 1. In the reply for a device: the number of ports.
    PortIndex(u32),
    /// The capability flags of the device or the port.
    CapFlags(u64),
    /// The firmware version, such as `28.39.1002`.
    FwVersion(String),
    /// The device's node GUID.
    NodeGuid(u64),
    /// The GUID of the card (system image).
    SysImageGuid(u64),
    /// The InfiniBand subnet prefix.
    SubnetPrefix(u64),
    /// The port's LID. Only InfiniBand ports have one.
    Lid(u32),
    /// The subnet manager's LID.
    SmLid(u32),
    /// The LID mask control.
    Lmc(u8),
    /// The port's logical state.
    PortState(PortState),
    /// The port's physical state.
    PortPhysState(PhysState),
    /// The device's node type.
    DevNodeType(NodeType),
    /// The number of resources of each kind.
    ResSummary(Vec<ResourceCount>),
    /// The resources of one kind, or the counters bound to some.
    Resources(ResourceTable),
    /// The index of the port's link, if that is in the requesting namespace.
    NdevIndex(u32),
    /// The name of the port's link, if that is in the requesting namespace.
    NdevName(String),
    /// The kind of a software device to create: `rxe`, `siw`.
    LinkType(String),
    /// The RDMA mode.
    NetnsMode(RawNetnsMode),
    /// The protocol: `roce`, `ib`, `iw`, `opa`, `usnic`, `usnic_udp`.
    DevProtocol(String),
    /// A file descriptor of the namespace to which a device moves.
    NetNsFd(u32),
    /// A client of the device: `uverbs`, `umad`, `issm`, `rdma_cm`.
    ChardevType(String),
    /// The client's character device, such as `uverbs3`.
    ChardevName(String),
    /// The ABI version of the client.
    ChardevAbi(u64),
    /// The number of the character device, as `dev_t` in the kernel's new encoding.
    Chardev(u64),
    /// The driver: see [`driver_name`](crate::driver_name). (The header's comment says u64; the kernel sends u32.)
    UverbsDriverId(u32),
    /// How counters are bound (`RDMA_COUNTER_MODE_`).
    StatMode(u32),
    /// The kind of resource whose counters are requested: [`ResourceKind::number`](crate::ResourceKind::number).
    StatRes(u32),
    /// The criteria by which counters are bound automatically (`RDMA_COUNTER_MASK_`).
    StatAutoModeMask(u32),
    /// The number of a counter set.
    StatCounterId(u32),
    /// The hardware counters of a port.
    StatHwCounters(Vec<HwCounter>),
    /// The hardware counters that a port supports, and which of them are optional.
    StatHwCounterStatus(Vec<HwCounterStatus>),
    /// The optional counters that a request enables. Only in requests.
    StatEnabledCounters(Vec<EnabledCounter>),
    /// Whether interrupt moderation is adaptive.
    DevDim(u8),
    /// Whether pinned memory is copied at a fork.
    CopyOnFork(u8),
    /// Whether an unprivileged process may set a privileged Q_Key.
    PrivilegedQkeyMode(u8),
    /// Requests the driver's own attributes too.
    DriverDetails(u8),
    /// The kind of a sub-device.
    DevType(u8),
    /// The parent device of a sub-device.
    ParentName(String),
    /// The origin of the name: 0 unknown, 1 a user.
    NameAssignType(u8),
    /// The event of a notification: 0 registered, 1 unregistered, 2 link attached, 3 link detached.
    EventType(u8),
    /// Whether this kernel sends notifications.
    MonitorMode(u8),
    /// Whether optional counters are bound together with the others.
    StatOpcounterEnabled(u8),
    /// An attribute unknown to this crate, or with a value of unexpected size.
    Other(DefaultNla),
}

impl NldevAttribute {
    fn parts(&self) -> (u16, AttributeValue<'_>) {
        use AttributeValue::{Nested, Other, Text, U8, U32, U64};
        match self {
            Self::DevIndex(v) => (RDMA_NLDEV_ATTR_DEV_INDEX, U32(*v)),
            Self::DevName(v) => (RDMA_NLDEV_ATTR_DEV_NAME, Text(v)),
            Self::PortIndex(v) => (RDMA_NLDEV_ATTR_PORT_INDEX, U32(*v)),
            Self::CapFlags(v) => (RDMA_NLDEV_ATTR_CAP_FLAGS, U64(*v)),
            Self::FwVersion(v) => (RDMA_NLDEV_ATTR_FW_VERSION, Text(v)),
            Self::NodeGuid(v) => (RDMA_NLDEV_ATTR_NODE_GUID, U64(*v)),
            Self::SysImageGuid(v) => (RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, U64(*v)),
            Self::SubnetPrefix(v) => (RDMA_NLDEV_ATTR_SUBNET_PREFIX, U64(*v)),
            Self::Lid(v) => (RDMA_NLDEV_ATTR_LID, U32(*v)),
            Self::SmLid(v) => (RDMA_NLDEV_ATTR_SM_LID, U32(*v)),
            Self::Lmc(v) => (RDMA_NLDEV_ATTR_LMC, U8(*v)),
            Self::PortState(v) => (RDMA_NLDEV_ATTR_PORT_STATE, U8((*v).into())),
            Self::PortPhysState(v) => (RDMA_NLDEV_ATTR_PORT_PHYS_STATE, U8((*v).into())),
            Self::DevNodeType(v) => (RDMA_NLDEV_ATTR_DEV_NODE_TYPE, U8((*v).into())),
            Self::ResSummary(v) => (RDMA_NLDEV_ATTR_RES_SUMMARY, Nested(v)),
            Self::Resources(v) => (v.kind.number(), Nested(v)),
            Self::NdevIndex(v) => (RDMA_NLDEV_ATTR_NDEV_INDEX, U32(*v)),
            Self::NdevName(v) => (RDMA_NLDEV_ATTR_NDEV_NAME, Text(v)),
            Self::LinkType(v) => (RDMA_NLDEV_ATTR_LINK_TYPE, Text(v)),
            Self::NetnsMode(v) => (RDMA_NLDEV_SYS_ATTR_NETNS_MODE, U8((*v).into())),
            Self::DevProtocol(v) => (RDMA_NLDEV_ATTR_DEV_PROTOCOL, Text(v)),
            Self::NetNsFd(v) => (RDMA_NLDEV_NET_NS_FD, U32(*v)),
            Self::ChardevType(v) => (RDMA_NLDEV_ATTR_CHARDEV_TYPE, Text(v)),
            Self::ChardevName(v) => (RDMA_NLDEV_ATTR_CHARDEV_NAME, Text(v)),
            Self::ChardevAbi(v) => (RDMA_NLDEV_ATTR_CHARDEV_ABI, U64(*v)),
            Self::Chardev(v) => (RDMA_NLDEV_ATTR_CHARDEV, U64(*v)),
            Self::UverbsDriverId(v) => (RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, U32(*v)),
            Self::StatMode(v) => (RDMA_NLDEV_ATTR_STAT_MODE, U32(*v)),
            Self::StatRes(v) => (RDMA_NLDEV_ATTR_STAT_RES, U32(*v)),
            Self::StatAutoModeMask(v) => (RDMA_NLDEV_ATTR_STAT_AUTO_MODE_MASK, U32(*v)),
            Self::StatCounterId(v) => (RDMA_NLDEV_ATTR_STAT_COUNTER_ID, U32(*v)),
            Self::StatHwCounters(v) => (RDMA_NLDEV_ATTR_STAT_HWCOUNTERS | NLA_F_NESTED, Nested(v)),
            Self::StatHwCounterStatus(v) => (RDMA_NLDEV_ATTR_STAT_HWCOUNTERS | NLA_F_NESTED, Nested(v)),
            Self::StatEnabledCounters(v) => (RDMA_NLDEV_ATTR_STAT_HWCOUNTERS | NLA_F_NESTED, Nested(v)),
            Self::DevDim(v) => (RDMA_NLDEV_ATTR_DEV_DIM, U8(*v)),
            Self::CopyOnFork(v) => (RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, U8(*v)),
            Self::PrivilegedQkeyMode(v) => (RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE, U8(*v)),
            Self::DriverDetails(v) => (RDMA_NLDEV_ATTR_DRIVER_DETAILS, U8(*v)),
            Self::DevType(v) => (RDMA_NLDEV_ATTR_DEV_TYPE, U8(*v)),
            Self::ParentName(v) => (RDMA_NLDEV_ATTR_PARENT_NAME, Text(v)),
            Self::NameAssignType(v) => (RDMA_NLDEV_ATTR_NAME_ASSIGN_TYPE, U8(*v)),
            Self::EventType(v) => (RDMA_NLDEV_ATTR_EVENT_TYPE, U8(*v)),
            Self::MonitorMode(v) => (RDMA_NLDEV_SYS_ATTR_MONITOR_MODE, U8(*v)),
            Self::StatOpcounterEnabled(v) => (RDMA_NLDEV_ATTR_STAT_OPCOUNTER_ENABLED, U8(*v)),
            Self::Other(nla) => (nla.kind(), Other(nla)),
        }
    }

    fn read(kind: u16, value: &[u8]) -> Option<Self> {
        let u8 = || value.try_into().ok().map(u8::from_ne_bytes);
        let u32 = || value.try_into().ok().map(u32::from_ne_bytes);
        let u64 = || value.try_into().ok().map(u64::from_ne_bytes);
        let text = || text(value);
        Some(match kind {
            RDMA_NLDEV_ATTR_DEV_INDEX => Self::DevIndex(u32()?),
            RDMA_NLDEV_ATTR_DEV_NAME => Self::DevName(text().or_else(|| odd_name(value))?),
            RDMA_NLDEV_ATTR_PORT_INDEX => Self::PortIndex(u32()?),
            RDMA_NLDEV_ATTR_CAP_FLAGS => Self::CapFlags(u64()?),
            RDMA_NLDEV_ATTR_FW_VERSION => Self::FwVersion(text()?),
            RDMA_NLDEV_ATTR_NODE_GUID => Self::NodeGuid(u64()?),
            RDMA_NLDEV_ATTR_SYS_IMAGE_GUID => Self::SysImageGuid(u64()?),
            RDMA_NLDEV_ATTR_SUBNET_PREFIX => Self::SubnetPrefix(u64()?),
            RDMA_NLDEV_ATTR_LID => Self::Lid(u32()?),
            RDMA_NLDEV_ATTR_SM_LID => Self::SmLid(u32()?),
            RDMA_NLDEV_ATTR_LMC => Self::Lmc(u8()?),
            RDMA_NLDEV_ATTR_PORT_STATE => Self::PortState(u8()?.into()),
            RDMA_NLDEV_ATTR_PORT_PHYS_STATE => Self::PortPhysState(u8()?.into()),
            RDMA_NLDEV_ATTR_DEV_NODE_TYPE => Self::DevNodeType(u8()?.into()),
            RDMA_NLDEV_ATTR_RES_SUMMARY => Self::ResSummary(ResourceCount::table(value)),
            RDMA_NLDEV_ATTR_NDEV_INDEX => Self::NdevIndex(u32()?),
            RDMA_NLDEV_ATTR_NDEV_NAME => Self::NdevName(text()?),
            RDMA_NLDEV_ATTR_LINK_TYPE => Self::LinkType(text()?),
            RDMA_NLDEV_SYS_ATTR_NETNS_MODE => Self::NetnsMode(u8()?.into()),
            RDMA_NLDEV_ATTR_DEV_PROTOCOL => Self::DevProtocol(text()?),
            RDMA_NLDEV_NET_NS_FD => Self::NetNsFd(u32()?),
            RDMA_NLDEV_ATTR_CHARDEV_TYPE => Self::ChardevType(text()?),
            RDMA_NLDEV_ATTR_CHARDEV_NAME => Self::ChardevName(text()?),
            RDMA_NLDEV_ATTR_CHARDEV_ABI => Self::ChardevAbi(u64()?),
            RDMA_NLDEV_ATTR_CHARDEV => Self::Chardev(u64()?),
            RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID => Self::UverbsDriverId(u32()?),
            RDMA_NLDEV_ATTR_STAT_MODE => Self::StatMode(u32()?),
            RDMA_NLDEV_ATTR_STAT_RES => Self::StatRes(u32()?),
            RDMA_NLDEV_ATTR_STAT_AUTO_MODE_MASK => Self::StatAutoModeMask(u32()?),
            RDMA_NLDEV_ATTR_STAT_COUNTER_ID => Self::StatCounterId(u32()?),
            RDMA_NLDEV_ATTR_STAT_HWCOUNTERS => match HwCounters::read(value) {
                HwCounters::Values(counters) => Self::StatHwCounters(counters),
                HwCounters::Statuses(statuses) => Self::StatHwCounterStatus(statuses),
            },
            RDMA_NLDEV_ATTR_DEV_DIM => Self::DevDim(u8()?),
            RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK => Self::CopyOnFork(u8()?),
            RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE => Self::PrivilegedQkeyMode(u8()?),
            RDMA_NLDEV_ATTR_DRIVER_DETAILS => Self::DriverDetails(u8()?),
            RDMA_NLDEV_ATTR_DEV_TYPE => Self::DevType(u8()?),
            RDMA_NLDEV_ATTR_PARENT_NAME => Self::ParentName(text()?),
            RDMA_NLDEV_ATTR_NAME_ASSIGN_TYPE => Self::NameAssignType(u8()?),
            RDMA_NLDEV_ATTR_EVENT_TYPE => Self::EventType(u8()?),
            RDMA_NLDEV_SYS_ATTR_MONITOR_MODE => Self::MonitorMode(u8()?),
            RDMA_NLDEV_ATTR_STAT_OPCOUNTER_ENABLED => Self::StatOpcounterEnabled(u8()?),
            _ => Self::Resources(ResourceTable::read(kind, value)?),
        })
    }
}

impl Nla for NldevAttribute {
    fn kind(&self) -> u16 {
        self.parts().0
    }

    fn value_len(&self) -> usize {
        self.parts().1.len()
    }

    fn emit_value(&self, buffer: &mut [u8]) {
        self.parts().1.emit(buffer);
    }
}

impl<'a, T: AsRef<[u8]> + ?Sized> Parseable<NlaBuffer<&'a T>> for NldevAttribute {
    fn parse(buffer: &NlaBuffer<&'a T>) -> Result<Self, DecodeError> {
        match Self::read(buffer.kind(), buffer.value()) {
            Some(attribute) => Ok(attribute),
            None => DefaultNla::parse(buffer).map(Self::Other),
        }
    }
}
