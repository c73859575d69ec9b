//! Which network namespaces are alive, by the evidence that the node shows.
//!
//! A namespace lives as long as a thread is in it, it is mounted on a file, or a descriptor of it is open. Who
//! says that one is dead gives its pod's addresses away, so nobody may say so who does not see every process.
//!
//! Two things are easily overlooked. Each thread has a network namespace of its own, and `/proc/<pid>/ns/net` is the
//! main thread's, which may have ended long before the others. And each mount namespace has mounts of its own: a
//! runtime that runs in one (systemd's `PrivateMounts=` is enough) keeps its pods' namespaces where nobody else sees
//! them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
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

/// Paths that lead to the namespace of each inode number.
type HolderPaths = BTreeMap<u64, Vec<PathBuf>>;

/// One that leads to it is enough, but it may be gone when it is needed.
const WITNESSES: usize = 4;

fn hold(held: &mut HolderPaths, ino: u64, holder: NetnsHolder) {
    let paths = held.entry(ino).or_default();
    if paths.len() < WITNESSES {
        let (NetnsHolder::Thread(path) | NetnsHolder::Mount(path) | NetnsHolder::File(path)) = holder;
        paths.push(path);
    }
}

/// The network namespaces that something holds, as they were when it was looked.
#[derive(Debug, Clone)]
pub struct LiveNetns {
    root: PathBuf,
    held: HolderPaths,
    /// By open files: looked for once a namespace is about to be called dead, for there are many.
    open: OnceLock<Result<HolderPaths, String>>,
}

/// Whether a namespace lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetnsLiveness {
    /// It does, and its path leads to it.
    Named,
    /// It does or may, though its path does not lead to it; and how that shows.
    Held(String),
    /// It does not, and why that is certain.
    Dead(String),
}

impl LiveNetns {
    /// Looks at every thread and every mount of the node whose root directory is `root`.
    ///
    /// # Errors
    /// [`NotOnNode`].
    pub fn scan(root: &Path) -> Result<Self, NotOnNode> {
        let mut held = HolderPaths::new();
        threads_and_mounts(root, &mut |ino, holder| hold(&mut held, ino, holder))?;
        Ok(Self { root: root.to_owned(), held, open: OnceLock::new() })
    }

    /// Whether the namespace that `path` named once lives.
    ///
    /// The kernel gives a number to a new namespace as soon as it is free, so one that is held under another name may be
    /// another pod's by now. Where nobody can tell, it counts as living.
    pub fn liveness(&self, path: &Path, id: NetNsId) -> NetnsLiveness {
        let below = path.strip_prefix("/").unwrap_or(path);
        let shown = path.display();
        let named = match NetNs::open(&self.root.join(below)) {
            Ok(netns) => match netns.is(id) {
                Ok(true) => return NetnsLiveness::Named,
                Ok(false) if netns.id() == id => format!("{shown} names a later one with its number"),
                Ok(false) => format!("{shown} names {} now", netns.id()),
                Err(error) => return NetnsLiveness::Held(error.to_string()),
            },
            Err(Error::Missing { .. }) => format!("{shown} is gone"),
            Err(Error::NotANamespace { .. }) => format!("{shown} names no namespace any more"),
            // That it cannot be opened for another reason does not mean that it is gone.
            Err(error) => return NetnsLiveness::Held(error.to_string()),
        };
        let paths = match self.held.get(&id.ino).map_or_else(|| self.open(id.ino), |paths| Ok(Some(paths))) {
            Ok(Some(paths)) => paths,
            Ok(None) => {
                let why = format!("{named}, no process is in it or has it open, it is mounted nowhere");
                return NetnsLiveness::Dead(format!("its namespace {id} is dead: {why}"));
            }
            Err(why) => return NetnsLiveness::Held(format!("{named}, but {why}")),
        };
        let told = |path: &PathBuf| {
            let shown = Path::new("/").join(path.strip_prefix(&self.root).unwrap_or(path));
            is_at(path, id).map(|is| (shown, is))
        };
        match paths.iter().find_map(told) {
            Some((holder, true)) => {
                NetnsLiveness::Held(format!("{named}, but {} holds it", holder.display()))
            }
            Some((holder, false)) => {
                let why = format!("{named}, and {} holds a later one with its number", holder.display());
                NetnsLiveness::Dead(format!("its namespace {id} is dead: {why}"))
            }
            None => NetnsLiveness::Held(format!(
                "{named}, but a process or a mount holds a namespace {id}: the same or a new one"
            )),
        }
    }

    /// The open files that hold a namespace; why that cannot be said.
    fn open(&self, ino: u64) -> Result<Option<&Vec<PathBuf>>, &String> {
        let look = || self.open_files().map_err(|error| error.to_string());
        self.open.get_or_init(look).as_ref().map(|held| held.get(&ino))
    }

    fn open_files(&self) -> Result<HolderPaths, NotOnNode> {
        let mut held = HolderPaths::new();
        open_in_processes(&self.root.join("proc"), &mut |ino, holder| hold(&mut held, ino, holder))?;
        Ok(held)
    }

    /// Every namespace that something holds and that can be opened, each once: for what was moved to one that nobody has
    /// named. What only a socket holds is not among them.
    ///
    /// # Errors
    /// That a process's open files could not be looked at.
    pub fn open_all(&self) -> Result<Vec<NetNs>, NotOnNode> {
        let mut ids = BTreeSet::new();
        let open = self.open_files()?;
        let held = self.held.values().chain(open.values());
        let opened = held.filter_map(|paths| paths.iter().find_map(|path| NetNs::open(path).ok()));
        Ok(opened.filter(|netns| ids.insert((netns.id().dev, netns.id().ino))).collect())
    }

