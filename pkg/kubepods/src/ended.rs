//! Which pods have ended, by what the kubelet creates for each pod on the node.

use std::{
    collections::BTreeSet,
    fs::{self, DirEntry, FileType},
    io::{self, ErrorKind},
    path::Path,
};

use crate::{Error, PodUid, path::locate};

/// How deep the cgroups of pods are searched: of the usual ones, the deepest are four levels below a controller's hierarchy.
const MAX_DEPTH: usize = 8;

/// Returns those of the pods that have ended and are deleted: they have no log directory, which the kubelet removes some time after
/// the pod, and no cgroup, in which a process could run.
///
/// # Errors
/// [`Error::Unreadable`] if the log directories or cgroups cannot be listed: then nobody can tell.
pub fn ended(root: &Path, pods: BTreeSet<PodUid>) -> Result<BTreeSet<PodUid>, Error> {
    let mut ended = pods;
    let mut with_logs = BTreeSet::new();
    for entry in entries(&root.join("var/log/pods"))? {
        let name = entry.file_name();
        with_logs.extend(name.to_str().and_then(|name| name.rsplit_once('_')?.1.parse::<PodUid>().ok()));
    }
    ended.retain(|pod| !with_logs.contains(pod));
    if !ended.is_empty() {
        let mut with_cgroups = BTreeSet::new();
        collect(&root.join("sys/fs/cgroup"), "", MAX_DEPTH, &mut with_cgroups)?;
        ended.retain(|pod| !with_cgroups.contains(pod));
    }
    Ok(ended)
}

/// Collects the pods with cgroups below a directory, which is at a path of its hierarchy.
fn collect(dir: &Path, at: &str, depth: usize, pods: &mut BTreeSet<PodUid>) -> Result<(), Error> {
    let entries = match entries(dir) {
        // It was removed meanwhile.
        Err(Error::Unreadable { source, .. }) if source.kind() == ErrorKind::NotFound && !at.is_empty() => {
            return Ok(());
        }
        entries => entries?,
    };
    for entry in entries.iter().filter(|entry| entry.file_type().is_ok_and(|it| FileType::is_dir(&it))) {
        let Some(name) = entry.file_name().to_str().map(|name| format!("{at}/{name}")) else { continue };
        match locate(&name) {
            Some(level) => drop(pods.insert(level.uid)),
            None if depth > 0 => collect(&entry.path(), &name, depth - 1, pods)?,
            None => {}
        }
    }
    Ok(())
}

fn entries(dir: &Path) -> Result<Vec<DirEntry>, Error> {
    let list = fs::read_dir(dir).and_then(Iterator::collect::<io::Result<_>>);
    list.map_err(|source| Error::Unreadable { path: dir.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0c9a5e3c-7b1f-4f0e-9d75-1f4f2bb1a2c3";

    #[test]
    fn a_pod_without_a_log_directory_and_a_cgroup_has_ended() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let pods: BTreeSet<PodUid> = [UID.parse().unwrap()].into();
        let has_ended = || ended(root.path(), pods.clone()).map(|ended| ended == pods).ok();
        assert_eq!(has_ended(), None, "there are no log directories");
        fs::create_dir_all(at("var/log/pods")).unwrap();
        assert_eq!(has_ended(), None, "there are no cgroups");
        fs::create_dir_all(at("sys/fs/cgroup/system.slice/sshd.service")).unwrap();
        assert_eq!(has_ended(), Some(true));
        let slice = UID.replace('-', "_");
        for trace in [
            format!("var/log/pods/default_train_{UID}"),
            format!("sys/fs/cgroup/kubepods/pod{UID}"),
            format!("sys/fs/cgroup/cpu,cpuacct/kubepods/burstable/pod{UID}"),
            format!(
                "sys/fs/cgroup/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/\
                 kubelet-kubepods-besteffort-pod{slice}.slice"
            ),
        ] {
            fs::create_dir_all(at(&trace)).unwrap();
            assert_eq!(has_ended(), Some(false), "{trace}");
            fs::remove_dir(at(&trace)).unwrap();
            assert_eq!(has_ended(), Some(true), "{trace}");
        }
    }
}
