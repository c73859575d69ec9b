//! Determines which network namespaces are alive.
//!
//! A namespace exists as long as a thread is in it, it is bind-mounted on a file, or a file descriptor of it is open. If a
//! namespace counts as dead, the addresses of its pod are released. So the result is only valid if all processes are visible.
//!
//! Two details are easily overlooked. Each thread has its own network namespace, and `/proc/<pid>/ns/net` is that of the
//! main thread, which may have exited before the others. And each mount namespace has its own mounts: a runtime in a
//! separate mount namespace (systemd's `PrivateMounts=` is sufficient) mounts the namespaces of its pods where other
//! processes do not see them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use crate::{
    Error, NetNs, NetNsId, NotOnNode,
    holders::{
        INIT_PID_NS, NetnsHolder, NoteHolder, add_mountinfo, add_mounts_of, add_process_netns,
        numeric_entries, open_in_processes, text_of_link,
    },
};

/// Inode number of a namespace → paths of the threads, mounts or files that hold it.
type HolderPaths = BTreeMap<u64, Vec<PathBuf>>;

/// The maximum number of paths that are kept per namespace. One would suffice, but it may disappear before it is used.
const MAX_PATHS: usize = 4;

fn hold(held: &mut HolderPaths, ino: u64, holder: NetnsHolder) {
    let paths = held.entry(ino).or_default();
    if paths.len() < MAX_PATHS {
        let (NetnsHolder::Thread(path) | NetnsHolder::Mount(path) | NetnsHolder::File(path)) = holder;
        paths.push(path);
    }
}

/// A snapshot of the network namespaces that threads, mounts or open files hold.
#[derive(Debug, Clone)]
pub struct LiveNetns {
    root: PathBuf,
    held: HolderPaths,
    /// Namespaces that open files hold. Read on demand, before a namespace counts as dead, because there are many files.
    open: OnceLock<Result<HolderPaths, String>>,
}

/// Whether a namespace is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetnsLiveness {
    /// The namespace is alive, and its path refers to it.
    Named,
    /// The namespace is or may be alive, although its path does not refer to it. The text is the evidence.
    Held(String),
    /// The namespace is gone. The text is the evidence.
    Dead(String),
}

impl LiveNetns {
    /// Reads all threads and mounts of the node with the root directory `root`.
    ///
    /// # Errors
    /// [`NotOnNode`].
    pub fn scan(root: &Path) -> Result<Self, NotOnNode> {
        let mut held = HolderPaths::new();
        threads_and_mounts(root, &mut |ino, holder| hold(&mut held, ino, holder))?;
        Ok(Self { root: root.to_owned(), held, open: OnceLock::new() })
    }

    /// Returns whether the namespace that `path` referred to is alive.
    ///
    /// The kernel reuses an inode number as soon as it is free, so a namespace that is held elsewhere may belong to another
    /// pod. If that cannot be determined, the namespace counts as alive.
    pub fn liveness(&self, path: &Path, id: NetNsId) -> NetnsLiveness {
        let below = path.strip_prefix("/").unwrap_or(path);
        let shown = path.display();
        let named = match NetNs::open(&self.root.join(below)) {
            Ok(netns) => match netns.is(id) {
                Ok(true) => return NetnsLiveness::Named,
                Ok(false) if netns.id() == id => {
                    format!("{shown} refers to a newer namespace with the same inode number")
                }
                Ok(false) => format!("{shown} now refers to {}", netns.id()),
                Err(error) => return NetnsLiveness::Held(error.to_string()),
            },
            Err(Error::Missing { .. }) => format!("{shown} is gone"),
            Err(Error::NotANamespace { .. }) => format!("{shown} is no longer a namespace file"),
            // Any other error does not mean that the namespace is gone.
            Err(error) => return NetnsLiveness::Held(error.to_string()),
        };
        let paths = match self.held.get(&id.ino).map_or_else(|| self.open(id.ino), |paths| Ok(Some(paths))) {
            Ok(Some(paths)) => paths,
            Ok(None) => {
                let why = format!("{named}, no process is in it or has it open, and it is not mounted");
                return NetnsLiveness::Dead(format!("its namespace {id} is dead: {why}"));
            }
            Err(why) => return NetnsLiveness::Held(format!("{named}, but {why}")),
        };
        let compare = |path: &PathBuf| {
            let shown = Path::new("/").join(path.strip_prefix(&self.root).unwrap_or(path));
            is_at(path, id).map(|is| (shown, is))
        };
        match paths.iter().find_map(compare) {
            Some((holder, true)) => {
                NetnsLiveness::Held(format!("{named}, but {} holds it", holder.display()))
            }
            Some((holder, false)) => {
                let why = format!(
                    "{named}, and {} holds a newer namespace with the same inode number",
                    holder.display()
                );
                NetnsLiveness::Dead(format!("its namespace {id} is dead: {why}"))
            }
            None => NetnsLiveness::Held(format!(
                "{named}, but a process or a mount holds a namespace {id}, which may be the same or a newer one"
            )),
        }
    }

