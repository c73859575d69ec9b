//! The directories of networks and plugins that the configuration of a container runtime names.

use std::path::PathBuf;

use toml::{Table, Value};

/// The directories of a container runtime.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkDirectories {
    /// The directory of networks; `None` for the runtime's default.
    pub networks: Option<PathBuf>,
    /// The directories in which plugins are searched, in this order; none for the runtime's default.
    pub plugins: Vec<PathBuf>,
}

/// The tables of containerd's configuration that have the directories, in the order of its format's versions 1, 2 and 3.
const CONTAINERD_TABLES: [[&str; 3]; 3] = [
    ["plugins", "cri", "cni"],
    ["plugins", "io.containerd.grpc.v1.cri", "cni"],
    ["plugins", "io.containerd.cri.v1.runtime", "cni"],
];

impl NetworkDirectories {
    /// Parses containerd's configuration (`/etc/containerd/config.toml`).
    ///
    /// # Errors
    /// What is wrong, if it is not TOML.
    pub fn of_containerd(text: &str) -> Result<Self, String> {
        let config: Table = parse(text)?;
        let mut found = Self::default();
        for path in CONTAINERD_TABLES {
            let Some(cni) = table(&config, &path) else { continue };
            found.networks = cni.get("conf_dir").and_then(directory).or(found.networks);
            let several = cni.get("bin_dirs").map(directories).unwrap_or_default();
            let one = || cni.get("bin_dir").and_then(directory).into_iter().collect();
            let plugins: Vec<_> = if several.is_empty() { one() } else { several };
            if !plugins.is_empty() {
                found.plugins = plugins;
            }
        }
        Ok(found)
    }

    /// Parses a configuration of CRI-O (`/etc/crio/crio.conf` and `/etc/crio/crio.conf.d/*.conf`).
    ///
    /// # Errors
    /// What is wrong, if it is not TOML.
    pub fn of_crio(text: &str) -> Result<Self, String> {
        let config: Table = parse(text)?;
        let Some(network) = table(&config, &["crio", "network"]) else { return Ok(Self::default()) };
        Ok(Self {
            networks: network.get("network_dir").and_then(directory),
            plugins: network.get("plugin_dirs").map(directories).unwrap_or_default(),
        })
    }

    /// Returns these directories, with those of `later` where that has some: a file that is read later has precedence.
    #[must_use]
    pub fn overridden_by(self, later: Self) -> Self {
        Self {
            networks: later.networks.or(self.networks),
            plugins: if later.plugins.is_empty() { self.plugins } else { later.plugins },
        }
    }
}

fn parse(text: &str) -> Result<Table, String> {
    text.parse().map_err(|error: toml::de::Error| error.message().to_owned())
}

fn table<'t>(config: &'t Table, path: &[&str]) -> Option<&'t Table> {
    path.iter().try_fold(config, |table, key| table.get(*key)?.as_table())
}

fn directory(value: &Value) -> Option<PathBuf> {
    value.as_str().filter(|path| path.starts_with('/')).map(PathBuf::from)
}

fn directories(value: &Value) -> Vec<PathBuf> {
    value.as_array().into_iter().flatten().filter_map(directory).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directories(networks: &str, plugins: &[&str]) -> NetworkDirectories {
        NetworkDirectories {
            networks: Some(networks.into()),
            plugins: plugins.iter().map(PathBuf::from).collect(),
        }
    }

    #[test]
    fn each_version_of_containerds_format_has_its_table() {
        for table in ["cri", "\"io.containerd.grpc.v1.cri\"", "\"io.containerd.cri.v1.runtime\""] {
            let text = format!("[plugins.{table}.cni]\nbin_dir = '/a/bin'\nconf_dir = \"/a/net.d\"\n");
            assert_eq!(
                NetworkDirectories::of_containerd(&text).unwrap(),
                directories("/a/net.d", &["/a/bin"])
            );
        }
        let several = "version = 4\n[plugins.'io.containerd.cri.v1.runtime'.cni]\nbin_dirs = ['/a', '/b']\nbin_dir = ''\n\
                       conf_dir = '/net.d'\n";
        assert_eq!(NetworkDirectories::of_containerd(several).unwrap(), directories("/net.d", &["/a", "/b"]));
        assert_eq!(
            NetworkDirectories::of_containerd("version = 2\n").unwrap(),
            NetworkDirectories::default()
        );
        assert!(NetworkDirectories::of_containerd("[plugins").is_err());
        let former = "[plugins.cri.cni]\nbin_dir = '/old/bin'\nconf_dir = '/old/net.d'\n";
        for (newer, expected) in [
            ("conf_dir = '/net.d'", directories("/net.d", &["/old/bin"])),
            ("bin_dirs = ['/a', 'relative', '/b']\nbin_dir = '/c'", directories("/old/net.d", &["/a", "/b"])),
            ("bin_dirs = []\nbin_dir = '/c'\nconf_dir = 'net.d'", directories("/old/net.d", &["/c"])),
            ("bin_dir = ''", directories("/old/net.d", &["/old/bin"])),
        ] {
            let text = format!("{former}[plugins.'io.containerd.cri.v1.runtime'.cni]\n{newer}\n");
            assert_eq!(NetworkDirectories::of_containerd(&text).unwrap(), expected, "{newer}");
        }
    }

    #[test]
    fn crios_files_override_one_another() {
        let first = "[crio.network]\nnetwork_dir = '/etc/cni/net.d/'\nplugin_dirs = ['/opt/cni/bin/', '/usr/libexec/cni']\n";
        let first = NetworkDirectories::of_crio(first).unwrap();
        assert_eq!(first, directories("/etc/cni/net.d/", &["/opt/cni/bin/", "/usr/libexec/cni"]));
        let later = NetworkDirectories::of_crio("[crio.network]\nnetwork_dir = '/other'\n").unwrap();
        let both = first.overridden_by(later);
        assert_eq!(both, directories("/other", &["/opt/cni/bin/", "/usr/libexec/cni"]));
        let last = NetworkDirectories::of_crio("[crio.network]\nplugin_dirs = ['/bin']\n").unwrap();
        assert_eq!(both.overridden_by(last), directories("/other", &["/bin"]));
        assert_eq!(NetworkDirectories::of_crio("[crio.image]\n").unwrap(), NetworkDirectories::default());
    }
}
