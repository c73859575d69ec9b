//! An index agrees with the files of its directory, or it is not used.

use std::os::unix::fs::symlink;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::{Pool, PoolRequest};

const POOLS: &str = "\
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata: {name: rail0}
spec:
  subnet: 10.0.0.0/16
  ips: [10.0.0.10-10.0.0.40, 10.0.0.1-10.0.0.5]
  excludeIPs: [10.0.0.20]
  gateway: 10.0.0.254
  routes: [{dst: 10.9.0.0/16, gw: 10.0.0.254}]
  nodeName: [n]
  namespaceName: [a, b]
  multusName: [x/y]
  podAffinity: {}
  default: true
status: {allocatedIPs: '{\"10.0.0.30\":{\"pod\":\"a/b\"}}'}
---
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderReservedIP
metadata: {name: r}
spec: {ips: [10.0.0.2, fd00::7]}
---
name: rail1
subnet: fd00::/64
ips: [fd00::1-fd00::ffff:0:0:0]
disable: true
";

/// A directory of pools and a state directory.
struct PoolDirFixture(TempDir);

impl PoolDirFixture {
    fn new() -> Self {
        let node = Self(tempfile::tempdir().unwrap());
        fs::create_dir(node.pools()).unwrap();
        node.write("a.yaml", POOLS);
        node.write("b.yaml", "name: other\nsubnet: 10.1.0.0/24\nips: [10.1.0.1]\n");
        node.write(
            "long.yaml",
            &("#".repeat(40_000) + "\nname: long\nsubnet: 10.2.0.0/24\nips: [10.2.0.1]\n"),
        );
        node
    }

    fn pools(&self) -> PathBuf {
        self.0.path().join("pools.d")
    }

    fn state(&self) -> PathBuf {
        self.0.path().join("state")
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.pools().join(name), text).unwrap();
    }

    /// Writes the index as if the files had been unchanged for a long time.
    fn index(&self) {
        let listing = PoolDirListing { settled: true, ..PoolDirListing::of(&self.pools()).unwrap() };
        write_index(&self.state(), &self.pools(), &listing, &Pools::read_dir(&self.pools()).unwrap());
        assert!(self.path().exists());
    }

    fn path(&self) -> PathBuf {
        path(&self.state(), &self.pools())
    }

    fn find(&self, names: &[&str]) -> Option<Pools> {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let wanted = PoolQuery { listed: [&names, &[]], also: &[] };
        find(&self.state(), &self.pools(), &PoolDirListing::of(&self.pools())?, wanted)
    }
}

/// Returns the fields of a pool that an index contains.
fn essence(pool: &Pool) -> Pool {
    Pool { excluded: Vec::new(), given: std::collections::BTreeMap::new(), ..pool.clone() }
}

#[test]
fn an_index_contains_the_same_pools_as_the_files() {
    let node = PoolDirFixture::new();
    node.index();
    let whole = Pools::read_dir(&node.pools()).unwrap();
    for (names, expected) in [
        (&["rail0"][..], &["rail0"][..]),
        (&["rail*"], &["rail0", "rail1"]),
        (&["other", "rail1"], &["rail1", "other"]),
        (&[], &["rail0"]),
        (&["unknown"], &[]),
    ] {
        let found = node.find(names).unwrap();
        assert!(found.is_partial() && !whole.is_partial());
        assert!(Pools::default().merge(found.clone()).is_partial());
        assert_eq!(found.reserved(), whole.reserved());
        let of = |name: &&str| essence(whole.get(name).unwrap());
        assert_eq!(found.iter().cloned().collect::<Vec<_>>(), expected.iter().map(of).collect::<Vec<_>>());
    }
}

