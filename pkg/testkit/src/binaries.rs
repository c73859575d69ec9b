//! The built executable, under the names of the plugins.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

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
        let dir = make_dir(built);
        for name in NAMES {
            let link = dir.path().join(name);
            // Hard links do not work across file systems.
            fs::hard_link(built, &link).or_else(|_| fs::copy(built, &link).map(drop)).unwrap();
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

/// Creates a directory beside the executable, for hard links, or elsewhere if that is not writable.
fn make_dir(built: &Path) -> TempDir {
    let mut named = tempfile::Builder::new();
    named.prefix("cni-bin-");
    let beside = built.parent().and_then(|parent| named.tempdir_in(parent).ok());
    beside.unwrap_or_else(|| named.tempdir().unwrap())
}
