//! The driver of a device.

use netlink_packet_rdma::{NldevAttribute, NldevCommand, driver_name};

use crate::{
    Device, Error, Handle,
    handle::{attributes, message},
};

impl Handle {
    /// Returns the name of a device's driver, such as `mlx5` or `rxe`, by the driver ID of its uverbs device; `None` for
    /// an out-of-tree driver. Works in every namespace and for software devices, unlike sysfs.
    ///
    /// # Errors
    /// [`Error::Netlink`]: also for a device without a uverbs device.
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_GET_CHARDEV` with `RDMA_NLDEV_ATTR_CHARDEV_TYPE`; `RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID` in the reply, since
    /// 5.3.
    pub fn driver(&self, device: &Device) -> Result<Option<&'static str>, Error> {
        let request =
            vec![NldevAttribute::DevIndex(device.index), NldevAttribute::ChardevType("uverbs".to_owned())];
        let object = format_args!("driver of RDMA device {}", device.name);
        let reply = self.get("read", &object, message(NldevCommand::GetChardev, request))?;
        Ok(attributes(reply).into_iter().find_map(|attribute| match attribute {
            NldevAttribute::UverbsDriverId(id) => driver_name(id),
            _ => None,
        }))
    }
}