#[test]
fn pools_with_the_names_of_others_are_found_besides_those_that_are_listed() {
    let node = PoolDirFixture::new();
    node.index();
    let (listed, also) = (["rail1".to_owned()], ["other".to_owned()]);
    for (listed, expected) in [(&listed[..], ["rail1", "other"]), (&[], ["rail0", "other"])] {
        let wanted = PoolQuery { listed: [&[], listed], also: &also };
        let found = find(&node.state(), &node.pools(), &PoolDirListing::of(&node.pools()).unwrap(), wanted);
        assert_eq!(found.unwrap().iter().map(|pool| pool.name.as_str()).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn files_of_the_future_are_not_indexed() {
    let directory = tempfile::tempdir().unwrap();
    let file = File::create(directory.path().join("a.yaml")).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(3600)).unwrap();
    assert!(!PoolDirListing::of(directory.path()).unwrap().settled);
}

#[test]
fn any_change_of_a_file_invalidates_an_index() {
    let changes: [fn(&PoolDirFixture); 7] = [
        |node| node.write("c.yaml", ""),
        |node| fs::remove_file(node.pools().join("b.yaml")).unwrap(),
        |node| fs::rename(node.pools().join("b.yaml"), node.pools().join("c.yaml")).unwrap(),
        // The same size and mtime, as `touch -r` sets it.
        |node| {
            let path = node.pools().join("b.yaml");
            let before = fs::metadata(&path).unwrap().modified().unwrap();
            node.write("b.yaml", "name: other\nsubnet: 10.1.0.0/24\nips: [10.1.0.2]\n");
            File::options().write(true).open(&path).unwrap().set_modified(before).unwrap();
        },
        // Another file of the same size and mtime in its place.
        |node| {
            let (path, new) = (node.pools().join("b.yaml"), node.pools().join("new"));
            let before = fs::metadata(&path).unwrap().modified().unwrap();
            fs::write(&new, "name: other\nsubnet: 10.1.0.0/24\nips: [10.1.0.2]\n").unwrap();
            File::options().write(true).open(&new).unwrap().set_modified(before).unwrap();
            fs::rename(&new, &path).unwrap();
        },
        |node| symlink("/nowhere", node.pools().join("c.yaml")).unwrap(),
        // As in a mounted ConfigMap: the link leads to another file.
        |node| {
            let path = node.pools().join("b.yaml");
            fs::rename(&path, node.0.path().join("elsewhere")).unwrap();
            fs::copy(node.0.path().join("elsewhere"), node.0.path().join("copy")).unwrap();
            symlink("../copy", path).unwrap();
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let node = PoolDirFixture::new();
        node.index();
        // Longer than the granularity of file timestamps.
        std::thread::sleep(Duration::from_millis(20));
        change(&node);
        assert!(node.find(&["other"]).is_none(), "change {number}");
    }
}

#[test]
fn small_files_are_not_indexed() {
    let node = PoolDirFixture::new();
    fs::remove_file(node.pools().join("long.yaml")).unwrap();
    let listing = PoolDirListing { settled: true, ..PoolDirListing::of(&node.pools()).unwrap() };
    write_index(&node.state(), &node.pools(), &listing, &Pools::read_dir(&node.pools()).unwrap());
    assert!(!node.state().exists());
}

#[test]
fn recently_changed_files_are_not_indexed() {
    let node = PoolDirFixture::new();
    let wanted = PoolQuery::default();
    let pools = Pools::read_wanted(&node.pools(), wanted, &node.state(), true).unwrap();
    assert!(pools.len() == 4 && !node.path().exists());
}

#[test]
fn files_that_change_while_they_are_read_are_not_indexed() {
    let node = PoolDirFixture::new();
    let listing = PoolDirListing { settled: true, ..PoolDirListing::of(&node.pools()).unwrap() };
    let pools = Pools::read_dir(&node.pools()).unwrap();
    node.write("c.yaml", "name: c\nsubnet: 10.2.0.0/24\n");
    write_index(&node.state(), &node.pools(), &listing, &pools);
    assert!(!node.path().exists());
}

#[test]
fn a_pool_that_is_defined_twice_is_not_found_in_an_index() {
    let node = PoolDirFixture::new();
    node.write("c.yaml", "name: other\nsubnet: 10.1.0.0/24\nips: [10.1.0.1]\n");
    node.index();
    assert!(node.find(&["other"]).is_none() && node.find(&["*"]).is_none() && node.find(&[]).is_none());
    assert_eq!(node.find(&["rail0"]).unwrap().len(), 1);
}

#[test]
fn the_index_of_another_directory_is_not_used() {
    let node = PoolDirFixture::new();
    node.index();
    let other = node.0.path().join("other.d");
    fs::create_dir(&other).unwrap();
    fs::copy(node.path(), path(&node.state(), &other)).unwrap();
    let listing = PoolDirListing::of(&other).unwrap();
    assert!(find(&node.state(), &other, &listing, PoolQuery::default()).is_none());
    assert!(PoolDirListing::of(Path::new("/nowhere")).is_none());
}

proptest! {
    /// Any content is a valid index or is ignored; the pools that are found can be used.
    #[test]
    fn a_damaged_index_is_ignored_or_usable(at in 0_usize..4000, byte in any::<u8>(), cut in any::<bool>()) {
        let node = PoolDirFixture::new();
        node.index();
        let mut bytes = fs::read(node.path()).unwrap();
        let at = at % bytes.len();
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        fs::write(node.path(), bytes).unwrap();
        if let Some(pools) = node.find(&["rail0", "other"]) {
            let _ = pools.select(&PoolRequest { host_name: "n", ..PoolRequest::default() });
        }
    }
}
