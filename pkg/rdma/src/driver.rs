//! The driver of a device.

use netlink_packet_rdma::{NldevAttribute, NldevCommand, driver_name};

use crate::{
    Device, Error, Handle,
    handle::{attributes, message},
};

impl Handle {
    /// The name of a device's driver, like `mlx5` or `rxe`, by the number that goes with the device's uverbs node; `None` for
    /// a driver outside the kernel's tree. Works in every namespace and for software devices, unlike sysfs.
    ///
    /// # Errors
    /// [`Error::Netlink`]: also for a device that has no uverbs node.
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_GET_CHARDEV` with `RDMA_NLDEV_ATTR_CHARDEV_TYPE`; `RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID` in the answer, since
    /// 5.3.
    pub fn driver(&self, device: &Device) -> Result<Option<&'static str>, Error> {
        let asked =
            vec![NldevAttribute::DevIndex(device.index), NldevAttribute::ChardevType("uverbs".to_owned())];
        let object = format_args!("driver of RDMA device {}", device.name);
        let answer = self.get("read", &object, message(NldevCommand::GetChardev, asked))?;
        Ok(attributes(answer).into_iter().find_map(|attribute| match attribute {
            NldevAttribute::UverbsDriverId(id) => driver_name(id),
            _ => None,
        }))
    }
}
