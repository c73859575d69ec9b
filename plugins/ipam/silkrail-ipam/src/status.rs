//! STATUS: could an ADD get its addresses?

use cni::StatusRequest;
use ipam::{LocalStore, StoreError};
use plugin_runtime::{Error, Node};

use crate::conf::IpamConf;

/// Looks whether there are pools that the configuration can use, of each family that they cover.
///
/// That they are full is no reason to fail, unless the configuration asks for it: a runtime would report the whole node as
/// not ready, and pods of other networks would be evicted.
///
/// # Errors
/// That a pool is wrong, or none can be used; where asked for, that all of a family are full.
pub(crate) fn status(node: &Node, request: &StatusRequest<'_>) -> Result<(), Error> {
    let conf = IpamConf::of(&request.common, false)?;
    let selection = conf.select_for_any_pod()?;
    // Without a store nobody has an address.
    let Some(store) = LocalStore::open_existing(node.state.root(), journal::boot_id()?)? else {
        return Ok(());
    };
    for pools in [selection.ipv4, selection.ipv6] {
        match store.has_room(&pools) {
            Err(StoreError::Exhausted { .. } | StoreError::AllFull { .. })
                if !conf.status_fails_when_full => {}
            looked => looked?,
        }
    }
    Ok(())
}
