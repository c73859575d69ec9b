//! The built executable, under the names of the plugins.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process,
    sync::{Mutex, PoisonError},
};

use tempfile::TempDir;

/// A file system in memory, in the lab. Tests mount others over `/run` and `/dev/shm`.
const MEMORY: &str = "/tmp";

/// The names of the executable.
const NAMES: [&str; 9] =
    ["macvlan", "ipvlan", "ipoib", "sriov", "ib-sriov", "rdma", "ifacer", "silkrail-ipam", "spiderpool"];

/// A directory like `/opt/cni/bin`: the built `silkrail-cni`, hard-linked to the name of every plugin.
#[derive(Debug)]
pub struct Binaries {
    dir: TempDir,
}

impl Binaries {
    /// Finds the executable beside the running test, or at the path `SILKRAIL_CNI`, and links it.
    ///
    /// # Panics
    /// If it is not built.
    pub fn find() -> Self {
        Self::of(&env::var_os("SILKRAIL_CNI").map_or_else(beside_the_test, PathBuf::from))
    }

    /// Links the executable at a path.
    ///
    /// # Panics
    /// If it is not built.
    pub fn of(built: &Path) -> Self {
        let found = built.is_file();
        assert!(
            found,
            "{} is not built: run hack/test, or cargo build -p silkrail-cni, or set SILKRAIL_CNI",
            built.display()
        );
        let built = in_memory(built);
        let dir = make_dir(&built);
        for name in NAMES {
            let link = dir.path().join(name);
            // Hard links do not work across file systems.
            fs::hard_link(&built, &link).or_else(|_| fs::copy(&built, &link).map(drop)).unwrap();
        }
        Self { dir }
    }

    /// Returns the directory, for `CNI_PATH`.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

/// Returns `target/<profile>/silkrail-cni`: programs are in `target/<profile>`, tests in `deps` below it.
fn beside_the_test() -> PathBuf {
    let test = env::current_exe().unwrap();
    let dir = test.parent().unwrap();
    let profile = if dir.ends_with("deps") { dir.parent().unwrap() } else { dir };
    profile.join("silkrail-cni")
}

/// Returns the executable, or in the lab a copy of it, which is made once: links in the lab's root file system, an overlay, take
/// a second for each node.
fn in_memory(built: &Path) -> PathBuf {
    static COPIES: Mutex<BTreeMap<PathBuf, PathBuf>> = Mutex::new(BTreeMap::new());
    if env::var_os("SILKRAIL_LAB").is_none() || built.starts_with(MEMORY) {
        return built.to_owned();
    }
    let mut copies = COPIES.lock().unwrap_or_else(PoisonError::into_inner);
    let next = copies.len();
    let copy = || {
        let dir = Path::new(MEMORY).join(format!("cni-{}-{next}", process::id()));
        fs::create_dir(&dir).unwrap();
        let copy = dir.join("silkrail-cni");
        fs::copy(built, &copy).unwrap();
        copy
    };
    copies.entry(built.to_owned()).or_insert_with(copy).clone()
}

/// Creates a directory beside the executable, for hard links, or elsewhere if that is not writable.
fn make_dir(built: &Path) -> TempDir {
    let mut named = tempfile::Builder::new();
    named.prefix("cni-bin-");
    let beside = built.parent().and_then(|parent| named.tempdir_in(parent).ok());
    beside.unwrap_or_else(|| named.tempdir().unwrap())
}
