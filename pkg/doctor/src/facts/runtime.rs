//! The container runtime's configuration: the directories of networks and plugins.

use std::path::{Path, PathBuf};

use cni_networks::NetworkDirectories;
use serde::Serialize;

use crate::{Known, host_root::HostRoot};

/// The directories without a configuration of the runtime.
const NETWORKS: &str = "/etc/cni/net.d";
const PLUGINS: &str = "/opt/cni/bin";

/// containerd's configuration files: its own, and those of the Kubernetes distributions that contain it.
const CONTAINERD: [&str; 4] = [
    "/etc/containerd/config.toml",
    "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
    "/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
    "/etc/k0s/containerd.toml",
];
const CRIO: &str = "/etc/crio/crio.conf";
const CRIO_DIR: &str = "/etc/crio/crio.conf.d";

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RuntimeFacts {
    /// The files from which the directories come.
    pub(crate) files: Vec<String>,
    pub(crate) networks: Option<PathBuf>,
    pub(crate) plugins: Vec<PathBuf>,
    /// Files that the runtime cannot parse, with the reason.
    pub(crate) broken: Vec<(String, String)>,
}

impl RuntimeFacts {
    pub(crate) fn read(tree: &HostRoot) -> Self {
        let mut facts = Self::default();
        let mut directories = NetworkDirectories::default();
        for file in CONTAINERD {
            directories = facts.add(tree, file, NetworkDirectories::of_containerd, directories);
        }
        directories = facts.add(tree, CRIO, NetworkDirectories::of_crio, directories);
        for name in tree.names(CRIO_DIR).items().iter().filter(|name| !name.starts_with('.')) {
            directories =
                facts.add(tree, &format!("{CRIO_DIR}/{name}"), NetworkDirectories::of_crio, directories);
        }
        Self { networks: directories.networks, plugins: directories.plugins, ..facts }
    }

    fn add(
        &mut self,
        tree: &HostRoot,
        file: &str,
        parse: fn(&str) -> Result<NetworkDirectories, String>,
        before: NetworkDirectories,
    ) -> NetworkDirectories {
        let Known::Value(text) = tree.text(file) else { return before };
        match parse(&text) {
            Ok(found) => {
                self.files.push(file.to_owned());
                before.overridden_by(found)
            }
            Err(why) => {
                self.broken.push((file.to_owned(), why));
                before
            }
        }
    }

    /// Returns the directory of networks: that of the command line, of the runtime's configuration, or the default.
    pub(crate) fn network_dir(&self, chosen: Option<&Path>) -> PathBuf {
        chosen.or(self.networks.as_deref()).unwrap_or(Path::new(NETWORKS)).to_owned()
    }

    /// Returns the directories of plugins in the same way. There is at least one.
    pub(crate) fn plugin_dirs(&self, chosen: Option<&Path>) -> Vec<PathBuf> {
        match chosen {
            Some(dir) => vec![dir.to_owned()],
            None if self.plugins.is_empty() => vec![PLUGINS.into()],
            None => self.plugins.clone(),
        }
    }
}
