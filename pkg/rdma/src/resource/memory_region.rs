//! Memory regions.

use netlink_packet_rdma::{NldevCommand, ResourceAttribute, ResourceKind};

use super::{ResourceOwner, query::ResourceQuery};
use crate::{Device, Error, Handle};

/// A memory region: memory that the card may read or write. It is pinned, unless the card supports on-demand paging.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryRegion {
    /// The number of the memory region.
    pub number: u32,
    /// The length in bytes. Regions may overlap, and one may span the whole address space.
    pub length: Option<u64>,
    /// The number of its protection domain; `None` for resources of the kernel.
    pub protection_domain: Option<u32>,
    /// The thread or the part of the kernel that created it.
    pub owner: ResourceOwner,
}

impl Handle {
    /// Returns the memory regions of a device; `None` if this kernel does not report them.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`] if the device is not visible in the handle's namespace.
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_RES_MR_GET` as a dump, with numbers since 5.0.
    #[doc(alias = "rdma resource show mr")]
    pub fn memory_regions(&self, device: &Device) -> Result<Option<Vec<MemoryRegion>>, Error> {
        const LIST: ResourceQuery = ResourceQuery {
            what: "memory regions",
            command: NldevCommand::ResMrGet,
            kind: ResourceKind::MemoryRegion,
        };
        LIST.of(self, device, None, MemoryRegion::read)
    }
}

impl MemoryRegion {
    /// Reads the memory region in an entry; `None` without a number.
    pub fn read(entry: Vec<ResourceAttribute>) -> Option<Self> {
        let owner = ResourceOwner::of(&entry);
        let (mut number, mut length, mut protection_domain) = (None, None, None);
        for attribute in entry {
            match attribute {
                ResourceAttribute::Mrn(v) => number = Some(v),
                ResourceAttribute::MrLen(v) => length = Some(v),
                ResourceAttribute::Pdn(v) => protection_domain = Some(v),
                _ => {}
            }
        }
        Some(Self { number: number?, length, protection_domain, owner })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ResourceAttribute::*;

    #[test]
    fn a_memory_region_has_a_length() {
        let entry = vec![Mrn(6), MrLen(1 << 40), Pdn(3), Pid(304)];
        let expected = MemoryRegion {
            number: 6,
            length: Some(1 << 40),
            protection_domain: Some(3),
            owner: ResourceOwner::Process(304),
        };
        assert_eq!(MemoryRegion::read(entry), Some(expected));
        assert_eq!(MemoryRegion::read(vec![MrLen(4096)]), None);
    }
}
