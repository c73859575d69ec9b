//! The RDMA netlink wire format (`NETLINK_RDMA`, client `RDMA_NL_NLDEV`), without I/O.
//!
//! The structure is that of `netlink-packet-route`: a message is a command and a list of attributes, an unknown
//! attribute is kept as [`NldevAttribute::Other`], and enums are non-exhaustive. Decoding never panics. An
//! attribute whose value does not have the expected size is kept as `Other` too, so that an attribute changed by a
//! new kernel does not make the whole reply unreadable.
//!
//! Properties of this family:
//! * A message's type is `client << 10 | command`, and the attributes directly follow the netlink header:
//!   there is no family header.
//! * The reply to [`NldevCommand::PortGet`] has the type of [`NldevCommand::Get`]. Match replies by
//!   their sequence number only.
//! * `PORT_INDEX` in the reply for a device is its *number of ports*.
//! * A table of resources may be empty although there are more: an entry that did not fit is sent again in the
//!   next message. The content of a table has a type of its own ([`ResourceAttribute`]), so that no reply can be
//!   nested deeper than the kernel nests it.
//! * `NLM_F_EXCL` and `NLM_F_REPLACE` are the bits of `NLM_F_DUMP`, and any of them makes a request a dump.

#![forbid(unsafe_code)]

mod attribute;
mod command;
mod counter;
mod counter_table;
mod driver;
mod entries;
mod message;
mod queue_pairs;
mod resource;
mod state;
mod summary;
mod table;
mod uapi;
mod value;

pub use attribute::NldevAttribute;
pub use command::NldevCommand;
pub use counter::{EnabledCounter, HwCounter, HwCounterStatus};
pub use counter_table::HwCounterTable;
pub use driver::driver_name;
pub use message::{NldevMessage, RdmaMessage};
pub use queue_pairs::QueuePairRange;
pub use resource::ResourceAttribute;
pub use state::{NodeType, PhysState, PortState, RawNetnsMode};
pub use summary::ResourceCount;
pub use table::{ResourceKind, ResourceTable};

/// The protocol number of a socket of this family.
pub const NETLINK_RDMA: isize = uapi::NETLINK_RDMA as isize;
