//! The built executable under its names.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

/// The names under which the executable is called.
const NAMES: [&str; 6] = ["macvlan", "ipvlan", "sriov", "rdma", "silkrail-ipam", "spiderpool"];

/// A directory like `/opt/cni/bin`: the built `silkrail-cni`, hard-linked to the name of every plugin.
#[derive(Debug)]
pub struct Binaries {
    dir: TempDir,
}

impl Binaries {
    /// Finds the executable beside the running test's, or where `SILKRAIL_CNI` says, and links it.
    ///
    /// # Panics
    /// If it is not built.
    pub fn find() -> Self {
        Self::of(&env::var_os("SILKRAIL_CNI").map_or_else(beside_the_test, PathBuf::from))
    }

    /// Links this executable.
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
            // Another file system has no hard link to it.
            fs::hard_link(built, &link).or_else(|_| fs::copy(built, &link).map(drop)).unwrap();
        }
        Self { dir }
    }

    /// The directory, for `CNI_PATH`.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

/// `target/<profile>/silkrail-cni`: programs are in `target/<profile>`, tests in `deps` below it.
fn beside_the_test() -> PathBuf {
    let test = env::current_exe().unwrap();
    let dir = test.parent().unwrap();
    let profile = if dir.ends_with("deps") { dir.parent().unwrap() } else { dir };
    profile.join("silkrail-cni")
}

/// Beside the executable, where hard links are possible; where one may not write, elsewhere.
fn make_dir(built: &Path) -> TempDir {
    let mut named = tempfile::Builder::new();
    named.prefix("cni-bin-");
    let beside = built.parent().and_then(|parent| named.tempdir_in(parent).ok());
    beside.unwrap_or_else(|| named.tempdir().unwrap())
}
