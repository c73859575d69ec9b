//! STATUS: whether an ADD could allocate addresses.

use cni::StatusRequest;
use ipam::{LocalStore, StoreError};
use plugin_runtime::{Error, Node};

use crate::conf::IpamConf;

/// Checks that the configuration has pools that can be used.
///
/// Full pools are an error only with `statusFailsWhenFull`: a runtime would report the whole node as not ready, and pods of
/// other networks would be evicted.
///
/// # Errors
/// If a pool is invalid or no pool can be used; with `statusFailsWhenFull`, if all pools of a family are full.
pub(crate) fn status(node: &Node, request: &StatusRequest<'_>) -> Result<(), Error> {
    let conf = IpamConf::of_network(&request.common)?;
    let selection = match conf.select_for_any_pod() {
        // Annotations of pods may name some.
        Err(Error::NoPool(ipam::SelectError::None { .. })) if conf.pools_depend_on_pod() => return Ok(()),
        selected => selected?,
    };
    // Without a store, no address is claimed.
    let Some(store) = LocalStore::open_existing(node.state.root(), journal::boot_id()?)? else {
        return Ok(());
    };
    for pools in [selection.ipv4, selection.ipv6] {
        match store.has_room(&pools) {
            Err(StoreError::Exhausted { .. } | StoreError::AllFull { .. })
                if !conf.status_fails_when_full => {}
            checked => checked?,
        }
    }
    Ok(())
}
