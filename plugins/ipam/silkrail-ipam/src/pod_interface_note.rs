//! The link from a pod's interface to its latest attachment, as a change that can be reverted:
//! `<state>/ipam/pods/<pod UID>@<interface> -> <container>@<interface>`.

use std::{
    fmt, fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use identifiers::Attachment;
use plugin_runtime::{Error, Node};
use serde::{Deserialize, Serialize};

/// The link from a pod's interface to this attachment.
///
/// It is a symbolic link, as a claim is: symlink(2) creates it together with its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodInterfaceNote {
    uid: FileNameUid,
    attachment: Attachment,
}

/// A pod's UID, checked to be safe in a file name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct FileNameUid(String);

impl PodInterfaceNote {
    /// Returns the link of an attachment; `None` without a UID, or if the UID is not safe in a file name.
    pub(crate) fn of(attachment: &Attachment, uid: Option<&str>) -> Option<Self> {
        let uid = uid?.to_owned().try_into().ok()?;
        Some(Self { uid, attachment: attachment.clone() })
    }

    /// Returns the former attachment of the pod's interface, if it is not this one.
    pub(crate) fn former(&self, node: &Node) -> Option<Attachment> {
        read(&self.path(node)).filter(|former| *former != self.attachment)
    }

    /// Writes the link, atomically replacing a former one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn write(&self, node: &Node) -> Result<(), Error> {
        let path = self.path(node);
        let written = match symlink(self.attachment.to_string(), &path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.replace(&path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                statefile::make_dir(path.parent().unwrap_or(&path), 0o700)?;
                self.replace(&path)
            }
            written => written,
        };
        written.map_err(|source| statefile::Error::Io { operation: "write", path, source }.into())
    }

    fn replace(&self, path: &Path) -> io::Result<()> {
        let temporary = temporary(path);
        let _ = fs::remove_file(&temporary);
        symlink(self.attachment.to_string(), &temporary).and_then(|()| fs::rename(&temporary, path))
    }

    /// Removes the link, unless it leads to another attachment by now.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub(crate) fn revert(&self, node: &Node) -> Result<(), Error> {
        let path = self.path(node);
        remove(&temporary(&path))?;
        match fs::read_link(&path) {
            Ok(target) if target.to_str() == Some(&self.attachment.to_string()) => remove(&path),
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(statefile::Error::Io { operation: "read", path, source }.into())
            }
            _ => Ok(()),
        }
    }

    fn path(&self, node: &Node) -> PathBuf {
        node.state.notes().join(format!("{}@{}", self.uid.0, self.attachment.ifname))
    }
}

impl fmt::Display for PodInterfaceNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link from pod {} to {}", self.uid.0, self.attachment)
    }
}

impl TryFrom<String> for FileNameUid {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let is_valid =
            (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if is_valid { Ok(Self(text)) } else { Err("expected a pod UID: 1 to 64 letters, digits and hyphens") }
    }
}

impl From<FileNameUid> for String {
    fn from(uid: FileNameUid) -> Self {
        uid.0
    }
}

fn read(path: &Path) -> Option<Attachment> {
    fs::read_link(path).ok()?.to_str()?.parse().ok()
}

/// Returns the path of the temporary link. It is derived from the final name: only one sandbox of a pod is created at a
/// time, and the next call removes what a killed process has left.
fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}"))
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(statefile::Error::Io { operation: "remove", path: path.to_owned(), source }.into())
        }
        _ => Ok(()),
    }
}
