//! Which counters of an RDMA device's ports count, which a pod can change.

use plugin_runtime::Node;
use rdma::{
    Device, Handle,
    resource::{CounterCriteria, CounterMode, OptionalCounters},
};
use tracing::warn;

/// Reads by which criteria the kernel binds queue pairs to counter sets, for each port; and the enabled optional counters of each
/// port. Both are empty for a driver without them.
pub(crate) fn read(
    node: &Node,
    device: &Device,
) -> Result<(Vec<CounterCriteria>, Vec<OptionalCounters>), rdma::Error> {
    let (rdma, ports) = (node.rdma()?, 1..=device.ports);
    let modes: Option<Vec<_>> =
        ports.clone().map(|port| rdma.counter_mode(device, port)).collect::<Result<_, _>>()?;
    // A kernel or a driver that has no counters is not asked for the optional ones.
    let Some(modes) = modes else { return Ok(Default::default()) };
    let optional: Option<_> =
        ports.map(|port| rdma.optional_counters(device, port)).collect::<Result<_, _>>()?;
    Ok((modes.into_iter().map(CounterMode::criteria).collect(), optional.unwrap_or_default()))
}

/// Restores what differs. `EBUSY` while queue pairs of the pod are bound by an operator: the device must return anyway.
pub(crate) fn restore(
    rdma: &Handle,
    device: &Device,
    criteria: &[CounterCriteria],
    optional: &[OptionalCounters],
) {
    for (port, former) in (1..).zip(criteria) {
        if let Err(error) = restore_criteria(rdma, device, port, *former) {
            warn!(%error, device = %device.name, port, "failed to restore the counter mode");
        }
    }
    for (port, former) in (1..).zip(optional) {
        if let Err(error) = restore_optional(rdma, device, port, former) {
            warn!(%error, device = %device.name, port, "failed to restore the optional counters");
        }
    }
}

fn restore_criteria(
    rdma: &Handle,
    device: &Device,
    port: u32,
    former: CounterCriteria,
) -> Result<(), rdma::Error> {
    let is = rdma.counter_mode(device, port)?.map(CounterMode::criteria);
    if is.is_none_or(|is| is == former) { Ok(()) } else { rdma.set_counter_criteria(device, port, former) }
}

fn restore_optional(
    rdma: &Handle,
    device: &Device,
    port: u32,
    former: &OptionalCounters,
) -> Result<(), rdma::Error> {
    let is = rdma.optional_counters(device, port)?;
    if is.is_none_or(|is| is == *former) { Ok(()) } else { rdma.set_optional_counters(device, port, former) }
}
