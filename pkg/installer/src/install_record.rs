//! The record of installed files and the files that they replaced.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{ReleaseVersion, Sha256};

/// The number of the record's format.
const FORMAT: u32 = 1;

/// All files installed on a node, by path: the content of `state.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InstallRecord {
    format: u32,
    /// Keys are absolute paths on the node.
    pub(crate) files: BTreeMap<PathBuf, InstalledFile>,
}

/// One installed file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InstalledFile {
    /// The hash of the installed content. Two hashes during an upgrade: a killed run leaves either content.
    pub(crate) sha256: Vec<Sha256>,
    /// The release of the last hash.
    pub(crate) release: ReleaseVersion,
    /// The file from before the installation.
    pub(crate) origin: Option<ReplacedFile>,
}

/// A replaced file of another project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum ReplacedFile {
    /// A regular file; its content is saved under its hash.
    File {
        /// Hash of its content.
        sha256: Sha256,
        /// Permission bits, as for chmod(2).
        mode: u32,
        /// User ID of its owner.
        uid: u32,
        /// Group ID.
        gid: u32,
    },
    /// A symbolic link.
    Link {
        /// The target, as readlink(2) returns it.
        target: PathBuf,
    },
}

impl Default for InstallRecord {
    fn default() -> Self {
        Self { format: FORMAT, files: BTreeMap::new() }
    }
}

impl InstallRecord {
    /// Parses the output of [`InstallRecord::text`].
    ///
    /// # Errors
    /// Why it is not valid, and what to do.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct FormatHeader {
            format: u32,
        }
        let damaged = |e: serde_json::Error| {
            format!(
                "cannot be parsed ({e}): move it away; the files that it lists then count as files of another project"
            )
        };
        let head: FormatHeader = serde_json::from_slice(bytes).map_err(damaged)?;
        if head.format != FORMAT {
            return Err(format!(
                "has format {}, expected {FORMAT}: use the release that wrote it",
                head.format
            ));
        }
        let record: Self = serde_json::from_slice(bytes).map_err(damaged)?;
        match record.files.keys().find(|path| !is_plain(path)) {
            Some(odd) => Err(format!("lists {}, which is not an absolute path without ..", odd.display())),
            None => Ok(record),
        }
    }

    pub(crate) fn text(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        Ok(text)
    }
}

fn is_plain(path: &Path) -> bool {
    path.is_absolute()
        && path.file_name().is_some()
        && path.components().all(|part| part != Component::ParentDir)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> InstallRecord {
        let origin = ReplacedFile::File { sha256: Sha256::of(b"go"), mode: 0o755, uid: 0, gid: 0 };
        let entry = InstalledFile {
            sha256: vec![Sha256::of(b"ours")],
            release: ReleaseVersion::new("0.1.0"),
            origin: Some(origin),
        };
        let link =
            InstalledFile { origin: Some(ReplacedFile::Link { target: "cni".into() }), ..entry.clone() };
        InstallRecord {
            files: [("/opt/cni/bin/macvlan".into(), entry), ("/opt/cni/bin/ipvlan".into(), link)].into(),
            ..InstallRecord::default()
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let text = record().text().unwrap();
        assert_eq!(InstallRecord::parse(&text), Ok(record()));
    }

    #[test]
    fn a_record_of_a_later_format_is_refused() {
        let error = InstallRecord::parse(br#"{"format": 2, "files": []}"#).unwrap_err();
        assert!(error.contains("has format 2"), "{error}");
    }

    #[test]
    fn damage_and_odd_paths_are_refused() {
        for bad in
            ["", "{}", "[]", r#"{"format": 1}"#, r#"{"format": 1, "files": {"/a": {"sha256": ["xyz"]}}}"#]
        {
            assert!(InstallRecord::parse(bad.as_bytes()).unwrap_err().contains("move it away"), "{bad}");
        }
        let text = String::from_utf8(record().text().unwrap()).unwrap();
        for odd in ["opt/cni/bin/macvlan", "/opt/../etc/passwd", "/"] {
            let error =
                InstallRecord::parse(text.replace("/opt/cni/bin/macvlan", odd).as_bytes()).unwrap_err();
            assert!(error.contains("not an absolute path"), "{error}");
        }
    }
}
