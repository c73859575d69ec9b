//! Protection domains.

use netlink_packet_rdma::{NldevCommand, ResourceAttribute, ResourceKind};

use super::{ResourceOwner, query::ResourceQuery};
use crate::{Device, Error, Handle};

/// A protection domain: a group of queue pairs and memory regions that may use each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectionDomain {
    /// The number of the protection domain.
    pub number: u32,
    /// The number of resources that use it.
    pub users: Option<u64>,
    /// The number of its user context; `None` for resources of the kernel.
    pub context: Option<u32>,
    /// The thread or the part of the kernel that created it.
    pub owner: ResourceOwner,
}

impl Handle {
    /// Returns the protection domains of a device; `None` if this kernel does not report them.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`] if the device is not visible in the handle's namespace.
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_RES_PD_GET` as a dump, with numbers since 5.0.
    #[doc(alias = "rdma resource show pd")]
    pub fn protection_domains(&self, device: &Device) -> Result<Option<Vec<ProtectionDomain>>, Error> {
        const LIST: ResourceQuery = ResourceQuery {
            what: "protection domains",
            command: NldevCommand::ResPdGet,
            kind: ResourceKind::ProtectionDomain,
        };
        LIST.of(self, device, None, ProtectionDomain::read)
    }
}

impl ProtectionDomain {
    /// Reads the protection domain in an entry; `None` without a number.
    pub fn read(entry: Vec<ResourceAttribute>) -> Option<Self> {
        let owner = ResourceOwner::of(&entry);
        let (mut number, mut users, mut context) = (None, None, None);
        for attribute in entry {
            match attribute {
                ResourceAttribute::Pdn(v) => number = Some(v),
                ResourceAttribute::UseCnt(v) => users = Some(v),
                ResourceAttribute::Ctxn(v) => context = Some(v),
                _ => {}
            }
        }
        Some(Self { number: number?, users, context, owner })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ResourceAttribute::*;

    #[test]
    fn a_protection_domain_has_a_context() {
        let entry = vec![Pdn(3), UseCnt(4), Ctxn(2)];
        let expected =
            ProtectionDomain { number: 3, users: Some(4), context: Some(2), owner: ResourceOwner::Unknown };
        assert_eq!(ProtectionDomain::read(entry), Some(expected));
        assert_eq!(ProtectionDomain::read(vec![Ctxn(2)]), None);
    }
}
