//! Creating a master.

use std::os::fd::AsFd;

use netns::NetNs;
use nix::errno::Errno;
use plugin_runtime::{Error, Node};
use rtnl::{Link, NewLink, indexes_above};

use crate::{
    error::MasterError,
    former_link::FormerLink,
    master::{Master, MasterKind, interface},
    record::{MasterRecord, MasterRecords},
};

/// Creates the link of a record. Its index, and the former state of the slaves of a bond, are recorded before that.
///
/// # Errors
/// If the kernel refuses the link; the record is then written nevertheless.
pub(crate) fn create(
    node: &Node,
    records: &MasterRecords,
    master: &Master,
    record: &mut MasterRecord,
) -> Result<Link, Error> {
    record_slaves(node, master, record)?;
    let (links, host) = (node.links()?, NetNs::current()?);
    let highest = links.links()?.iter().map(|link| link.index).max().unwrap_or_default();
    let (name, mtu) = (&master.name, record.slaves.iter().map(|slave| slave.mtu).min());
    for index in indexes_above(highest) {
        record.index = index;
        records.write(record)?;
        let Some(message) = master.message(links)? else { break };
        match links.create_link(NewLink { name, index, netns: host.as_fd(), mtu, mac: None, message }) {
            Ok(()) => return Ok(links.link_by_index(index)?),
            // Another link took the index in between.
            Err(_) if links.find_link_by_index(index)?.is_some() => {}
            Err(error) => return Err(explain(master, error)),
        }
    }
    Err(MasterError::NoIndex.into())
}

/// Adds the slaves to a bond that the plugin created, unless they belong to it. One that was deleted and created again, for
/// example with its driver, has another index: its state is recorded again.
///
/// # Errors
/// If the kernel refuses one.
pub(crate) fn add_slaves(
    node: &Node,
    records: &MasterRecords,
    master: &Master,
    record: &mut MasterRecord,
    bond: &Link,
) -> Result<(), Error> {
    let links = node.links()?;
    for number in 0..record.slaves.len() {
        let slave = &mut record.slaves[number];
        let link = interface(links, &slave.name)?;
        if link.controller == Some(bond.index) {
            continue;
        }
        if link.index != slave.index {
            *slave = FormerLink::of(&slave.name, &link);
            records.write(record)?;
        }
        links.set_up(link.index, false)?;
        links.set_controller(link.index, bond.index).map_err(|error| explain(master, error))?;
    }
    Ok(())
}

/// Records the current state of the slaves of a bond, unless they are recorded: then the link was deleted meanwhile. If others
/// are, those are restored: the interfaces of the network were changed.
fn record_slaves(node: &Node, master: &Master, record: &mut MasterRecord) -> Result<(), Error> {
    let MasterKind::Bond(bond) = &master.kind else { return Ok(()) };
    if record.slaves.iter().map(|slave| &slave.name).eq(&bond.slaves) {
        return Ok(());
    }
    record.slaves.iter().try_for_each(|slave| slave.restore(node))?;
    let state = |name| Ok::<_, Error>(FormerLink::of(name, &node.links()?.link(name)?));
    record.slaves = bond.slaves.iter().map(state).collect::<Result<_, _>>()?;
    Ok(())
}

/// Returns the error of a request of the kernel, as an error of the configuration if its settings were refused.
fn explain(master: &Master, error: rtnl::Error) -> Error {
    let errno = match &error {
        rtnl::Error::Netlink(error) => error.errno(),
        rtnl::Error::NetNs(_) => None,
    };
    let error = match errno {
        Some(Errno::EINVAL | Errno::EOPNOTSUPP | Errno::EACCES | Errno::ERANGE) => cni::Error::config(
            error.to_string(),
        )
        .with_details(
            "the kernel refused the settings: its documentation of bonding lists which options a mode has",
        ),
        _ => Error::from(error).into(),
    };
    error.context(master).into()
}