    /// Why the namespace that `path` named once is dead; `None` if it lives, or may.
    pub fn reason_dead(&self, path: &Path, id: NetNsId) -> Option<String> {
        match self.liveness(path, id) {
            NetnsLiveness::Dead(why) => Some(why),
            NetnsLiveness::Named | NetnsLiveness::Held(_) => None,
        }
    }
}

/// Notes what holds namespaces, but for open files.
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

/// Whether this process is in the PID namespace in which every process of the node is seen; `root` is the node's root
/// directory.
///
/// # Errors
/// [`NotOnNode::Unreadable`].
pub fn sees_every_process(root: &Path) -> Result<bool, NotOnNode> {
    Ok(pid_namespace(&root.join("proc"))? == INIT_PID_NS)
}

/// This process's PID namespace, like `pid:[4026531836]`; empty if `/proc` does not show this process.
fn pid_namespace(proc: &Path) -> Result<String, NotOnNode> {
    Ok(text_of_link(&proc.join("self/ns/pid"))?.unwrap_or_default())
}

/// Whether what a path leads to is that namespace; `None` if nobody can tell, as without a cookie.
fn is_at(path: &Path, id: NetNsId) -> Option<bool> {
    id.cookie?;
    let now = NetNs::open(path).ok()?.identified().ok()?.id();
    // Whatever held it before holds another one by now.
    (now == id && now.cookie.is_some()).then(|| now.is(id))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    const POD: NetNsId = NetNsId::new(4, 4026532999);

    /// A node's root without any process but one in the node's own namespace.
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

    fn death(root: &TempDir, path: &str) -> Option<String> {
        LiveNetns::scan(root.path()).unwrap().reason_dead(Path::new(path), POD)
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
        assert_eq!(
            LiveNetns::scan(root.path()).unwrap().liveness(Path::new("/netns"), own),
            NetnsLiveness::Named
        );

        fs::create_dir_all(root.path().join("proc/77/task/77/ns")).unwrap();
        symlink("net:[4026532999]", root.path().join("proc/77/task/77/ns/net")).unwrap();
        assert_eq!(death(&root, "/gone"), None);
        let life = LiveNetns::scan(root.path()).unwrap().liveness(Path::new("/gone"), POD);
        assert!(matches!(&life, NetnsLiveness::Held(how) if how.contains("/gone is gone, but")), "{life:?}");
        fs::remove_dir_all(root.path().join("proc/77")).unwrap();
        assert!(death(&root, "/gone").is_some());

        // One that is in another namespace, but has it open.
        fs::create_dir_all(root.path().join("proc/78/fd")).unwrap();
        symlink("socket:[4026532999]", root.path().join("proc/78/fd/3")).unwrap();
        assert!(death(&root, "/gone").is_some());
        symlink("net:[4026532999]", root.path().join("proc/78/fd/4")).unwrap();
        assert_eq!(death(&root, "/gone"), None);
        // By the path of a mount, which tells of no number.
        fs::remove_file(root.path().join("proc/78/fd/4")).unwrap();
        symlink("/run/netns/gone", root.path().join("proc/78/fd/5")).unwrap();
        fs::create_dir_all(root.path().join("proc/78/fdinfo")).unwrap();
        let fdinfo = |ino| fs::write(root.path().join("proc/78/fdinfo/5"), format!("pos:\t0\nino:\t{ino}\n"));
        fdinfo(4026532998_u64).unwrap();
        assert!(death(&root, "/gone").is_some());
        fdinfo(4026532999).unwrap();
        assert_eq!(death(&root, "/gone"), None);
        fs::remove_dir_all(root.path().join("proc/78")).unwrap();

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
        fs::create_dir_all(root.path().join("proc/78/task/78/ns")).unwrap();
        fs::create_dir_all(root.path().join("proc/80")).unwrap();
        assert!(death(&root, "/gone").is_some());
    }

    #[test]
    fn a_thread_whose_main_thread_has_ended_keeps_a_namespace_alive() {
        let root = node();
        let process = root.path().join("proc/77");
        // The kernel shows no namespaces of a zombie.
        fs::create_dir_all(process.join("ns")).unwrap();
        fs::create_dir_all(process.join("task/77/ns")).unwrap();
        fs::create_dir_all(process.join("task/78/ns")).unwrap();
        symlink("net:[4026532999]", process.join("task/78/ns/net")).unwrap();
        assert_eq!(death(&root, "/gone"), None);
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
        assert_eq!(death(&root, "/run/netns/a"), None);
        let chroot = root.path().join("proc/51/mountinfo");
        fs::rename(root.path().join("proc/52/mountinfo"), chroot).unwrap();
        assert_eq!(death(&root, "/run/netns/a"), None, "one that has another root may see others");
    }

    #[test]
    fn who_does_not_see_every_process_does_not_judge() {
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
    fn what_cannot_be_read_is_no_evidence() {
        let root = node();
        fs::remove_file(root.path().join("proc/1/mountinfo")).unwrap();
        let error = LiveNetns::scan(root.path()).unwrap_err();
        assert!(error.to_string().contains("proc/1/mountinfo"), "{error}");
        let root = node();
        fs::create_dir_all(root.path().join("proc/79/task/79/ns/net")).unwrap();
        assert!(matches!(LiveNetns::scan(root.path()), Err(NotOnNode::Unreadable { .. })));
    }
}
