//! The RDMA netlink wire format (`NETLINK_RDMA`, client `RDMA_NL_NLDEV`), without I/O.
//!
//! Built like `netlink-packet-route`: a message is a command and a list of attributes, an attribute this
//! crate does not know is kept as [`NldevAttribute::Other`], and enums may grow. Decoding never panics, and an
//! attribute whose value does not fit its type is kept as `Other` too: one odd attribute of a new kernel
//! never costs the whole answer.
//!
//! What is special about this family:
//! * A message's type is `client << 10 | command`, and the attributes follow the netlink header at once:
//!   there is no family header.
//! * The answer to [`NldevCommand::PortGet`] carries the type of [`NldevCommand::Get`]. Match answers by
//!   their sequence number only.
//! * `PORT_INDEX` in a device's answer is its *number of ports*.
//! * A table of resources may be empty although there are more: an entry that did not fit is sent again in the
//!   next message. What is inside a table is a type of its own ([`ResourceAttribute`]), so that no answer can be
//!   nested deeper than the kernel nests it.
//! * `NLM_F_EXCL` and `NLM_F_REPLACE` are the bits of `NLM_F_DUMP`, and any of them makes a request a dump.

#![forbid(unsafe_code)]

mod attribute;
mod command;
mod counter;
mod counter_table;
mod driver;
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
pub use counter::{HwCounter, HwCounterStatus};
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
