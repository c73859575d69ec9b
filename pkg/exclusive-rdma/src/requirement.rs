//! The configuration key `rdma` of the sriov and rdma plugins.

use std::time::Duration;

use cni::{CallContext, Error};

/// What a pod requires of its RDMA device before it starts: `rdma.require`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExclusiveRdmaRequirement {
    /// Only that the device is in the pod.
    Device,
    /// That the device is ready for use. The value is `rdma.timeoutMs`, the limit of the wait.
    Ready(Duration),
}

/// The default of `rdma.timeoutMs`. A port is active about two seconds after its link is up, and busy firmware of a card
/// may need some seconds more.
const DEFAULT_READY_TIMEOUT: Duration = Duration::from_secs(10);

impl ExclusiveRdmaRequirement {
    /// Reads the key `rdma` of a configuration.
    ///
    /// # Errors
    /// If a value is invalid; the message contains its key.
    pub fn of(common: &CallContext<'_>) -> Result<Self, Error> {
        let Some(rdma) = common.conf.fields().object("rdma")? else { return Ok(Self::Device) };
        if !rdma.flag("require")?.unwrap_or(false) {
            return Ok(Self::Device);
        }
        let timeout = match rdma.integer("timeoutMs")? {
            None => DEFAULT_READY_TIMEOUT,
            Some(ms) => match u32::try_from(ms) {
                Ok(ms) if (1..=100_000).contains(&ms) => Duration::from_millis(ms.into()),
                _ => return Err(rdma.invalid("timeoutMs", "milliseconds from 1 to 100000", ms)),
            },
        };
        Ok(Self::Ready(timeout))
    }
}

#[cfg(test)]
mod tests {
    use cni::{CniArgs, NetConf};

    use super::*;

    #[test]
    fn a_pod_waits_only_if_it_requires_rdma_and_for_the_configured_time() {
        let read = |rdma: &str| {
            let conf = NetConf::parse(format!(r#"{{"name": "rail", "rdma": {rdma}}}"#).as_bytes()).unwrap();
            let call = CallContext { conf, args: CniArgs::default(), cni_path: Vec::new(), stdin: &[] };
            ExclusiveRdmaRequirement::of(&call)
        };
        for device in ["null", "{}", r#"{"require": false}"#, r#"{"require": false, "timeoutMs": 0}"#] {
            assert_eq!(read(device).unwrap(), ExclusiveRdmaRequirement::Device, "{device}");
        }
        for (timeout, milliseconds) in [("null", 10_000), ("1", 1), ("100000", 100_000)] {
            let ready = ExclusiveRdmaRequirement::Ready(Duration::from_millis(milliseconds));
            assert_eq!(read(&format!(r#"{{"require": true, "timeoutMs": {timeout}}}"#)).unwrap(), ready);
        }
        for invalid in ["0", "-1", "100001"] {
            assert!(read(&format!(r#"{{"require": true, "timeoutMs": {invalid}}}"#)).is_err(), "{invalid}");
        }
    }
}
