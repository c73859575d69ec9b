//! The mode in which a port's queue pairs are bound to counter sets.

use netlink_packet_rdma::{NldevAttribute, NldevCommand, ResourceKind};
use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use super::{
    BindMode,
    query::{gone, unsupported},
};
use crate::{
    Device, Error, Handle,
    handle::{attributes, message},
};

/// How a port's queue pairs are bound to counter sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(alias = "rdma_counter_mode")]
pub struct CounterMode {
    /// Whether the kernel or an operator binds queue pairs.
    pub bind: BindMode,
    /// Whether the kernel creates a set for each type of queue pairs.
    pub by_type: bool,
    /// Whether the kernel creates a set for each process (in fact for each thread).
    pub by_process: bool,
}

impl Handle {
    /// Returns how a port's queue pairs are bound to counter sets; `None` if this kernel or driver does not support them.
    ///
    /// The mode does not show whether the kernel can bind: a driver without support refuses without an error.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`] if the device is not visible in the handle's namespace.
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_STAT_GET` with `RDMA_NLDEV_ATTR_STAT_RES` and `RDMA_NLDEV_ATTR_STAT_MODE`, since 5.3. Without a
    /// firmware command.
    #[doc(alias = "rdma statistic qp mode")]
    pub fn counter_mode(&self, device: &Device, port: u32) -> Result<Option<CounterMode>, Error> {
        let request = vec![
            NldevAttribute::DevIndex(device.index),
            NldevAttribute::PortIndex(port),
            NldevAttribute::StatRes(ResourceKind::QueuePair.number().into()),
            NldevAttribute::StatMode(0), // any value: its presence requests the mode
        ];
        let object = format_args!("counter mode of RDMA device {}, port {port}", device.name);
        match self.get("read", &object, message(NldevCommand::StatGet, request)) {
            Ok(reply) => Ok(CounterMode::read(&attributes(reply))),
            Err(error) => match error.errno() {
                Some(Errno::EINVAL | Errno::EOPNOTSUPP) => unsupported(self, device),
                Some(Errno::ENODEV) => Err(gone(device)),
                _ => Err(error.into()),
            },
        }
    }
}

impl Handle {
    /// Sets by which criteria the kernel binds a port's new queue pairs to counter sets. Without any it binds none; sets of
    /// existing queue pairs remain.
    ///
    /// # Errors
    /// [`Error::Netlink`]: `EINVAL` if it binds none already.
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_STAT_SET` with `RDMA_NLDEV_ATTR_STAT_MODE` and `RDMA_NLDEV_ATTR_STAT_AUTO_MODE_MASK`, since 5.3
    /// (`rdma_counter_set_auto_mode` in `drivers/infiniband/core/counters.c`).
    #[doc(alias = "rdma statistic qp set")]
    pub fn set_counter_criteria(
        &self,
        device: &Device,
        port: u32,
        criteria: CounterCriteria,
    ) -> Result<(), Error> {
        const AUTO: u32 = 1;
        let request = vec![
            NldevAttribute::DevIndex(device.index),
            NldevAttribute::PortIndex(port),
            NldevAttribute::StatRes(ResourceKind::QueuePair.number().into()),
            NldevAttribute::StatMode(AUTO),
            NldevAttribute::StatAutoModeMask(criteria.0),
        ];
        let object = format!("counter mode of RDMA device {}, port {port}", device.name);
        Ok(self.execute("set", &object, message(NldevCommand::StatSet, request))?)
    }
}

/// The criteria by which the kernel binds queue pairs to counter sets: bits of `enum rdma_nl_counter_mask`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CounterCriteria(u32);

impl CounterMode {
    const BY_TYPE: u32 = 1;
    const BY_PROCESS: u32 = 2;

    /// Returns the criteria by which the kernel binds queue pairs; none if it does not.
    pub fn criteria(self) -> CounterCriteria {
        if self.bind != BindMode::Auto {
            return CounterCriteria::default();
        }
        let by_type = if self.by_type { Self::BY_TYPE } else { 0 };
        CounterCriteria(by_type | if self.by_process { Self::BY_PROCESS } else { 0 })
    }

    /// Reads the mode in a reply; `None` if it has none.
    fn read(attributes: &[NldevAttribute]) -> Option<Self> {
        let (mut bind, mut mask) = (None, 0);
        for attribute in attributes {
            match attribute {
                NldevAttribute::StatMode(v) => bind = Some((*v).into()),
                NldevAttribute::StatAutoModeMask(v) => mask = *v,
                _ => {}
            }
        }
        Some(Self {
            bind: bind?,
            by_type: mask & Self::BY_TYPE != 0,
            by_process: mask & Self::BY_PROCESS != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use NldevAttribute::{StatAutoModeMask, StatMode};

    #[test]
    fn a_mode_has_the_criteria_of_the_kernel() {
        let by_both = CounterMode { bind: BindMode::Auto, by_type: true, by_process: true };
        assert_eq!(CounterMode::read(&[StatMode(1), StatAutoModeMask(3)]), Some(by_both));
        assert_eq!(
            CounterMode::read(&[StatMode(1), StatAutoModeMask(2)]),
            Some(CounterMode { by_type: false, ..by_both })
        );
        let off = CounterMode { bind: BindMode::None, by_type: false, by_process: false };
        assert_eq!(CounterMode::read(&[StatMode(0)]), Some(off));
        assert_eq!(CounterMode::read(&[StatAutoModeMask(2)]), None);
        let criteria = |mode: CounterMode| mode.criteria().0;
        assert_eq!((criteria(by_both), criteria(CounterMode { by_type: false, ..by_both })), (3, 2));
        assert_eq!(criteria(CounterMode { bind: BindMode::Manual, ..by_both }), 0, "an operator binds");
    }
}
