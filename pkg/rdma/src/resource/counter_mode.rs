//! How a port's queue pairs come to have counters of their own.

use netlink_packet_rdma::{NldevAttribute, NldevCommand, ResourceKind};
use nix::errno::Errno;

use super::{BindMode, gone, untold};
use crate::{
    Device, Error, Handle,
    handle::{attributes, message},
};

/// How a port's queue pairs are bound to sets of counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(alias = "rdma_counter_mode")]
pub struct CounterMode {
    /// Who binds.
    pub bind: BindMode,
    /// Whether the kernel makes a set for each type of queue pairs.
    pub by_type: bool,
    /// Whether it makes one for each process; it takes a thread for one.
    pub by_process: bool,
}

impl Handle {
    /// How a port's queue pairs are bound to sets of counters; `None` if this kernel or driver has none.
    ///
    /// That the kernel is to bind says nothing of whether it can: a driver that cannot refuses in silence.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`] if the device is not visible in the handle's namespace.
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_STAT_GET` with `RDMA_NLDEV_ATTR_STAT_RES` and `RDMA_NLDEV_ATTR_STAT_MODE`, since 5.3. No command to the
    /// card's firmware.
    #[doc(alias = "rdma statistic qp mode")]
    pub fn counter_mode(&self, device: &Device, port: u32) -> Result<Option<CounterMode>, Error> {
        let asked = vec![
            NldevAttribute::DevIndex(device.index),
            NldevAttribute::PortIndex(port),
            NldevAttribute::StatRes(ResourceKind::QueuePair.number().into()),
            NldevAttribute::StatMode(0), // any: that it is there asks for the mode
        ];
        let object = format_args!("counter mode of RDMA device {}, port {port}", device.name);
        match self.get("read", &object, message(NldevCommand::StatGet, asked)) {
            Ok(answer) => Ok(CounterMode::read(&attributes(answer))),
            Err(error) => match error.errno() {
                Some(Errno::EINVAL | Errno::EOPNOTSUPP) => untold(self, device),
                Some(Errno::ENODEV) => Err(gone(device)),
                _ => Err(error.into()),
            },
        }
    }
}

impl CounterMode {
    /// The mode that an answer tells of; `None` if it tells of none.
    fn read(attributes: &[NldevAttribute]) -> Option<Self> {
        const BY_TYPE: u32 = 1;
        const BY_PROCESS: u32 = 2;
        let (mut bind, mut mask) = (None, 0);
        for attribute in attributes {
            match attribute {
                NldevAttribute::StatMode(v) => bind = Some((*v).into()),
                NldevAttribute::StatAutoModeMask(v) => mask = *v,
                _ => {}
            }
        }
        Some(Self { bind: bind?, by_type: mask & BY_TYPE != 0, by_process: mask & BY_PROCESS != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use NldevAttribute::{StatAutoModeMask, StatMode};

    #[test]
    fn a_mode_says_by_what_the_kernel_binds() {
        let by_both = CounterMode { bind: BindMode::Auto, by_type: true, by_process: true };
        assert_eq!(CounterMode::read(&[StatMode(1), StatAutoModeMask(3)]), Some(by_both));
        assert_eq!(
            CounterMode::read(&[StatMode(1), StatAutoModeMask(2)]),
            Some(CounterMode { by_type: false, ..by_both })
        );
        let off = CounterMode { bind: BindMode::None, by_type: false, by_process: false };
        assert_eq!(CounterMode::read(&[StatMode(0)]), Some(off));
        assert_eq!(CounterMode::read(&[StatAutoModeMask(2)]), None);
    }
}
