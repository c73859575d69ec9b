//! The use of a master by an attachment, as a change that can be reverted.

use std::fmt;

use identifiers::{Attachment, LinkName};
use plugin_runtime::{Error, Node};
use rtnl::Link;
use serde::{Deserialize, Serialize};
use tracing::info;

use crate::{
    create::{add_slaves, create},
    error::MasterError,
    examine::examine,
    master::Master,
    record::{self, MasterRecord, MasterRecords},
    usage,
};

/// The change that an attachment uses a master. Its record has the rest: whether the plugin created the link, and its
/// identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MasterUse {
    name: LinkName,
    attachment: Attachment,
}

impl MasterUse {
    /// Returns the use of a master, which is not recorded yet.
    pub(crate) fn of(master: &Master, attachment: &Attachment) -> Self {
        Self { name: master.name.clone(), attachment: attachment.clone() }
    }

    /// Records the use, and creates the link if necessary. The link is up then.
    ///
    /// # Errors
    /// If the link cannot be created, or another one has its name.
    pub(crate) fn acquire(&self, node: &Node, master: &Master) -> Result<(), Error> {
        let records = MasterRecords::lock(node)?;
        let former = records.find(self.name.as_str())?;
        let found = examine(node, master, former.as_ref(), &[])?;
        let mut record = self.record(master, former, found.as_ref())?;
        let link = if let Some(link) = found {
            record.index = link.index;
            record.raised |= !record.created && !link.up;
            records.write(&record)?;
            link
        } else {
            (record.created, record.raised) = (true, false);
            create(node, &records, master, &mut record)?
        };
        if record.created {
            add_slaves(node, &records, master, &mut record, &link)?;
        }
        if link.up { Ok(()) } else { Ok(node.links()?.set_up(link.index, true)?) }
    }

    /// Returns the record to write, with this attachment as a user. If another program deleted the link, or created another
    /// one, it keeps the other users.
    fn record(
        &self,
        master: &Master,
        former: Option<MasterRecord>,
        found: Option<&Link>,
    ) -> Result<MasterRecord, Error> {
        let mut record = match (former, found) {
            (Some(former), Some(link)) if former.is_of(link) => former,
            (Some(former), None) => {
                let mut record = MasterRecord::new(master, former.users)?;
                record.slaves = former.slaves;
                record
            }
            (former, _) => MasterRecord::new(master, former.map(|former| former.users).unwrap_or_default())?,
        };
        if !record.users.contains(&self.attachment) {
            record.users.push(self.attachment.clone());
        }
        Ok(record)
    }

    /// Ends the use. The last use ends the master, if the plugin created it and nothing else uses it.
    fn release(&self, node: &Node) -> Result<(), Error> {
        let Some(records) = MasterRecords::lock_existing(node)? else { return Ok(()) };
        let Some(mut record) = records.find(self.name.as_str())? else {
            return records.remove_user(&self.name, &self.attachment);
        };
        if !record.users.contains(&self.attachment) {
            return Ok(());
        }
        record.users.retain(|user| *user != self.attachment);
        end_if_unused(node, &records, record)
    }
}

/// Ends a master without users: deletes the link if the plugin created it, sets it down if the plugin set it up, and restores
/// the slaves of a bond. A link that something else uses is kept; so is its record, for the next ADD or GC.
///
/// # Errors
/// If the kernel refuses a change; the record is then as before.
pub(crate) fn end_if_unused(node: &Node, records: &MasterRecords, record: MasterRecord) -> Result<(), Error> {
    if !record.users.is_empty() {
        return records.write_remaining(&record);
    }
    if let Some(link) = link_to_end(node, &record)? {
        let links = node.links()?;
        if let Some(reason) = usage::reason_to_keep(node, &link)? {
            info!(link = %link.name, %reason, "keeping the link of the last pod");
            return records.write_remaining(&record);
        }
        match if record.created { links.delete_link(link.index) } else { links.set_up(link.index, false) } {
            Err(error) if error.is_not_found() => {}
            ended => ended?,
        }
    }
    record.slaves.iter().try_for_each(|slave| slave.restore(node))?;
    records.remove(&record.name)
}

/// Returns the link of a record, if the plugin created it or set it up.
///
/// # Errors
/// If the kernel cannot be asked.
pub(crate) fn link_to_end(node: &Node, record: &MasterRecord) -> Result<Option<Link>, Error> {
    // Indexes are used again, so a link of another name may be another one.
    let is_ours = |link: &Link| (record.created || record.raised) && link.name == record.name.as_str();
    Ok(record.link(node)?.filter(is_ours))
}

impl journal::Change for MasterUse {
    type Node = Node;
    type Error = Error;

    fn revert(&self, node: &Node) -> Result<(), Error> {
        self.release(node)
    }

    fn step(&self) -> &'static str {
        "master"
    }

    /// The record is a file, which is removed.
    fn survives_reboot(&self) -> bool {
        true
    }

    fn verify(&self, node: &Node) -> Result<(), Error> {
        let changed = |how: &str| MasterError::Changed(format!("{self}: {how}"));
        let record = record::find(node, &self.name)?.ok_or_else(|| changed("its record is gone"))?;
        if !record.users.contains(&self.attachment) {
            return Err(changed("its record does not contain the attachment").into());
        }
        match record.link(node)? {
            None => Err(changed("the link is gone, or is another one").into()),
            Some(link) if link.name != self.name.as_str() => {
                Err(changed(&format!("it was renamed to {}", link.name)).into())
            }
            Some(link) if !link.up => Err(changed("it is down").into()),
            Some(_) => Ok(()),
        }
    }
}

impl fmt::Display for MasterUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "master {}", self.name)
    }
}

#[cfg(test)]
mod tests;
