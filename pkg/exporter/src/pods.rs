//! The pods of the node, by what the node itself knows of them.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use kubepods::{PodName, PodNames, PodUid};
use podmap::{Entry, PodMap};

use crate::{CollectError, Collector, ErrorReason, PodInfo};

/// The pods of the node, from the directories of their logs and from the pod map. No API server is asked.
#[derive(Debug)]
pub(crate) struct PodDirectory {
    names: PodNames,
    map: PodMap,
    /// The pod map's entries, as of the last reading, and when its directory was changed before that.
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

    /// Looks which there are.
    pub(crate) fn read(&mut self, troubles: &mut Vec<CollectError>) {
        if let Err(error) = self.names.read() {
            troubles.push(CollectError::new(Collector::Pods, &error));
        }
        self.read_map(troubles);
        for pod in self.entries.iter().filter_map(|entry| entry.pod.as_ref()) {
            if let Some(uid) = pod.uid.as_deref().and_then(|uid| uid.parse::<PodUid>().ok()) {
                let name = PodName { namespace: pod.namespace.clone(), name: pod.name.clone() };
                self.names.insert(uid, name);
            }
        }
    }

    /// Reads the pod map, if it has changed: an entry is put in place as a new file, which changes the directory. Two
    /// changes may have one time, so a directory that was changed just now is read again the next time.
    fn read_map(&mut self, troubles: &mut Vec<CollectError>) {
        let changed = fs::metadata(self.map.dir()).and_then(|dir| dir.modified()).ok();
        if changed.is_some() && changed == self.changed {
            return;
        }
        let is_old = |time: &SystemTime| time.elapsed().is_ok_and(|age| age > Duration::from_secs(1));
        let before = troubles.len();
        self.entries = match self.map.read_all() {
            Ok(all) => all.into_iter().filter_map(|entry| self.of_this_boot(entry, troubles)).collect(),
            Err(error) => {
                troubles.push(CollectError::new(Collector::Pods, &error));
                Arc::default()
            }
        };
        // What is damaged is told of each time.
        self.changed = changed.filter(is_old).filter(|_| troubles.len() == before);
    }

    fn of_this_boot(
        &self,
        entry: Result<Entry, podmap::Error>,
        troubles: &mut Vec<CollectError>,
    ) -> Option<Entry> {
        match entry {
            Ok(entry) => Some(entry).filter(|entry| entry.boot_id == self.boot_id),
            Err(error @ podmap::Error::Malformed { .. }) => {
                let (collector, what) = (Collector::Pods, error.to_string());
                troubles.push(CollectError { collector, reason: ErrorReason::Malformed, what });
                None
            }
            Err(error) => {
                troubles.push(CollectError::new(Collector::Pods, &error));
                None
            }
        }
    }

    /// The pod of that UID. One whose name nobody knows is called by its UID.
    pub(crate) fn of(&self, uid: &PodUid) -> Arc<PodInfo> {
        let (namespace, name) = match self.names.get(uid) {
            Some(PodName { namespace, name }) => (namespace.clone(), name.clone()),
            None => (String::new(), uid.to_string()),
        };
        Arc::new(PodInfo { namespace, name, uid: Some(uid.to_string()) })
    }

    /// A pod by its name, if that is known by now.
    pub(crate) fn named(&self, pod: &Arc<PodInfo>) -> Arc<PodInfo> {
        let uid = pod.uid.as_deref().and_then(|uid| uid.parse().ok());
        uid.map_or_else(|| pod.clone(), |uid| self.of(&uid))
    }

    /// Every pod that is known.
    pub(crate) fn all(&self) -> BTreeSet<PodInfo> {
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

    #[test]
    fn a_pod_is_known_by_its_logs_or_by_the_pod_map() {
        let root = tempfile::tempdir().unwrap();
        let (mut pods, mut troubles) = (pods(root.path()), Vec::new());
        let uid: PodUid = UID.parse().unwrap();
        assert_eq!(*pods.of(&uid), PodInfo { namespace: "".into(), name: UID.into(), uid: Some(UID.into()) });
        fs::create_dir_all(root.path().join(format!("var/log/pods/ml_train-0_{UID}"))).unwrap();
        pods.read(&mut troubles);
        assert_eq!(pods.of(&uid).name, "train-0");
        fs::remove_dir_all(root.path().join("var/log/pods")).unwrap();
        let map = PodMap::below(&root.path().join("run/silkrail"));
        map.write(&"a@net1".parse().unwrap(), &entry("worker-1", "this-boot")).unwrap();
        pods.read(&mut troubles);
        assert_eq!(pods.of(&uid).name, "worker-1");
        assert_eq!(pods.all().len(), 1);
        assert!(troubles.is_empty(), "{troubles:?}");
    }

    #[test]
    fn a_map_that_has_not_changed_is_not_read_again() {
        let root = tempfile::tempdir().unwrap();
        let (mut pods, mut troubles) = (pods(root.path()), Vec::new());
        let map = PodMap::below(&root.path().join("run/silkrail"));
        let first = "a@net1".parse().unwrap();
        map.write(&first, &entry("a", "this-boot")).unwrap();
        let set = |seconds| {
            let dir = fs::File::open(map.dir()).unwrap();
            dir.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
        };
        set(1);
        pods.read(&mut troubles);
        fs::write(map.dir().join("a@net1.json"), "garbage, but nobody looks").unwrap();
        set(1);
        pods.read(&mut troubles);
        assert!(pods.entries.len() == 1 && troubles.is_empty(), "{troubles:?}");
        map.remove(&first).unwrap();
        pods.read(&mut troubles);
        assert!(pods.entries.is_empty());
    }

    #[test]
    fn what_another_boot_wrote_and_what_is_damaged_is_no_pod() {
        let root = tempfile::tempdir().unwrap();
        let (mut pods, mut troubles) = (pods(root.path()), Vec::new());
        let map = PodMap::below(&root.path().join("run/silkrail"));
        map.write(&"a@net1".parse().unwrap(), &entry("old", "another-boot")).unwrap();
        fs::write(map.dir().join("b@net1.json"), "{").unwrap();
        pods.read(&mut troubles);
        assert!(pods.all().is_empty());
        assert!(troubles.len() == 1 && troubles[0].reason == ErrorReason::Malformed, "{troubles:?}");
    }
}