    /// Returns the open files that hold a namespace, or the reason why they could not be read.
    fn open(&self, ino: u64) -> Result<Option<&Vec<PathBuf>>, &String> {
        let read = || self.open_files().map_err(|error| error.to_string());
        self.open.get_or_init(read).as_ref().map(|held| held.get(&ino))
    }

    fn open_files(&self) -> Result<HolderPaths, NotOnNode> {
        let mut held = HolderPaths::new();
        open_in_processes(&self.root.join("proc"), &mut |ino, holder| hold(&mut held, ino, holder))?;
        Ok(held)
    }

    /// Opens every namespace that is held, each once, to find devices in namespaces without a known path. Namespaces that
    /// only a socket holds are not included.
    ///
    /// # Errors
    /// If the open files of a process could not be read.
    pub fn open_all(&self) -> Result<Vec<NetNs>, NotOnNode> {
        let mut ids = BTreeSet::new();
        let open = self.open_files()?;
        let held = self.held.values().chain(open.values());
        let opened = held.filter_map(|paths| paths.iter().find_map(|path| NetNs::open(path).ok()));
        Ok(opened.filter(|netns| ids.insert((netns.id().dev, netns.id().ino))).collect())
    }

    /// Opens every namespace that is held, as [`LiveNetns::open_all`], for callers that must not overlook one.
    ///
    /// # Errors
    /// If a namespace that may still exist could not be opened, or the open files of a process could not be read.
    pub fn require_all(&self) -> Result<Vec<NetNs>, NotOnNode> {
        let open = self.open_files()?;
        let inos: BTreeSet<u64> = self.held.keys().chain(open.keys()).copied().collect();
        let paths = |ino| [&self.held, &open].into_iter().filter_map(move |held| held.get(ino)).flatten();
        inos.iter().filter_map(|ino| open_first(paths(ino)).transpose()).collect()
    }

    /// Returns why the namespace that `path` referred to is dead; `None` if it is or may be alive.
    pub fn reason_dead(&self, path: &Path, id: NetNsId) -> Option<String> {
        match self.liveness(path, id) {
            NetnsLiveness::Dead(why) => Some(why),
            NetnsLiveness::Named | NetnsLiveness::Held(_) => None,
        }
    }
}

/// Records the threads and mounts that hold namespaces.
pub(crate) fn threads_and_mounts(root: &Path, note: NoteHolder<'_>) -> Result<(), NotOnNode> {
    let proc = root.join("proc");
    let is = pid_namespace(&proc)?;
    if is != INIT_PID_NS {
        return Err(NotOnNode::NotOnTheNode { is });
    }
    for (of, its_root) in [("1", proc.join("1/root")), ("self", root.to_owned())] {
        let path = proc.join(of).join("mountinfo");
        let text = fs::read(&path).map_err(|source| NotOnNode::Unreadable { path, source })?;
        add_mountinfo(&text, &its_root, note);
    }
    let mut seen = BTreeSet::new();
    for process in numeric_entries(&proc)? {
        add_mounts_of(&process, &mut seen, note)?;
        add_process_netns(&process, note)?;
    }
    Ok(())
}

/// Returns whether this process is in the initial PID namespace, which shows all processes. `root` is the root directory of
/// the node.
///
/// # Errors
/// [`NotOnNode::Unreadable`].
pub fn sees_every_process(root: &Path) -> Result<bool, NotOnNode> {
    Ok(pid_namespace(&root.join("proc"))? == INIT_PID_NS)
}

/// Returns the PID namespace of this process, like `pid:[4026531836]`; empty if `/proc` does not show this process.
fn pid_namespace(proc: &Path) -> Result<String, NotOnNode> {
    Ok(text_of_link(&proc.join("self/ns/pid"))?.unwrap_or_default())
}

/// Opens the first path that still refers to a namespace; `None` if all of them are gone.
fn open_first<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> Result<Option<NetNs>, NotOnNode> {
    let mut refused = None;
    for path in paths {
        match NetNs::open(path) {
            Ok(netns) => return Ok(Some(netns)),
            Err(Error::Missing { .. } | Error::NotANamespace { .. }) => {}
            // The kernel refuses access to a process that has just exited.
            Err(_) if path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) => {
            }
            Err(Error::Open { path, source } | Error::Enter { path, source }) => {
                refused = Some(NotOnNode::Unreadable { path, source });
            }
        }
    }
    refused.map_or(Ok(None), Err)
}

