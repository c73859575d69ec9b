//! The file with the resources for the kubelet, as silkraild on this node has it.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use device_plugin::{Config, ReadOptions, ResourceFileError, ResourceFiles};

/// The variable of `silkraild --device-plugin`, which is set in the container of silkraild.
const VARIABLE: &str = "SILKRAILD_DEVICE_PLUGIN";

/// The variable of `silkraild --device-plugin.resource-prefix`.
const PREFIX: &str = "SILKRAILD_DEVICE_PLUGIN_RESOURCE_PREFIX";

/// Where the file is on a node, unless silkraild was told another one.
const FILES: [&str; 2] = ["/etc/silkrail/node.yaml", "/etc/silkrail/resources.yaml"];

/// Returns the resources of files, read as silkraild on this node reads them.
///
/// # Errors
/// [`ResourceFileError`] for the first file that is no configuration.
pub(crate) fn read(files: &[PathBuf]) -> Result<ResourceFiles, ResourceFileError> {
    let (node, prefix) = (node_name(), env::var(PREFIX).ok().filter(|prefix| !prefix.is_empty()));
    ResourceFiles::read(files, ReadOptions { node: &node, resource_prefix: prefix.as_deref() })
}

/// Returns the name of this node in Kubernetes, as silkraild takes it: `NODE_NAME`, or else the hostname.
fn node_name() -> String {
    let given = env::var("NODE_NAME").ok().filter(|name| !name.is_empty());
    let host =
        || nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    given.unwrap_or_else(host)
}

/// Returns the file of this node: the node file if it has resources, as in the drop-in of silkraild's unit, or else one of its own;
/// `None` if the node offers no devices.
pub(crate) fn of_node(root: &Path) -> Option<PathBuf> {
    if let Some(file) = env::var_os(VARIABLE) {
        return Some(file.into());
    }
    let mut files = FILES.iter().map(|file| below(root, Path::new(file)));
    files.find(|file| {
        let has_resources =
            || fs::read_to_string(file).is_ok_and(|text| Config::parse(&text).is_ok_and(|it| !it.is_empty()));
        // A file of its own is used even if it is invalid, which is then reported.
        file.exists() && (!file.ends_with("node.yaml") || has_resources())
    })
}

/// Returns a path of a node whose root directory is `root`.
pub(crate) fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_file_is_used_if_it_has_resources() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join("etc/silkrail").join(name);
        fs::create_dir_all(at("")).unwrap();
        assert_eq!(of_node(root.path()), None);
        fs::write(at("node.yaml"), "pfs: []\n").unwrap();
        assert_eq!(of_node(root.path()), None, "the node file is for silkrail apply only");
        fs::write(at("resources.yaml"), "resourceList: [").unwrap();
        assert_eq!(of_node(root.path()), Some(at("resources.yaml")), "invalid, which is then reported");
        let resource = "{resourceName: hca, rdmaHcaMax: 1, selectors: {ifNames: [p0]}}";
        fs::write(at("node.yaml"), format!("devicePlugin: {{configList: [{resource}]}}\n")).unwrap();
        assert_eq!(of_node(root.path()), Some(at("node.yaml")));
    }
}
