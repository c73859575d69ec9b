//! The daemon of Multus, which calls the plugins of NetworkAttachmentDefinitions.

use std::{fs, path::Path};

use serde::Serialize;
use serde_json::Value;

use crate::host_root::HostRoot;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MultusDaemon {
    pub(crate) pid: u32,
    /// The state directory, if what plugins write there stays in the daemon's container.
    pub(crate) own_state_dir: Option<String>,
}

/// `comm` of the process, and `DefaultMultusDaemonConfigFile` of pkg/server/types.go in multus-cni.
const DAEMON: &str = "multus-daemon";
const CONFIGURATION: &str = "etc/cni/net.d/multus.d/daemon-config.json";

/// Returns the daemons that run. One whose configuration is elsewhere is left out, as is one that has exited meanwhile.
pub(crate) fn read(tree: &HostRoot, state_dir: &Path) -> Vec<MultusDaemon> {
    let names = tree.names("proc");
    let pids = names.items().iter().filter_map(|name| name.parse::<u32>().ok());
    pids.filter_map(|pid| daemon(&tree.path(format!("proc/{pid}")), pid, state_dir)).collect()
}

fn daemon(process: &Path, pid: u32, state_dir: &Path) -> Option<MultusDaemon> {
    if fs::read_to_string(process.join("comm")).ok()?.trim_end() != DAEMON {
        return None;
    }
    let configuration = fs::read(process.join("root").join(CONFIGURATION)).ok()?;
    let configuration: Value = serde_json::from_slice(&configuration).ok()?;
    let has_chroot = configuration["chrootDir"].as_str().is_some_and(|dir| !dir.is_empty());
    let mounts = fs::read_to_string(process.join("mountinfo")).ok()?;
    let is_mounted = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .any(|point| point != "/" && state_dir.starts_with(point));
    let is_own = !has_chroot && !is_mounted;
    Some(MultusDaemon { pid, own_state_dir: is_own.then(|| state_dir.display().to_string()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_directory_is_the_containers_without_a_chroot_or_a_mount() {
        let own = |comm: &str, configuration: &str, mounts: &str| {
            let root = tempfile::tempdir().unwrap();
            let process = root.path().join("proc/7");
            let file = process.join("root").join(CONFIGURATION);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, configuration).unwrap();
            fs::write(process.join("comm"), format!("{comm}\n")).unwrap();
            fs::write(process.join("mountinfo"), mounts).unwrap();
            let found = read(&HostRoot::at(root.path()), Path::new("/run/silkrail"));
            found.into_iter().map(|daemon| daemon.own_state_dir).collect::<Vec<_>>()
        };
        let root = "1 0 0:9 / / rw - overlay overlay rw\n2 1 0:3 /netns /run/netns rw - tmpfs tmpfs rw\n";
        let volume = format!("{root}3 1 0:3 /silkrail /run/silkrail rw - tmpfs tmpfs rw\n");
        assert_eq!(own(DAEMON, r#"{"logLevel": "info"}"#, root), [Some("/run/silkrail".into())]);
        assert_eq!(own(DAEMON, "{}", &volume), [None]);
        assert_eq!(own(DAEMON, r#"{"chrootDir": "/hostroot"}"#, root), [None]);
        assert!(own("multus", "{}", root).is_empty() && own(DAEMON, "x", root).is_empty());
    }
}