/// Returns whether a path refers to that namespace; `None` if that cannot be determined, for example without a cookie.
fn is_at(path: &Path, id: NetNsId) -> Option<bool> {
    id.cookie?;
    let now = NetNs::open(path).ok()?.identified().ok()?.id();
    // None if the holder now refers to a different namespace.
    (now == id && now.cookie.is_some()).then(|| now.is(id))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    const POD: NetNsId = NetNsId::new(4, 4026532999);

    /// A root directory with one process, which is in the host's namespace.
    fn node() -> TempDir {
        let root = tempfile::tempdir().unwrap();
        let proc = root.path().join("proc");
        for process in ["1", "self"] {
            fs::create_dir_all(proc.join(process).join("ns")).unwrap();
            fs::create_dir_all(proc.join(process).join("task/1/ns")).unwrap();
            fs::write(proc.join(process).join("mountinfo"), "1 0 0:4 mnt:[7] /x rw - nsfs nsfs rw\n")
                .unwrap();
        }
        symlink(INIT_PID_NS, proc.join("self/ns/pid")).unwrap();
        symlink("net:[4026531840]", proc.join("1/task/1/ns/net")).unwrap();
        root
    }

    fn reason_dead(root: &TempDir, path: &str) -> Option<String> {
        LiveNetns::scan(root.path()).unwrap().reason_dead(Path::new(path), POD)
    }

    #[test]
    fn a_namespace_that_nothing_holds_is_dead() {
        let root = node();
        let why = reason_dead(&root, "/run/netns/a").unwrap();
        assert!(why.contains("net:[4026532999] is dead") && why.contains("/run/netns/a is gone"), "{why}");
        fs::create_dir_all(root.path().join("run/netns")).unwrap();
        fs::write(root.path().join("run/netns/a"), "").unwrap();
        assert!(reason_dead(&root, "/run/netns/a").unwrap().contains("is no longer a namespace file"));
        fs::remove_file(root.path().join("run/netns/a")).unwrap();
        symlink("/proc/self/ns/net", root.path().join("run/netns/a")).unwrap();
        assert!(reason_dead(&root, "/run/netns/a").unwrap().contains("/run/netns/a now refers to net:["));
    }

    #[test]
    fn a_path_a_process_or_a_mount_keeps_a_namespace_alive() {
        let root = node();
        let own = NetNs::current().unwrap().id();
        symlink("/proc/thread-self/ns/net", root.path().join("netns")).unwrap();
        assert_eq!(
            LiveNetns::scan(root.path()).unwrap().liveness(Path::new("/netns"), own),
            NetnsLiveness::Named
        );

        fs::create_dir_all(root.path().join("proc/77/task/77/ns")).unwrap();
        symlink("net:[4026532999]", root.path().join("proc/77/task/77/ns/net")).unwrap();
        assert_eq!(reason_dead(&root, "/gone"), None);
        let life = LiveNetns::scan(root.path()).unwrap().liveness(Path::new("/gone"), POD);
        assert!(matches!(&life, NetnsLiveness::Held(how) if how.contains("/gone is gone, but")), "{life:?}");
        fs::remove_dir_all(root.path().join("proc/77")).unwrap();
        assert!(reason_dead(&root, "/gone").is_some());

        // A process in another namespace that has this one open.
        fs::create_dir_all(root.path().join("proc/78/fd")).unwrap();
        symlink("socket:[4026532999]", root.path().join("proc/78/fd/3")).unwrap();
        assert!(reason_dead(&root, "/gone").is_some());
        symlink("net:[4026532999]", root.path().join("proc/78/fd/4")).unwrap();
        assert_eq!(reason_dead(&root, "/gone"), None);
        // Opened by the path of a mount: the link text does not contain the inode number.
        fs::remove_file(root.path().join("proc/78/fd/4")).unwrap();
        symlink("/run/netns/gone", root.path().join("proc/78/fd/5")).unwrap();
        fs::create_dir_all(root.path().join("proc/78/fdinfo")).unwrap();
        let fdinfo = |ino| fs::write(root.path().join("proc/78/fdinfo/5"), format!("pos:\t0\nino:\t{ino}\n"));
        fdinfo(4026532998_u64).unwrap();
        assert!(reason_dead(&root, "/gone").is_some());
        fdinfo(4026532999).unwrap();
        assert_eq!(reason_dead(&root, "/gone"), None);
        fs::remove_dir_all(root.path().join("proc/78")).unwrap();

        for process in ["1", "self"] {
            let root = node();
            let line = b"28 25 0:9 / /a\xff rw - tmpfs tmpfs rw\n29 25 0:4 net:[4026532999] /run/a rw - nsfs nsfs rw\n";
            fs::write(root.path().join("proc").join(process).join("mountinfo"), line).unwrap();
            assert_eq!(reason_dead(&root, "/gone"), None, "mounted for {process}");
        }
    }

    #[test]
    fn a_process_that_has_exited_is_ignored() {
        let root = node();
        fs::create_dir_all(root.path().join("proc/78/task/78/ns")).unwrap();
        fs::create_dir_all(root.path().join("proc/80")).unwrap();
        assert!(reason_dead(&root, "/gone").is_some());
    }

    #[test]
    fn a_thread_whose_main_thread_has_exited_keeps_a_namespace_alive() {
        let root = node();
        let process = root.path().join("proc/77");
        // The kernel does not show the namespaces of a zombie.
        fs::create_dir_all(process.join("ns")).unwrap();
        fs::create_dir_all(process.join("task/77/ns")).unwrap();
        fs::create_dir_all(process.join("task/78/ns")).unwrap();
        symlink("net:[4026532999]", process.join("task/78/ns/net")).unwrap();
        assert_eq!(reason_dead(&root, "/gone"), None);
    }

    #[test]
    fn a_mount_that_only_a_runtime_sees_keeps_a_namespace_alive() {
        let root = node();
        let line = "29 25 0:4 net:[4026532999] /run/netns/a rw - nsfs nsfs rw\n";
        let processes =
            [("50", "mnt:[1]", "/", ""), ("51", "mnt:[1]", "/chroot", ""), ("52", "mnt:[2]", "/", line)];
        for (process, namespace, of, mounts) in processes {
            let process = root.path().join("proc").join(process);
            fs::create_dir_all(process.join("ns")).unwrap();
            symlink(namespace, process.join("ns/mnt")).unwrap();
            symlink(of, process.join("root")).unwrap();
            fs::write(process.join("mountinfo"), mounts).unwrap();
        }
        assert_eq!(reason_dead(&root, "/run/netns/a"), None);
        let chroot = root.path().join("proc/51/mountinfo");
        fs::rename(root.path().join("proc/52/mountinfo"), chroot).unwrap();
        assert_eq!(
            reason_dead(&root, "/run/netns/a"),
            None,
            "a process with another root directory may have other mounts"
        );
    }

    #[test]
    fn without_visibility_of_all_processes_there_is_no_result() {
        let root = node();
        assert!(sees_every_process(root.path()).unwrap());
        let pid = root.path().join("proc/self/ns/pid");
        for is in ["pid:[4026532123]", ""] {
            fs::remove_file(&pid).unwrap();
            symlink(if is.is_empty() { "x" } else { is }, &pid).unwrap();
            assert!(!sees_every_process(root.path()).unwrap());
            let error = LiveNetns::scan(root.path()).unwrap_err();
            assert!(matches!(error, NotOnNode::NotOnTheNode { .. }), "{error}");
            assert!(error.to_string().contains("run it on the node, not in a container"), "{error}");
        }
        fs::remove_file(&pid).unwrap();
        assert!(LiveNetns::scan(root.path()).is_err(), "without /proc");
    }

    #[test]
    fn a_namespace_that_cannot_be_opened_is_overlooked_only_if_it_is_gone() {
        let root = node();
        let ns = root.path().join("proc/77/task/77/ns");
        fs::create_dir_all(&ns).unwrap();
        symlink("net:[4026532999]", ns.join("net")).unwrap();
        let living = LiveNetns::scan(root.path()).unwrap();
        assert!(living.require_all().unwrap().is_empty());
        // It exists, but opening it fails with ELOOP.
        symlink("net:[4026532999]", ns.join("net:[4026532999]")).unwrap();
        assert!(living.open_all().unwrap().is_empty());
        assert!(matches!(living.require_all(), Err(NotOnNode::Unreadable { .. })));
    }

    #[test]
    fn an_unreadable_file_is_an_error() {
        let root = node();
        fs::remove_file(root.path().join("proc/1/mountinfo")).unwrap();
        let error = LiveNetns::scan(root.path()).unwrap_err();
        assert!(error.to_string().contains("proc/1/mountinfo"), "{error}");
        let root = node();
        fs::create_dir_all(root.path().join("proc/79/task/79/ns/net")).unwrap();
        assert!(matches!(LiveNetns::scan(root.path()), Err(NotOnNode::Unreadable { .. })));
    }
}
