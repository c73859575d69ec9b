//! The records of masters: one file for each, beside the files of the attachments that use it.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use identifiers::{Attachment, LinkName};
use journal::boot_id;
use netns::{NetNs, NetNsId};
use plugin_runtime::{Error, Node};
use rtnl::{Link, LinkKind};
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::{former_link::FormerLink, master::Master, user_files::UserFiles};

/// How long a call waits for the lock of the records. A call holds it while it creates or deletes a link: a bond takes the
/// kernel up to a second.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// The record of a master: its identity, what the plugin changed, and its users.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MasterRecord {
    boot_id: String,
    /// The namespace of the node.
    netns: NetNsId,
    pub(crate) name: LinkName,
    /// `interface`, `vlan` or `bond`.
    kind: String,
    /// The ID of a VLAN.
    vlan_id: Option<u16>,
    /// All properties, as [`Master`] prints them.
    pub(crate) properties: String,
    /// The index of the link, which is chosen before the link is created.
    pub(crate) index: u32,
    /// Whether the plugin created the link.
    pub(crate) created: bool,
    /// Whether the plugin set up the link, which it did not create.
    pub(crate) raised: bool,
    /// The former state of the slaves of a bond that the plugin created.
    pub(crate) slaves: Vec<FormerLink>,
    /// They have [files of their own](UserFiles). Versions before those wrote them into the record.
    #[serde(default, skip_serializing)]
    pub(crate) users: Vec<Attachment>,
}

impl MasterRecord {
    /// Returns the record of a master whose link is not known yet.
    ///
    /// # Errors
    /// If the boot ID or the namespace cannot be read.
    pub(crate) fn new(master: &Master, users: Vec<Attachment>) -> Result<Self, Error> {
        Ok(Self {
            boot_id: boot_id()?.into(),
            netns: NetNs::current()?.identified()?.id(),
            name: master.name.clone(),
            kind: master.kind_name().into(),
            vlan_id: master.vlan_id(),
            properties: master.to_string(),
            index: 0,
            created: false,
            raised: false,
            slaves: Vec::new(),
            users,
        })
    }

    /// Whether a link is the one of the record: it has the index and the kind, and the ID of a VLAN.
    pub(crate) fn is_of(&self, link: &Link) -> bool {
        let has_kind = match &link.kind {
            _ if self.kind == "interface" => link.name == self.name.as_str(),
            Some(LinkKind::Vlan(id)) => self.kind == "vlan" && *id == self.vlan_id,
            Some(kind) => kind.to_string() == self.kind,
            None => false,
        };
        link.index == self.index && has_kind
    }

    /// Whether this is the record of a bond.
    pub(crate) fn is_bond(&self) -> bool {
        self.kind == "bond"
    }

    /// Whether the record was written before the last boot.
    ///
    /// # Errors
    /// If the boot ID cannot be read.
    pub(crate) fn is_of_former_boot(&self) -> Result<bool, Error> {
        Ok(self.boot_id != boot_id()?)
    }

    /// Whether the link exists as long as this boot, in the namespace of this thread.
    ///
    /// # Errors
    /// If the boot ID or the namespace cannot be read.
    pub(crate) fn is_current(&self) -> Result<bool, Error> {
        Ok(!self.is_of_former_boot()? && NetNs::current()?.is(self.netns)?)
    }

    /// Returns the link of the record, if it exists.
    ///
    /// # Errors
    /// If the kernel cannot be asked.
    pub(crate) fn link(&self, node: &Node) -> Result<Option<Link>, Error> {
        Ok(node.links()?.find_link_by_index(self.index)?.filter(|link| self.is_of(link)))
    }
}

/// Returns the record of a master, if it was written in this boot and namespace, without waiting for the lock.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn find(node: &Node, name: &LinkName) -> Result<Option<MasterRecord>, Error> {
    match find_of_any_boot(node, name)? {
        Some(record) if record.is_current()? => Ok(Some(record)),
        _ => Ok(None),
    }
}

/// Returns the record of a master of any boot and namespace; `None` if it cannot be parsed. Nothing is changed.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn find_of_any_boot(node: &Node, name: &LinkName) -> Result<Option<MasterRecord>, Error> {
    Ok(read(&node.state.masters().join(name.as_str()))?.and_then(Result::ok))
}

/// The records, locked: no other process changes a record or a master while this value exists.
pub(crate) struct MasterRecords {
    directory: PathBuf,
    _lock: File,
}

impl MasterRecords {
    /// Creates the directory if necessary, and locks it.
    ///
    /// # Errors
    /// If another call holds the lock for too long.
    pub(crate) fn lock(node: &Node) -> Result<Self, Error> {
        let directory = node.state.make_dir("masters")?;
        let locked = lock(node, &directory)?;
        let missing = || statefile::Error::Io {
            operation: "lock",
            path: directory.clone(),
            source: io::ErrorKind::NotFound.into(),
        };
        Ok(Self { _lock: locked.ok_or_else(missing)?, directory })
    }

