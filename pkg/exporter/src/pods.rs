//! The pods of the node, from files on the node.

use std::{
    collections::HashSet,
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use kubepods::{PodName, PodNames, PodUid};
use podmap::{Entry, PodMap};

use crate::{CollectError, Collector, ErrorReason, PodInfo};

/// The pods of the node, from their log directories and from the pod map. The API server is not used.
#[derive(Debug)]
pub(crate) struct PodDirectory {
    names: PodNames,
    map: PodMap,
    /// The entries of the pod map, and the modification time of its directory before the last reading.
    pub(crate) entries: Arc<[Entry]>,
    changed: Option<SystemTime>,
    boot_id: String,
}

impl PodDirectory {
    pub(crate) fn at(root: &Path, state_dir: &Path) -> Self {
        let below = state_dir.strip_prefix("/").unwrap_or(state_dir);
        let boot_id = bootid::below(root).unwrap_or_default();
        Self {
            names: PodNames::at(root),
            map: PodMap::below(&root.join(below)),
            entries: Arc::default(),
            changed: None,
            boot_id,
        }
    }

    /// Reads the log directories and the pod map.
    pub(crate) fn read(&mut self, errors: &mut Vec<CollectError>) {
        if let Err(error) = self.names.read() {
            errors.push(CollectError::new(Collector::Pods, &error));
        }
        self.read_map(errors);
        for pod in self.entries.iter().filter_map(|entry| entry.pod.as_ref()) {
            if let Some(uid) = pod.uid.as_deref().and_then(|uid| uid.parse::<PodUid>().ok()) {
                let name = PodName { namespace: pod.namespace.clone(), name: pod.name.clone() };
                self.names.insert(uid, name);
            }
        }
    }

    /// Reads the pod map if the modification time of its directory has changed: entries are replaced by rename(2). Changes in
    /// quick succession can have the same time, so a directory that was just modified is read again next time.
    fn read_map(&mut self, errors: &mut Vec<CollectError>) {
        let changed = fs::metadata(self.map.dir()).and_then(|dir| dir.modified()).ok();
        if changed.is_some() && changed == self.changed {
            return;
        }
        let is_old = |time: &SystemTime| time.elapsed().is_ok_and(|age| age > Duration::from_secs(1));
        let before = errors.len();
        self.entries = match self.map.read_all() {
            Ok(all) => all.into_iter().filter_map(|entry| self.of_this_boot(entry, errors)).collect(),
            Err(error) => {
                errors.push(CollectError::new(Collector::Pods, &error));
                Arc::default()
            }
        };
        // After an error the map is read again, so that the error is reported in each collection.
        self.changed = changed.filter(is_old).filter(|_| errors.len() == before);
    }

    fn of_this_boot(
        &self,
        entry: Result<Entry, podmap::Error>,
        errors: &mut Vec<CollectError>,
    ) -> Option<Entry> {
        match entry {
            Ok(entry) => Some(entry).filter(|entry| entry.boot_id == self.boot_id),
            Err(error @ podmap::Error::Malformed { .. }) => {
                let (collector, what) = (Collector::Pods, error.to_string());
                errors.push(CollectError { collector, reason: ErrorReason::Malformed, what });
                None
            }
            Err(error) => {
                errors.push(CollectError::new(Collector::Pods, &error));
                None
            }
        }
    }

    /// Returns the pod with that UID. If its name is unknown, the UID is used as its name.
    pub(crate) fn of(&self, uid: &PodUid) -> Arc<PodInfo> {
        let (namespace, name) = match self.names.get(uid) {
            Some(PodName { namespace, name }) => (namespace.clone(), name.clone()),
            None => (String::new(), uid.to_string()),
        };
        Arc::new(PodInfo { namespace, name, uid: Some(uid.to_string()) })
    }

    /// Returns the pod with its name, if the name is known by now.
    pub(crate) fn named(&self, pod: &Arc<PodInfo>) -> Arc<PodInfo> {
        let uid = pod.uid.as_deref().and_then(|uid| uid.parse().ok());
        uid.map_or_else(|| pod.clone(), |uid| self.of(&uid))
    }

    /// Returns all known pods.
    pub(crate) fn all(&self) -> HashSet<PodInfo> {
        let named = self.names.iter().map(|(uid, name)| PodInfo {
            namespace: name.namespace.clone(),
            name: name.name.clone(),
            uid: Some(uid.to_string()),
        });
        named.chain(self.entries.iter().filter_map(|entry| entry.pod.as_ref()).map(PodInfo::from)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0c9a5e3c-7b1f-4f0e-9d75-1f4f2bb1a2c3";

    fn pods(root: &Path) -> PodDirectory {
        fs::create_dir_all(root.join("proc/sys/kernel/random")).unwrap();
        fs::write(root.join("proc/sys/kernel/random/boot_id"), "this-boot\n").unwrap();
        PodDirectory::at(root, Path::new("/run/silkrail"))
    }

    fn entry(name: &str, boot: &str) -> Entry {
        let mut entry = Entry::new("rdma", format!("{name}@net1").parse().unwrap());
        entry.boot_id = boot.into();
        entry.pod = Some(podmap::PodRef { namespace: "ml".into(), name: name.into(), uid: Some(UID.into()) });
        entry
    }

    fn set_modified(map: &PodMap, seconds: u64) {
        let dir = fs::File::open(map.dir()).unwrap();
        dir.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    }

    #[test]
    fn a_pod_is_known_by_its_logs_or_by_the_pod_map() {
        let root = tempfile::tempdir().unwrap();
        let (mut pods, mut errors) = (pods(root.path()), Vec::new());
        let uid: PodUid = UID.parse().unwrap();
        assert_eq!(*pods.of(&uid), PodInfo { namespace: "".into(), name: UID.into(), uid: Some(UID.into()) });
        fs::create_dir_all(root.path().join(format!("var/log/pods/ml_train-0_{UID}"))).unwrap();
        pods.read(&mut errors);
        assert_eq!(pods.of(&uid).name, "train-0");
        fs::remove_dir_all(root.path().join("var/log/pods")).unwrap();
        let map = PodMap::below(&root.path().join("run/silkrail"));
        map.write(&"a@net1".parse().unwrap(), &entry("worker-1", "this-boot")).unwrap();
        pods.read(&mut errors);
        assert_eq!(pods.of(&uid).name, "worker-1");
        assert_eq!(pods.all().len(), 1);
        assert!(errors.is_empty(), "{errors:?}");
    }

    #[test]
    fn an_unchanged_map_is_not_read_again() {
        let root = tempfile::tempdir().unwrap();
        let (mut pods, mut errors) = (pods(root.path()), Vec::new());
        let map = PodMap::below(&root.path().join("run/silkrail"));
        let first = "a@net1".parse().unwrap();
        map.write(&first, &entry("a", "this-boot")).unwrap();
        set_modified(&map, 1);
        pods.read(&mut errors);
        fs::write(map.dir().join("a@net1.json"), "garbage that is not read").unwrap();
        set_modified(&map, 1);
        pods.read(&mut errors);
        assert!(pods.entries.len() == 1 && errors.is_empty(), "{errors:?}");
        map.remove(&first).unwrap();
        pods.read(&mut errors);
        assert!(pods.entries.is_empty());
    }

    #[test]
    fn entries_of_another_boot_and_malformed_entries_are_ignored() {
        let root = tempfile::tempdir().unwrap();
        let (mut pods, mut errors) = (pods(root.path()), Vec::new());
        let map = PodMap::below(&root.path().join("run/silkrail"));
        map.write(&"a@net1".parse().unwrap(), &entry("old", "another-boot")).unwrap();
        fs::write(map.dir().join("b@net1.json"), "{").unwrap();
        pods.read(&mut errors);
        assert!(pods.all().is_empty());
        assert!(errors.len() == 1 && errors[0].reason == ErrorReason::Malformed, "{errors:?}");
        set_modified(&map, 1);
        for collections in 2..4 {
            pods.read(&mut errors);
            assert_eq!(errors.len(), collections, "it is reported until it is mended");
        }
    }

    #[test]
    fn a_map_that_was_just_changed_is_read_again() {
        let root = tempfile::tempdir().unwrap();
        let (mut pods, mut errors) = (pods(root.path()), Vec::new());
        let map = PodMap::below(&root.path().join("run/silkrail"));
        map.write(&"a@net1".parse().unwrap(), &entry("a", "this-boot")).unwrap();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        set_modified(&map, now + 3600);
        pods.read(&mut errors);
        // Within the resolution of the time.
        map.write(&"b@net1".parse().unwrap(), &entry("b", "this-boot")).unwrap();
        set_modified(&map, now + 3600);
        pods.read(&mut errors);
        assert!(pods.entries.len() == 2 && errors.is_empty(), "{errors:?}");
    }

    #[test]
    fn a_pod_of_the_map_without_a_uid_is_known_and_the_map_has_the_newer_name() {
        let root = tempfile::tempdir().unwrap();
        let (mut pods, mut errors) = (pods(root.path()), Vec::new());
        fs::create_dir_all(root.path().join(format!("var/log/pods/ml_former_{UID}"))).unwrap();
        let map = PodMap::below(&root.path().join("run/silkrail"));
        let mut nameless = entry("b", "this-boot");
        nameless.pod = Some(podmap::PodRef { namespace: "ml".into(), name: "b".into(), uid: None });
        map.write(&"a@net1".parse().unwrap(), &entry("a", "this-boot")).unwrap();
        map.write(&"b@net1".parse().unwrap(), &nameless).unwrap();
        pods.read(&mut errors);
        let mut all: Vec<_> = pods.all().into_iter().map(|pod| (pod.name, pod.uid)).collect();
        all.sort();
        assert_eq!(all, [("a".into(), Some(UID.into())), ("b".into(), None)]);
        let b = Arc::new(PodInfo { namespace: "ml".into(), name: "b".into(), uid: None });
        assert_eq!((&*pods.named(&b).name, &*pods.of(&UID.parse().unwrap()).name), ("b", "a"));
    }
}
