//! What a pod needs of its RDMA device.

use std::time::Duration;

use cni::{CallContext, Error};

/// What a pod needs of its RDMA device, beside having it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExclusiveRdmaRequirement {
    /// Nothing.
    Device,
    /// Not to start before it can be used; and how long that may take.
    Ready(Duration),
}

/// How long a device may take, unless the configuration says otherwise. A port is active about two seconds after its
/// link is up, and a card's firmware that is busy may need seconds more.
const DEFAULT_READY_TIMEOUT: Duration = Duration::from_secs(10);

impl ExclusiveRdmaRequirement {
    /// What a configuration's `rdma` says.
    ///
    /// # Errors
    /// A wrong value, named with its key.
    pub fn of(common: &CallContext<'_>) -> Result<Self, Error> {
        let Some(rdma) = common.conf.fields().object("rdma")? else { return Ok(Self::Device) };
        if !rdma.flag("require")?.unwrap_or(false) {
            return Ok(Self::Device);
        }
        let timeout = match rdma.integer("timeoutMs")? {
            None => DEFAULT_READY_TIMEOUT,
            Some(ms) => match u32::try_from(ms) {
                Ok(ms) if (1..=100_000).contains(&ms) => Duration::from_millis(ms.into()),
                _ => return Err(rdma.wrong("timeoutMs", "milliseconds from 1 to 100000", ms)),
            },
        };
        Ok(Self::Ready(timeout))
    }
}
