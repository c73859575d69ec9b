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
        INIT_PID_NS, NetnsHolder, NoteHolder, ScanDeadline, add_mountinfo, add_mounts_of, add_process_netns,
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

/// What became of a namespace that was held.
#[derive(Debug)]
pub(crate) enum HeldNetNs {
    /// It is open.
    Open(NetNs),
    /// Nothing holds it, or what holds its inode number is a later namespace.
    Gone,
    /// What held it ended before it could be opened. Something else may hold it.
    Ended,
}

impl NetnsLiveness {
    /// Determines whether a namespace is alive, on the node with the root directory `root`. Its path is tried first; the
    /// threads, mounts and open files of all processes are read only if it does not lead to the namespace.
    pub fn look(root: &Path, path: &Path, id: NetNsId) -> Self {
        let below = path.strip_prefix("/").unwrap_or(path);
        if NetNs::is_still_at(&root.join(below), id).is_ok_and(|is| is) {
            return Self::Named;
        }
        match LiveNetns::scan(root) {
            Ok(living) => living.liveness(path, id),
            Err(unknown) => Self::Held(unknown.to_string()),
        }
    }

    /// Returns the evidence that the namespace is gone; `None` if it is or may be alive.
    pub fn reason_dead(self) -> Option<String> {
        match self {
            Self::Dead(why) => Some(why),
            Self::Named | Self::Held(_) => None,
        }
    }
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

    /// Opens a namespace where a thread, a mount or an open file holds it.
    ///
    /// # Errors
    /// If what holds it refuses to be opened, or the open files of a process could not be read.
    pub(crate) fn open_held(&self, id: NetNsId) -> Result<HeldNetNs, NotOnNode> {
        let paths = match self.held.get(&id.ino) {
            Some(paths) => paths,
            None => match self.open_files()?.remove(&id.ino) {
                Some(paths) => return open_of(&paths, id),
                None => return Ok(HeldNetNs::Gone),
            },
        };
        open_of(paths, id)
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
        let opened = held.filter_map(|paths| paths.iter().find_map(|path| NetNs::open_untrusted(path).ok()));
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
        inos.iter().filter_map(|ino| open_first(paths(ino), |_| true).transpose()).collect()
    }

    /// Returns why the namespace that `path` referred to is dead; `None` if it is or may be alive.
    pub fn reason_dead(&self, path: &Path, id: NetNsId) -> Option<String> {
        self.liveness(path, id).reason_dead()
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
    let (mut seen, until) = (BTreeSet::new(), ScanDeadline::new());
    for process in numeric_entries(&proc)? {
        add_mounts_of(&process, &mut seen, note)?;
        add_process_netns(&process, until, note)?;
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

/// Opens a namespace at one of these paths, of what held a namespace with its inode number.
fn open_of(paths: &[PathBuf], id: NetNsId) -> Result<HeldNetNs, NotOnNode> {
    let found = open_first(paths.iter(), |netns| netns.id() == id)?;
    Ok(match found.and_then(|netns| netns.identified().ok()) {
        Some(netns) if netns.id().cookie.is_some() => {
            if netns.id().is(id) {
                HeldNetNs::Open(netns)
            } else {
                HeldNetNs::Gone
            }
        }
        _ => HeldNetNs::Ended,
    })
}

/// Opens the first path that still refers to a namespace for which `is` holds; `None` if none does.
fn open_first<'a>(
    paths: impl Iterator<Item = &'a PathBuf>,
    is: impl Fn(&NetNs) -> bool,
) -> Result<Option<NetNs>, NotOnNode> {
    let mut refused = None;
    for path in paths {
        match NetNs::open_untrusted(path) {
            Ok(netns) if is(&netns) => return Ok(Some(netns)),
            Ok(_) => {}
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
    let now = NetNs::open_untrusted(path).ok()?.identified().ok()?.id();
    // None if the holder now refers to a different namespace.
    (now == id && now.cookie.is_some()).then(|| now.is(id))
}

#[cfg(test)]
mod tests;
