//! Which network namespaces are alive, by the evidence that the node shows.
//!
//! A namespace lives as long as a process is in it, a file is mounted on it, or a descriptor of it is open. Who
//! says that one is dead gives its pod's addresses away, so nobody may say so who does not see every process.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use crate::{Error, NetNs, NetNsId};

/// `PROC_PID_INIT_INO` of `linux/proc_ns.h`: the PID namespace in which every process is seen.
const INITIAL: &str = "pid:[4026531836]";

/// The network namespaces that something holds, as they were when it was looked.
#[derive(Debug, Clone)]
pub struct Living {
    root: PathBuf,
    inodes: BTreeSet<u64>,
}

/// Whether a namespace lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Life {
    /// It does, and its path leads to it.
    Named,
    /// It does or may, though its path does not lead to it; and how that shows.
    Held(String),
    /// It does not, and why that is certain.
    Dead(String),
}

/// Nobody can say from here which namespaces are alive.
#[derive(Debug, thiserror::Error)]
pub enum CannotJudge {
    /// Not every process of the node is seen.
    #[error(
        "cannot judge which pods live: this process is in the PID namespace {is}, and only in the node's own \
         ({INITIAL}) every process is seen; run it on the node, not in a container"
    )]
    NotOnTheNode {
        /// Where it is.
        is: String,
    },
    /// A file of `/proc` could not be read.
    #[error("cannot judge which pods live: {}: {source}; run it as root on the node", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl Living {
    /// Looks at every process and every mount of the node whose root directory is `root`.
    ///
    /// # Errors
    /// [`CannotJudge`].
    pub fn look(root: &Path) -> Result<Self, CannotJudge> {
        let proc = root.join("proc");
        let is = text_of_link(&proc.join("self/ns/pid"))?.unwrap_or_default();
        if is != INITIAL {
            return Err(CannotJudge::NotOnTheNode { is });
        }
        let mut inodes = BTreeSet::new();
        for of in ["1", "self"] {
            let path = proc.join(of).join("mountinfo");
            // A mount point's name may be any bytes.
            let text = fs::read(&path).map_err(|source| CannotJudge::Unreadable { path, source })?;
            inodes.extend(mounted(&String::from_utf8_lossy(&text)));
        }
        for process in processes(&proc)? {
            let name = text_of_link(&process.join("ns/net"))?;
            inodes.extend(name.as_deref().and_then(inode));
        }
        Ok(Self { root: root.to_owned(), inodes })
    }

    /// Whether the namespace that `path` named once lives.
    ///
    /// The kernel gives a number to a new namespace as soon as it is free, so one that is held under another name may be
    /// another pod's by now. Nobody can tell; it counts as living.
    pub fn life(&self, path: &Path, id: NetNsId) -> Life {
        let below = path.strip_prefix("/").unwrap_or(path);
        let shown = path.display();
        let named = match NetNs::open(&self.root.join(below)) {
            Ok(netns) if netns.id() == id => return Life::Named,
            Ok(netns) => format!("{shown} names {} now", netns.id()),
            Err(Error::Missing { .. }) => format!("{shown} is gone"),
            Err(Error::NotANamespace { .. }) => format!("{shown} names no namespace any more"),
            // That it cannot be opened for another reason does not mean that it is gone.
            Err(error) => return Life::Held(error.to_string()),
        };
        if self.inodes.contains(&id.ino) {
            return Life::Held(format!(
                "{named}, but a process or a mount holds a namespace {id}: the same or a new one"
            ));
        }
        Life::Dead(format!("its namespace {id} is dead: {named}, no process is in it, it is mounted nowhere"))
    }

    /// Why the namespace that `path` named once is dead; `None` if it lives, or may.
    pub fn death(&self, path: &Path, id: NetNsId) -> Option<String> {
        match self.life(path, id) {
            Life::Dead(why) => Some(why),
            Life::Named | Life::Held(_) => None,
        }
    }
}

/// What a symbolic link says; `None` if it is gone: a process ends while it is looked at, or has ended and is not yet
/// waited for.
fn text_of_link(path: &Path) -> Result<Option<String>, CannotJudge> {
    match fs::read_link(path) {
        Ok(target) => Ok(Some(target.to_string_lossy().into_owned())),
        Err(e) if e.kind() == io::ErrorKind::NotFound || e.raw_os_error() == Some(nix::libc::ESRCH) => {
            Ok(None)
        }
        Err(source) => Err(CannotJudge::Unreadable { path: path.to_owned(), source }),
    }
}

