//! Where a plugin keeps what it must remember.

use std::path::{Path, PathBuf};

use addr::Attachment;
use cni::{Common, Error, Fields};
use podmap::PodMap;

/// The state directory: `/run/silkrail`, or the configuration's `stateDir`.
#[derive(Debug, Clone)]
pub struct State {
    root: PathBuf,
}

impl State {
    /// Where state is kept unless a configuration says otherwise: on a file system that dies with the boot,
    /// as namespaces and links do.
    pub const DEFAULT: &'static str = "/run/silkrail";

    /// The state directory of a configuration.
    ///
    /// # Errors
    /// If `stateDir` is no absolute path.
    pub fn of(common: &Common<'_>) -> Result<Self, Error> {
        let dir = dir(&common.conf.fields())?;
        Ok(Self::at(dir.unwrap_or_else(|| Self::DEFAULT.into())))
    }

    /// The state directory of that path.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Makes a directory below the state directory. Only root may look into it.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn make_dir(&self, name: &str) -> Result<PathBuf, statefile::Error> {
        let path = self.root.join(name);
        if !path.is_dir() {
            // The pod map is for everybody, so the way to it is open.
            statefile::make_dir(&self.root, 0o755)?;
            statefile::make_dir(&path, 0o700)?;
        }
        Ok(path)
    }

    /// The directory of the journals.
    pub(crate) fn attachments(&self) -> PathBuf {
        self.root.join("attachments")
    }

    /// The journal of an attachment and a plugin.
    pub fn journal(&self, attachment: &Attachment, plugin: &str) -> PathBuf {
        self.attachments().join(format!("{attachment}.{plugin}.journal"))
    }

    /// The notes which attachment a pod's interface is, by which a restarted sandbox keeps its addresses.
    pub fn notes(&self) -> PathBuf {
        self.root.join("ipam/pods")
    }

    /// The pod map.
    pub fn podmap(&self) -> PodMap {
        PodMap::below(&self.root)
    }
}

fn dir(fields: &Fields<'_>) -> Result<Option<PathBuf>, Error> {
    let Some(text) = fields.text("stateDir")? else { return Ok(None) };
    let path = PathBuf::from(text);
    let plain = path.is_absolute() && path.components().all(|part| part != std::path::Component::ParentDir);
    if plain {
        Ok(Some(path))
    } else {
        Err(fields.wrong("stateDir", "an absolute path without ..", format!("{text:?}")))
    }
}
