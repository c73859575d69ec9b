//! How many objects devices have in use.

use netlink_packet_rdma::{NldevAttribute, NldevCommand};
use nix::errno::Errno;

use crate::{
    Device, Error, Handle,
    handle::{attributes, message},
};

/// How many objects of each kind a device has in use. A kind that the kernel does not tell is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceCounts {
    /// The device's number.
    pub device: u32,
    /// The device's name.
    pub device_name: String,
    /// Queue pairs; each port of a device in use has at least one, the kernel's own.
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
    /// Kinds that a newer kernel tells, under its names.
    pub other: Vec<(String, u64)>,
}

impl Handle {
    /// What is in use on each device that is visible in the handle's namespace.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_RES_GET` as a dump; `RDMA_NLDEV_ATTR_RES_SUMMARY` in the answers.
    #[doc(alias = "rdma resource show")]
    pub fn resource_counts(&self) -> Result<Vec<ResourceCounts>, Error> {
        let request = message(NldevCommand::ResGet, Vec::new());
        Ok(self.dump("count", &"RDMA resources", request, |found: &mut Vec<ResourceCounts>, answer| {
            found.extend(ResourceCounts::read(attributes(answer)));
        })?)
    }

    /// What is in use on one device.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`] if it is not visible in the handle's namespace.
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_RES_GET` with `RDMA_NLDEV_ATTR_DEV_INDEX`. For some devices this costs less than the list of all: for
    /// that the kernel looks at every device of the node, whoever may see it.
    #[doc(alias = "rdma resource show")]
    pub fn resource_counts_of(&self, device: &Device) -> Result<ResourceCounts, Error> {
        let request = message(NldevCommand::ResGet, vec![NldevAttribute::DevIndex(device.index)]);
        let object = format_args!("resources of RDMA device {}", device.name);
        let missing = || Error::NoSuchDevice { device: device.name.clone() };
        let answer = self.get_at_once("count", &object, request).map_err(|error| match error.errno() {
            Some(Errno::EINVAL) => missing(),
            _ => error.into(),
        })?;
        ResourceCounts::read(attributes(answer)).ok_or_else(missing)
    }
}

impl ResourceCounts {
    /// The counts that an answer tells; `None` if it names no device.
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
        let place = match name.as_str() {
            "qp" => &mut self.qp,
            "cq" => &mut self.cq,
            "mr" => &mut self.mr,
            "pd" => &mut self.pd,
            "ctx" => &mut self.ctx,
            "srq" => &mut self.srq,
            "cm_id" => &mut self.cm_id,
            _ => return self.other.push((name, count)),
        };
        *place = Some(count);
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_rdma::ResourceCount;

    use super::*;

    #[test]
    fn a_kind_that_is_not_told_is_not_zero_and_an_unknown_one_is_kept() {
        let count = |name: &str, count| ResourceCount { name: name.into(), count };
        let summary = NldevAttribute::ResSummary(vec![count("qp", 3), count("dmah", 4), count("cm_id", 0)]);
        let device = [NldevAttribute::DevIndex(2), NldevAttribute::DevName("mlx5_2".into())];
        let counts = ResourceCounts::read([&device[..], &[summary]].concat()).unwrap();
        assert_eq!((counts.device, counts.device_name.as_str()), (2, "mlx5_2"));
        assert_eq!((counts.qp, counts.cm_id, counts.mr), (Some(3), Some(0), None));
        assert_eq!(counts.other, [("dmah".to_owned(), 4)]);
    }

    #[test]
    fn an_answer_without_a_device_counts_nothing() {
        assert_eq!(ResourceCounts::read(vec![NldevAttribute::DevIndex(2)]), None);
    }
}