    /// Locks the directory; `None` if it does not exist.
    ///
    /// # Errors
    /// As [`MasterRecords::lock`].
    pub(crate) fn lock_existing(node: &Node) -> Result<Option<Self>, Error> {
        let directory = node.state.masters();
        Ok(lock(node, &directory)?.map(|lock| Self { directory, _lock: lock }))
    }

    /// Whether the directory exists.
    pub(crate) fn exist(node: &Node) -> bool {
        node.state.masters().is_dir()
    }

    /// Returns the record of a master, if it was written in this boot and namespace. One that cannot be parsed is quarantined,
    /// and one of another boot is removed: its link is gone.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn find(&self, name: &str) -> Result<Option<MasterRecord>, Error> {
        let path = self.directory.join(name);
        match read(&path)? {
            None => Ok(None),
            Some(Ok(record)) if record.is_current()? => Ok(Some(record)),
            Some(Ok(_)) => {
                statefile::remove(&path)?;
                UserFiles::of(&path).clear()?;
                Ok(None)
            }
            Some(Err(error)) => {
                let quarantined = statefile::quarantine(&path)?;
                warn!(%error, file = %quarantined.display(), "the record of a master could not be parsed and was quarantined");
                Ok(None)
            }
        }
    }

    /// Writes the record of a master, after the files of its users. A record that has not changed is not written.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(crate) fn write(&self, record: &MasterRecord) -> Result<(), Error> {
        let path = self.directory.join(record.name.as_str());
        UserFiles::of(&path).add(&record.users)?;
        let encode = |error: serde_json::Error| statefile::Error::Io {
            operation: "encode",
            path: path.clone(),
            source: error.into(),
        };
        let bytes = serde_json::to_vec(record).map_err(encode)?;
        if statefile::read(&path)?.is_some_and(|present| present == bytes) {
            return Ok(());
        }
        Ok(statefile::replace(&path, 0o600, &bytes)?)
    }

    /// Writes the record of a master, and removes the files of those who are not its users any more.
    ///
    /// # Errors
    /// If a file cannot be written or removed.
    pub(crate) fn write_remaining(&self, record: &MasterRecord) -> Result<(), Error> {
        self.write(record)?;
        UserFiles::of(&self.directory.join(record.name.as_str())).keep(&record.users)
    }

    /// Removes a user of a master that has no record: its ADD was killed before it wrote one.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub(crate) fn remove_user(&self, name: &LinkName, user: &Attachment) -> Result<(), Error> {
        UserFiles::of(&self.directory.join(name.as_str())).remove(user)
    }

    /// Removes the record of a master, and its users.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub(crate) fn remove(&self, name: &LinkName) -> Result<(), Error> {
        let path = self.directory.join(name.as_str());
        statefile::remove(&path)?;
        UserFiles::of(&path).clear()
    }

    /// Returns the names of the masters that have a record. Removes what a call that was killed while it wrote a record has
    /// left: nobody else writes one now.
    ///
    /// # Errors
    /// If the directory cannot be listed, or a file cannot be removed.
    pub(crate) fn names(&self) -> Result<Vec<LinkName>, Error> {
        let failed =
            |source| statefile::Error::Io { operation: "list", path: self.directory.clone(), source };
        let entries = self.directory.read_dir().map_err(failed)?;
        let files = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names = Vec::new();
        for file in files {
            let path = self.directory.join(&file);
            if statefile::is_temporary(&file) && !is_record_of(&path, &file)? {
                statefile::remove(&path)?;
            } else {
                names.extend(file.parse::<LinkName>().ok());
            }
        }
        Ok(names)
    }
}

/// Whether a file is the record of a master with its name: a link may have the name of a temporary file.
fn is_record_of(path: &Path, name: &str) -> Result<bool, Error> {
    Ok(matches!(read(path)?, Some(Ok(record)) if record.name.as_str() == name))
}

fn lock(node: &Node, directory: &Path) -> Result<Option<File>, Error> {
    let failed = |source| statefile::Error::Io { operation: "open", path: directory.to_owned(), source };
    let file = match File::open(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    let deadline = node.budget.until("the records of masters", LOCK_TIMEOUT);
    let at: Instant = deadline.at();
    statefile::lock(&file, directory, at)?;
    Ok(Some(file))
}

/// Reads a record, or returns why it cannot be parsed; `None` if there is none.
fn read(path: &Path) -> Result<Option<Result<MasterRecord, String>>, Error> {
    match statefile::read(path) {
        Ok(None) => Ok(None),
        Ok(Some(bytes)) => match serde_json::from_slice::<MasterRecord>(&bytes) {
            Ok(mut record) => {
                let mut users = UserFiles::of(path).list()?;
                users.retain(|user| !record.users.contains(user));
                record.users.extend(users);
                Ok(Some(Ok(record)))
            }
            Err(error) => Ok(Some(Err(error.to_string()))),
        },
        Err(error) if error.is_foreign() => Ok(Some(Err(error.to_string()))),
        Err(error) => Err(error.into()),
    }
}
