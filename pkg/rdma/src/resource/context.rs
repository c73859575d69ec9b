//! User contexts.

use netlink_packet_rdma::{NldevCommand, ResourceAttribute, ResourceKind};

use super::{ResourceOwner, ResourceQuery};
use crate::{Device, Error, Handle};

/// A user context: a process that has the device open, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Its number. It is not given again soon.
    pub number: u32,
    /// Who made it.
    pub owner: ResourceOwner,
}

impl Handle {
    /// The user contexts of a device; `None` if this kernel does not tell.
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
    /// The user context that an entry tells of; `None` without a number.
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
    fn a_context_says_whose_it_is() {
        let context = Context::read(vec![Ctxn(2), Pid(304)]);
        assert_eq!(context, Some(Context { number: 2, owner: ResourceOwner::Process(304) }));
        assert_eq!(Context::read(vec![Pid(304)]), None);
    }
}
