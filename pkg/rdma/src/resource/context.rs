//! User contexts.

use netlink_packet_rdma::{NldevCommand, ResourceAttribute, ResourceKind};

use super::{ResourceOwner, query::ResourceQuery};
use crate::{Device, Error, Handle};

/// A user context: one open of the device by a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The number of the context. The kernel does not reuse it soon.
    pub number: u32,
    /// The thread that created it.
    pub owner: ResourceOwner,
}

impl Handle {
    /// Returns the user contexts of a device; `None` if this kernel does not report them.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`] if the device is not visible in the handle's namespace.
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_RES_CTX_GET` as a dump, since 5.13.
    #[doc(alias = "rdma resource show ctx")]
    pub fn contexts(&self, device: &Device) -> Result<Option<Vec<Context>>, Error> {
        const LIST: ResourceQuery =
            ResourceQuery { what: "contexts", command: NldevCommand::ResCtxGet, kind: ResourceKind::Context };
        LIST.of(self, device, None, Context::read)
    }
}

impl Context {
    /// Reads the user context in an entry; `None` without a number.
    pub fn read(entry: Vec<ResourceAttribute>) -> Option<Self> {
        let owner = ResourceOwner::of(&entry);
        let number = entry.into_iter().find_map(|attribute| match attribute {
            ResourceAttribute::Ctxn(v) => Some(v),
            _ => None,
        });
        Some(Self { number: number?, owner })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ResourceAttribute::*;

    #[test]
    fn a_context_has_an_owner() {
        let context = Context::read(vec![Ctxn(2), Pid(304)]);
        assert_eq!(context, Some(Context { number: 2, owner: ResourceOwner::Process(304) }));
        assert_eq!(Context::read(vec![Pid(304)]), None);
    }
}
