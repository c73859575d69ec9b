//! Finding the plugin of a configuration's `ipam.type`.

use std::{
    fs::{self, Metadata},
    os::unix::fs::MetadataExt,
    path::PathBuf,
};

use cni::{CallContext, Error, Plugin};

/// The IPAM plugin of a configuration.
pub(crate) enum Delegate {
    /// The configuration has no `ipam`: layer 2 only.
    None,
    /// The IPAM plugin is part of this executable.
    Builtin(&'static dyn Plugin),
    /// The IPAM plugin is another executable.
    Executable(PathBuf),
}

/// The names of silkrail's own IPAM plugin.
const BUILTIN_NAMES: [&str; 2] = [OWN_NAME, "spiderpool"];
/// The one that no plugin of another project has.
pub(crate) const OWN_NAME: &str = "silkrail-ipam";

/// Finds the IPAM plugin of a configuration.
///
/// # Errors
/// As [`executable`].
pub(crate) fn find(
    common: &CallContext<'_>,
    builtin: Option<&'static dyn Plugin>,
) -> Result<Delegate, Error> {
    let Some((path, file)) = executable(common)? else { return Ok(Delegate::None) };
    let ours = path.file_name().and_then(|name| name.to_str()).is_some_and(|n| BUILTIN_NAMES.contains(&n));
    match builtin {
        Some(builtin) if ours && is_this_executable(&file) => Ok(Delegate::Builtin(builtin)),
        _ => Ok(Delegate::Executable(path)),
    }
}

/// Returns the IPAM plugin's executable: the first file of its name in `CNI_PATH`; `None` if there is no IPAM.
///
/// # Errors
/// If there is no such file, or the name is a path.
pub(super) fn executable(common: &CallContext<'_>) -> Result<Option<(PathBuf, Metadata)>, Error> {
    let Some(name) = common.conf.ipam_type()? else { return Ok(None) };
    if name.contains('/') {
        return Err(Error::config(format!("invalid plugin name: {name}")));
    }
    let file = |path: PathBuf| fs::metadata(&path).ok().filter(Metadata::is_file).map(|file| (path, file));
    let found = common.cni_path.iter().map(|dir| dir.join(name)).find_map(file);
    found.map(Some).ok_or_else(|| {
        let dirs: Vec<String> = common.cni_path.iter().map(|dir| dir.display().to_string()).collect();
        crate::Error::NoDelegate { name: name.to_owned(), searched: dirs }.into()
    })
}

/// Whether a file is this executable. All of its names are hard links of one file.
fn is_this_executable(file: &Metadata) -> bool {
    fs::metadata("/proc/self/exe").is_ok_and(|own| (own.dev(), own.ino()) == (file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use cni::{CniArgs, NetConf};

    use super::*;

    #[test]
    fn the_plugin_is_the_first_file_of_its_name_in_the_search_path() {
        let root = tempfile::tempdir().unwrap();
        let dirs = ["a", "b", "c", "d"].map(|name| root.path().join(name));
        for dir in &dirs {
            fs::create_dir(dir).unwrap();
        }
        fs::create_dir(dirs[1].join("static")).unwrap();
        for dir in &dirs[2..] {
            fs::write(dir.join("static"), "").unwrap();
        }
        let find = |ipam: &str, cni_path: &[PathBuf]| {
            let conf = NetConf::parse(format!(r#"{{"name": "rail", "ipam": {ipam}}}"#).as_bytes()).unwrap();
            let (args, cni_path) = (CniArgs::default(), cni_path.to_vec());
            let found = executable(&CallContext { conf, args, cni_path, stdin: &[] });
            found.map(|found| found.map(|(path, _)| path))
        };
        let known = r#"{"type": "static"}"#;
        assert_eq!(find(known, &dirs).unwrap(), Some(dirs[2].join("static")));
        assert!(find(known, &dirs[..2]).is_err());
        assert_eq!(find("{}", &dirs).unwrap(), None);
        assert!(find(r#"{"type": "../c/static"}"#, &dirs).is_err());
    }
}
