//! The dump request of one kind of resource.

use netlink_packet_rdma::{NldevAttribute, NldevCommand, ResourceAttribute, ResourceKind};
use nix::errno::Errno;

use crate::{
    Device, Error, Handle,
    handle::{attributes, message},
};

/// The dump request of one kind of resource.
pub(super) struct ResourceQuery {
    /// The name of the kind for error messages, such as `queue pairs`.
    pub(super) what: &'static str,
    pub(super) command: NldevCommand,
    pub(super) kind: ResourceKind,
}

impl ResourceQuery {
    /// Returns all resources of a device, each decoded by `read`; `None` if this kernel or driver does not report them.
    pub(super) fn of<T>(
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
pub(super) fn unsupported<T>(rdma: &Handle, device: &Device) -> Result<Option<T>, Error> {
    if rdma.find_device_by_index(device.index)?.is_some() { Ok(None) } else { Err(gone(device)) }
}

pub(super) fn gone(device: &Device) -> Error {
    Error::NoSuchDevice { device: device.name.clone() }
}
