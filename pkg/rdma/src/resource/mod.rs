//! What is in use on a device, and by whom: queue pairs, memory regions and the rest.
//!
//! The kernel tracks every object of every device. All of it can be read by any user, but for keys.
//!
//! Whose an object is ([`ResourceOwner`]) is told by the number of a *thread*, as the reader's PID namespace numbers it:
//! a reader in a container sees nobody of other containers, and an object outlives the thread that made it. A
//! queue pair's owner is then found by its protection domain, and that one's by its context.
//!
//! Every list is `None` if the kernel, or the device's driver, does not tell that kind of object.

mod address;
mod cm_id;
mod completion_queue;
mod context;
mod counter_mode;
mod counter_set;
mod counts;
mod memory_region;
mod owner;
mod protection_domain;
mod queue_pair;
mod queue_pair_names;
mod shared_receive_queue;

pub use cm_id::{CmId, CmIdState, PortSpace};
pub use completion_queue::CompletionQueue;
pub use context::Context;
pub use counter_mode::CounterMode;
pub use counter_set::{BindMode, CounterSet};
pub use counts::ResourceCounts;
pub use memory_region::MemoryRegion;
pub use netlink_packet_rdma::QueuePairRange;
pub use owner::ResourceOwner;
pub use protection_domain::ProtectionDomain;
pub use queue_pair::QueuePair;
pub use queue_pair_names::{QpState, QpType};
pub use shared_receive_queue::{SharedReceiveQueue, SrqType};

use netlink_packet_rdma::{NldevAttribute, NldevCommand, ResourceAttribute, ResourceKind};
use nix::errno::Errno;

use crate::{
    Device, Error, Handle,
    handle::{attributes, message},
};

/// What to ask for, and what the answer's tables are.
struct ResourceQuery {
    /// For messages, like `queue pairs`.
    what: &'static str,
    command: NldevCommand,
    kind: ResourceKind,
}

impl ResourceQuery {
    /// All objects of a device, each read by `read`; `None` if this kernel or driver does not tell.
    fn of<T>(
        &self,
        rdma: &Handle,
        device: &Device,
        more: Option<NldevAttribute>,
        read: fn(Vec<ResourceAttribute>) -> Option<T>,
    ) -> Result<Option<Vec<T>>, Error> {
        let asked = [NldevAttribute::DevIndex(device.index)].into_iter().chain(more).collect();
        let object = format!("{} of RDMA device {}", self.what, device.name);
        let found = rdma.dump("list", &object, message(self.command, asked), |found: &mut Vec<T>, answer| {
            found.extend(self.entries(attributes(answer)).filter_map(read));
        });
        match found {
            Ok(found) => Ok(Some(found)),
            Err(error) => match error.errno() {
                Some(Errno::EINVAL | Errno::EOPNOTSUPP) => untold(rdma, device),
                Some(Errno::ENODEV) => Err(gone(device)),
                _ => Err(error.into()),
            },
        }
    }

    fn entries(&self, attributes: Vec<NldevAttribute>) -> impl Iterator<Item = Vec<ResourceAttribute>> {
        let kind = self.kind;
        let tables = attributes.into_iter().filter_map(move |attribute| match attribute {
            NldevAttribute::Resources(table) if table.kind == kind => Some(table.entries),
            _ => None,
        });
        tables.flatten()
    }
}

/// `EINVAL` is the kernel's word for a command it does not know, and for a device that is not there.
fn untold<T>(rdma: &Handle, device: &Device) -> Result<Option<T>, Error> {
    if rdma.devices()?.iter().any(|other| other.index == device.index) { Ok(None) } else { Err(gone(device)) }
}

fn gone(device: &Device) -> Error {
    Error::NoSuchDevice { device: device.name.clone() }
}
