//! The resources of devices and their owners: queue pairs, memory regions and others, as in rdma-resource(8).
//!
//! The kernel tracks every resource of every device. Any user can read all of their attributes, except keys.
//!
//! The owner of a resource ([`ResourceOwner`]) is a *thread*, by its ID in the reader's PID namespace: a reader in a
//! container does not see the owners in other containers, and a resource may outlive the thread that created it. The
//! owner of a queue pair is then found by its protection domain, and that one's by its context.
//!
//! Every list is `None` if the kernel, or the device's driver, does not report that kind of resource.

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

/// The dump request of one kind of resource.
struct ResourceQuery {
    /// The name of the kind for error messages, such as `queue pairs`.
    what: &'static str,
    command: NldevCommand,
    kind: ResourceKind,
}

impl ResourceQuery {
    /// Returns all resources of a device, each decoded by `read`; `None` if this kernel or driver does not report them.
    fn of<T>(
        &self,
        rdma: &Handle,
        device: &Device,
        more: Option<NldevAttribute>,
        read: fn(Vec<ResourceAttribute>) -> Option<T>,
    ) -> Result<Option<Vec<T>>, Error> {
        let request = [NldevAttribute::DevIndex(device.index)].into_iter().chain(more).collect();
        let object = format!("{} of RDMA device {}", self.what, device.name);
        let found =
            rdma.dump("list", &object, message(self.command, request), |found: &mut Vec<T>, reply| {
                found.extend(self.entries(attributes(reply)).filter_map(read));
            });
        match found {
            Ok(found) => Ok(Some(found)),
            Err(error) => match error.errno() {
                Some(Errno::EINVAL | Errno::EOPNOTSUPP) => unsupported(rdma, device),
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

/// Returns `None`, or the error if the device is gone: `EINVAL` means either an unknown command or a missing device.
fn unsupported<T>(rdma: &Handle, device: &Device) -> Result<Option<T>, Error> {
    if rdma.devices()?.iter().any(|other| other.index == device.index) { Ok(None) } else { Err(gone(device)) }
}

fn gone(device: &Device) -> Error {
    Error::NoSuchDevice { device: device.name.clone() }
}