fn processes(proc: &Path) -> Result<Vec<PathBuf>, CannotJudge> {
    let failed = |source| CannotJudge::Unreadable { path: proc.to_owned(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(proc).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if name.to_string_lossy().bytes().all(|b| b.is_ascii_digit()) {
            found.push(proc.join(name));
        }
    }
    Ok(found)
}

/// The inodes of the network namespaces in a mountinfo text. A line is
/// `29 25 0:4 net:[4026532210] /run/netns/a rw - nsfs nsfs rw`.
fn mounted(mountinfo: &str) -> impl Iterator<Item = u64> {
    mountinfo.lines().filter_map(|line| inode(line.split(' ').nth(3)?))
}

/// The number in `net:[4026532210]`.
fn inode(name: &str) -> Option<u64> {
    name.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    const POD: NetNsId = NetNsId { dev: 4, ino: 4026532999 };

    /// A node's root without any process but one in the node's own namespace.
    fn node() -> TempDir {
        let root = tempfile::tempdir().unwrap();
        let proc = root.path().join("proc");
        for process in ["1", "self"] {
            fs::create_dir_all(proc.join(process).join("ns")).unwrap();
            fs::write(proc.join(process).join("mountinfo"), "1 0 0:4 mnt:[7] /x rw - nsfs nsfs rw\n")
                .unwrap();
        }
        symlink(INITIAL, proc.join("self/ns/pid")).unwrap();
        symlink("net:[4026531840]", proc.join("1/ns/net")).unwrap();
        root
    }

    fn death(root: &TempDir, path: &str) -> Option<String> {
        Living::look(root.path()).unwrap().death(Path::new(path), POD)
    }

    #[test]
    fn a_namespace_that_nothing_holds_is_dead() {
        let root = node();
        let why = death(&root, "/run/netns/a").unwrap();
        assert!(why.contains("net:[4026532999] is dead") && why.contains("/run/netns/a is gone"), "{why}");
        fs::create_dir_all(root.path().join("run/netns")).unwrap();
        fs::write(root.path().join("run/netns/a"), "").unwrap();
        assert!(death(&root, "/run/netns/a").unwrap().contains("names no namespace"));
        fs::remove_file(root.path().join("run/netns/a")).unwrap();
        symlink("/proc/self/ns/net", root.path().join("run/netns/a")).unwrap();
        assert!(death(&root, "/run/netns/a").unwrap().contains("/run/netns/a names net:["));
    }

    #[test]
    fn the_path_a_process_or_a_mount_keeps_it_alive() {
        let root = node();
        let own = NetNs::current().unwrap().id();
        symlink("/proc/thread-self/ns/net", root.path().join("netns")).unwrap();
        assert_eq!(Living::look(root.path()).unwrap().life(Path::new("/netns"), own), Life::Named);

        fs::create_dir_all(root.path().join("proc/77/ns")).unwrap();
        symlink("net:[4026532999]", root.path().join("proc/77/ns/net")).unwrap();
        assert_eq!(death(&root, "/gone"), None);
        let life = Living::look(root.path()).unwrap().life(Path::new("/gone"), POD);
        assert!(matches!(&life, Life::Held(how) if how.contains("/gone is gone, but")), "{life:?}");
        fs::remove_dir_all(root.path().join("proc/77")).unwrap();
        assert!(death(&root, "/gone").is_some());

        for process in ["1", "self"] {
            let root = node();
            let line = b"28 25 0:9 / /a\xff rw - tmpfs tmpfs rw\n29 25 0:4 net:[4026532999] /run/a rw - nsfs nsfs rw\n";
            fs::write(root.path().join("proc").join(process).join("mountinfo"), line).unwrap();
            assert_eq!(death(&root, "/gone"), None, "mounted for {process}");
        }
    }

    #[test]
    fn a_process_that_ends_meanwhile_is_none() {
        let root = node();
        fs::create_dir_all(root.path().join("proc/78/ns")).unwrap();
        assert!(death(&root, "/gone").is_some());
    }

    #[test]
    fn who_does_not_see_every_process_does_not_judge() {
        let root = node();
        let pid = root.path().join("proc/self/ns/pid");
        for is in ["pid:[4026532123]", ""] {
            fs::remove_file(&pid).unwrap();
            symlink(if is.is_empty() { "x" } else { is }, &pid).unwrap();
            let error = Living::look(root.path()).unwrap_err();
            assert!(matches!(error, CannotJudge::NotOnTheNode { .. }), "{error}");
            assert!(error.to_string().contains("run it on the node, not in a container"), "{error}");
        }
        fs::remove_file(&pid).unwrap();
        assert!(Living::look(root.path()).is_err(), "without /proc");
    }

    #[test]
    fn what_cannot_be_read_is_no_evidence() {
        let root = node();
        fs::remove_file(root.path().join("proc/1/mountinfo")).unwrap();
        let error = Living::look(root.path()).unwrap_err();
        assert!(error.to_string().contains("proc/1/mountinfo"), "{error}");
        let root = node();
        fs::create_dir_all(root.path().join("proc/79/ns/net")).unwrap();
        assert!(matches!(Living::look(root.path()), Err(CannotJudge::Unreadable { .. })));
    }
}
