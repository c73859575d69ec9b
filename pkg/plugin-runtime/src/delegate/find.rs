//! Finding the plugin of a configuration's `ipam.type`.

use std::{fs, os::unix::fs::MetadataExt, path::PathBuf};

use cni::{CallContext, Error, Plugin};

/// The IPAM plugin of a configuration.
pub(super) enum Delegate {
    /// The configuration has no `ipam`: layer 2 only.
    None,
    /// The IPAM plugin is part of this executable.
    Builtin(&'static dyn Plugin),
    /// The IPAM plugin is another executable.
    Executable(PathBuf),
}

/// The names of silkrail's own IPAM plugin.
const BUILTIN_NAMES: [&str; 2] = ["silkrail-ipam", "spiderpool"];

/// Finds the IPAM plugin of a configuration.
///
/// # Errors
/// As [`executable`].
pub(super) fn find(
    common: &CallContext<'_>,
    builtin: Option<&'static dyn Plugin>,
) -> Result<Delegate, Error> {
    let Some(path) = executable(common)? else { return Ok(Delegate::None) };
    let ours = path.file_name().and_then(|name| name.to_str()).is_some_and(|n| BUILTIN_NAMES.contains(&n));
    match builtin {
        Some(builtin) if ours && is_this_executable(&path) => Ok(Delegate::Builtin(builtin)),
        _ => Ok(Delegate::Executable(path)),
    }
}

/// Returns the IPAM plugin's executable: the first file of its name in `CNI_PATH`; `None` if there is no IPAM.
///
/// # Errors
/// If there is no such file, or the name is a path.
pub(super) fn executable(common: &CallContext<'_>) -> Result<Option<PathBuf>, Error> {
    let Some(name) = common.conf.ipam_type()? else { return Ok(None) };
    if name.contains('/') {
        return Err(Error::config(format!("invalid plugin name: {name}")));
    }
    let found = common.cni_path.iter().map(|dir| dir.join(name)).find(|path| path.is_file());
    found.map(Some).ok_or_else(|| {
        let dirs: Vec<String> = common.cni_path.iter().map(|dir| dir.display().to_string()).collect();
        crate::Error::NoDelegate { name: name.to_owned(), searched: dirs }.into()
    })
}

/// Whether a path is this executable. All of its names are hard links of one file.
fn is_this_executable(path: &PathBuf) -> bool {
    let id = |path: &PathBuf| fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    id(path).is_some_and(|theirs| id(&"/proc/self/exe".into()) == Some(theirs))
}
