//! The optional counters of a port, which count only while they are enabled.

use netlink_packet_rdma::{EnabledCounter, HwCounterStatus, NldevAttribute, NldevCommand};
use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use super::query::gone;
use crate::{
    Device, Error, Handle,
    handle::{attributes, message},
};

/// The enabled ones of a port's optional counters, by their indexes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OptionalCounters(Vec<u32>);

impl Handle {
    /// Returns which optional counters of a port are enabled; `None` if this kernel or driver has none.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`] if the device is not visible in the handle's namespace.
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_STAT_GET_STATUS`, since 5.16. Without a firmware command.
    #[doc(alias = "rdma statistic mode")]
    pub fn optional_counters(&self, device: &Device, port: u32) -> Result<Option<OptionalCounters>, Error> {
        let request = vec![NldevAttribute::DevIndex(device.index), NldevAttribute::PortIndex(port)];
        match self.get("read", &object(device, port), message(NldevCommand::StatGetStatus, request)) {
            Ok(reply) => Ok(OptionalCounters::read(attributes(reply))),
            Err(error) => match error.errno() {
                Some(Errno::EINVAL | Errno::EOPNOTSUPP) => Ok(None),
                Some(Errno::ENODEV) => Err(gone(device)),
                _ => Err(error.into()),
            },
        }
    }

    /// Enables these optional counters of a port, and disables the others.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_STAT_SET` with `RDMA_NLDEV_ATTR_STAT_HWCOUNTERS`, since 5.16
    /// (`nldev_stat_set_counter_dynamic_doit` in `drivers/infiniband/core/nldev.c`).
    #[doc(alias = "rdma statistic set")]
    pub fn set_optional_counters(
        &self,
        device: &Device,
        port: u32,
        counters: &OptionalCounters,
    ) -> Result<(), Error> {
        let request = vec![
            NldevAttribute::DevIndex(device.index),
            NldevAttribute::PortIndex(port),
            NldevAttribute::StatEnabledCounters(counters.0.iter().copied().map(EnabledCounter).collect()),
        ];
        Ok(self.execute("set", &object(device, port), message(NldevCommand::StatSet, request))?)
    }
}

fn object(device: &Device, port: u32) -> String {
    format!("optional counters of RDMA device {}, port {port}", device.name)
}

impl OptionalCounters {
    /// Reads the enabled counters in a reply; `None` if none is optional.
    fn read(attributes: Vec<NldevAttribute>) -> Option<Self> {
        let counters: Vec<HwCounterStatus> = attributes
            .into_iter()
            .filter_map(|attribute| match attribute {
                NldevAttribute::StatHwCounterStatus(counters) => Some(counters),
                _ => None,
            })
            .flatten()
            .filter(|counter| counter.dynamic.is_some())
            .collect();
        let enabled =
            counters.iter().filter(|counter| counter.dynamic == Some(1)).map(|counter| counter.index);
        (!counters.is_empty()).then(|| Self(enabled.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_optional_counters_can_be_enabled() {
        let counter = |index, dynamic| HwCounterStatus { name: "any".into(), index, dynamic };
        let read = |counters| OptionalCounters::read(vec![NldevAttribute::StatHwCounterStatus(counters)]);
        let counters = vec![counter(0, None), counter(1, Some(0)), counter(2, Some(1))];
        assert_eq!(read(counters), Some(OptionalCounters(vec![2])));
        assert_eq!(read(vec![counter(0, Some(0))]), Some(OptionalCounters(vec![])));
        assert_eq!((read(vec![counter(0, None)]), OptionalCounters::read(vec![])), (None, None));
    }
}
