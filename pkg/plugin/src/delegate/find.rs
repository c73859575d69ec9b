//! Which plugin a configuration's `ipam.type` means.

use std::{fs, os::unix::fs::MetadataExt, path::PathBuf};

use cni::{Code, Common, Error, Plugin};

/// The IPAM plugin of a configuration.
pub(super) enum Delegate {
    /// There is none: layer 2 only.
    None,
    /// It is part of this executable.
    Builtin(&'static dyn Plugin),
    /// It is another executable.
    Executable(PathBuf),
}

/// The names our own IPAM plugin answers to.
const BUILTIN_NAMES: [&str; 2] = ["silkrail-ipam", "spiderpool"];

/// Finds the IPAM plugin of a configuration: the first file of its name in `CNI_PATH`.
///
/// # Errors
/// If there is no such file, or the name is a path.
pub(super) fn find(common: &Common<'_>, builtin: &'static dyn Plugin) -> Result<Delegate, Error> {
    let Some(name) = common.conf.ipam_type()? else { return Ok(Delegate::None) };
    if name.contains('/') {
        return Err(Error::config(format!("invalid plugin name: {name}")));
    }
    let found = common.cni_path.iter().map(|dir| dir.join(name)).find(|path| path.is_file());
    let Some(path) = found else {
        let dirs: Vec<_> = common.cni_path.iter().map(|dir| dir.display().to_string()).collect();
        let msg = format!("failed to find plugin {name:?} in path [{}]", dirs.join(" "));
        return Err(Error::new(Code::INVALID_CONFIG, msg)
            .with_details("ipam.type must be the name of a file in a directory of CNI_PATH"));
    };
    if BUILTIN_NAMES.contains(&name) && is_this_executable(&path) {
        return Ok(Delegate::Builtin(builtin));
    }
    Ok(Delegate::Executable(path))
}

/// All our names are hard links of one file.
fn is_this_executable(path: &PathBuf) -> bool {
    let id = |path: &PathBuf| fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    id(path).is_some_and(|theirs| id(&"/proc/self/exe".into()) == Some(theirs))
}
