//! STATUS: could an ADD get its addresses?

use cni::Status;
use ipam::LocalStore;
use plugin::{Error, Node};

use crate::{ITSELF, conf::Conf};

/// Looks whether the pools that the configuration would use have a free address, of each family that they cover.
///
/// # Errors
/// That a pool is wrong, or none can be used, or all of a family are full.
pub(crate) fn status(request: &Status<'_>) -> Result<(), Error> {
    let conf = Conf::of(&request.common)?;
    let selection = conf.select(&request.common, "")?;
    let node = Node::of(&request.common, &ITSELF)?;
    // Without a store nobody has an address.
    let Some(store) = LocalStore::open_existing(node.state.root(), journal::boot_id()?)? else {
        return Ok(());
    };
    for pools in [selection.ipv4, selection.ipv6] {
        store.has_room(&pools)?;
    }
    Ok(())
}
