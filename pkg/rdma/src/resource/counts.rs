//! The number of resources that devices have in use.

use netlink_packet_rdma::{NldevAttribute, NldevCommand};
use nix::errno::Errno;

use crate::{
    Device, Error, Handle,
    handle::{attributes, message},
};

/// The number of resources of each kind that a device has in use. A kind that the kernel does not report is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceCounts {
    /// The device's index.
    pub device: u32,
    /// The device's name, such as `mlx5_3`.
    pub device_name: String,
    /// Queue pairs; each port of a device in use has at least one of the kernel.
    pub qp: Option<u64>,
    /// Completion queues.
    pub cq: Option<u64>,
    /// Memory regions.
    pub mr: Option<u64>,
    /// Protection domains.
    pub pd: Option<u64>,
    /// User contexts.
    pub ctx: Option<u64>,
    /// Shared receive queues.
    pub srq: Option<u64>,
    /// Connection manager IDs.
    pub cm_id: Option<u64>,
    /// Kinds of newer kernels, with the kernel's names.
    pub other: Vec<(String, u64)>,
}

impl Handle {
    /// Returns the counts of each device that is visible in the handle's namespace.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_RES_GET` as a dump; `RDMA_NLDEV_ATTR_RES_SUMMARY` in the replies.
    #[doc(alias = "rdma resource show")]
    pub fn resource_counts(&self) -> Result<Vec<ResourceCounts>, Error> {
        let request = message(NldevCommand::ResGet, Vec::new());
        Ok(self.dump("count", &"RDMA resources", request, |found: &mut Vec<ResourceCounts>, reply| {
            found.extend(ResourceCounts::read(attributes(reply)));
        })?)
    }

    /// Returns the counts of one device.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`] if it is not visible in the handle's namespace.
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_RES_GET` with `RDMA_NLDEV_ATTR_DEV_INDEX`. For a few devices this is cheaper than a dump, for which the
    /// kernel visits every device of the node, including those of other namespaces.
    #[doc(alias = "rdma resource show")]
    pub fn resource_counts_of(&self, device: &Device) -> Result<ResourceCounts, Error> {
        let request = message(NldevCommand::ResGet, vec![NldevAttribute::DevIndex(device.index)]);
        let object = format_args!("resources of RDMA device {}", device.name);
        let missing = || Error::NoSuchDevice { device: device.name.clone() };
        let reply = self.get_at_once("count", &object, request).map_err(|error| match error.errno() {
            Some(Errno::EINVAL) => missing(),
            _ => error.into(),
        })?;
        ResourceCounts::read(attributes(reply)).ok_or_else(missing)
    }
}

impl ResourceCounts {
    /// Reads the counts in a reply; `None` if it has no device.
    pub fn read(attributes: Vec<NldevAttribute>) -> Option<Self> {
        let (mut device, mut device_name, mut counts) = (None, None, Self::default());
        for attribute in attributes {
            match attribute {
                NldevAttribute::DevIndex(v) => device = Some(v),
                NldevAttribute::DevName(v) => device_name = Some(v),
                NldevAttribute::ResSummary(v) => {
                    v.into_iter().for_each(|entry| counts.set_count(entry.name, entry.count));
                }
                _ => {}
            }
        }
        Some(Self { device: device?, device_name: device_name?, ..counts })
    }

    fn set_count(&mut self, name: String, count: u64) {
        let field = match name.as_str() {
            "qp" => &mut self.qp,
            "cq" => &mut self.cq,
            "mr" => &mut self.mr,
            "pd" => &mut self.pd,
            "ctx" => &mut self.ctx,
            "srq" => &mut self.srq,
            "cm_id" => &mut self.cm_id,
            _ => return self.other.push((name, count)),
        };
        *field = Some(count);
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_rdma::ResourceCount;

    use super::*;

    #[test]
    fn a_missing_kind_is_not_zero_and_an_unknown_one_is_kept() {
        let count = |name: &str, count| ResourceCount { name: name.into(), count };
        let summary = NldevAttribute::ResSummary(vec![count("qp", 3), count("dmah", 4), count("cm_id", 0)]);
        let device = [NldevAttribute::DevIndex(2), NldevAttribute::DevName("mlx5_2".into())];
        let counts = ResourceCounts::read([&device[..], &[summary]].concat()).unwrap();
        assert_eq!((counts.device, counts.device_name.as_str()), (2, "mlx5_2"));
        assert_eq!((counts.qp, counts.cm_id, counts.mr), (Some(3), Some(0), None));
        assert_eq!(counts.other, [("dmah".to_owned(), 4)]);
    }

    #[test]
    fn each_kind_has_its_own_count() {
        let mut counts = ResourceCounts::default();
        for (name, count) in ["qp", "cq", "mr", "pd", "ctx", "srq", "cm_id"].into_iter().zip(1..) {
            counts.set_count(name.into(), count);
        }
        let ResourceCounts { qp, cq, mr, pd, ctx, srq, cm_id, .. } = counts;
        assert_eq!([qp, cq, mr, pd, ctx, srq, cm_id], [1, 2, 3, 4, 5, 6, 7].map(Some));
    }

    #[test]
    fn a_reply_without_a_device_has_no_counts() {
        assert_eq!(ResourceCounts::read(vec![NldevAttribute::DevIndex(2)]), None);
    }
}
