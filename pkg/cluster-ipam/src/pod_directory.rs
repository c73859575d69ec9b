//! The directory from which plugins read what the objects of a pod say about its pools: a file for each pod of the node.

use std::{collections::BTreeMap, fs, io, path::PathBuf};

use ipam::PodPools;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{ResourceExt, core::PartialObjectMeta};

use crate::{
    ip_reservation::StableName,
    pod_annotations::{self, Annotations, InvalidAnnotation, STATIC_UID},
    pod_reservations::PodReservations,
    pool_directory::PoolFiles,
};

/// The directory, and what is in it.
#[derive(Debug)]
pub(crate) struct PodDirectory {
    path: PathBuf,
    /// The contents of the files by their names; `None` until the directory was read.
    written: Option<BTreeMap<String, String>>,
}

impl PodDirectory {
    /// Creates the directory. From then on, plugins wait for the file of their pod.
    ///
    /// # Errors
    /// If it cannot be created.
    pub(crate) fn create(path: PathBuf) -> Result<Self, statefile::Error> {
        statefile::make_dir(&path, 0o700)?;
        Ok(Self { path, written: None })
    }

    /// Removes the directory. From then on, plugins ignore annotations.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub(crate) fn remove(path: PathBuf) -> Result<(), statefile::Error> {
        match fs::remove_dir_all(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(statefile::Error::Io { operation: "remove", path, source })
            }
            _ => Ok(()),
        }
    }

    /// Makes the directory have the files of these pods only. Each is replaced atomically.
    ///
    /// # Errors
    /// With the path.
    pub(crate) fn write<'a>(
        &mut self,
        pods: impl IntoIterator<Item = &'a PartialObjectMeta<Pod>>,
        namespaces: &BTreeMap<String, &PartialObjectMeta<Namespace>>,
        pools: &PoolFiles,
        reservations: &PodReservations,
    ) -> Result<(), statefile::Error> {
        let (mut wanted, mut of_static_pods) = (BTreeMap::new(), BTreeMap::new());
        // The object of a static pod is older than another that names its UID.
        let mut pods: Vec<_> = pods.into_iter().collect();
        pods.sort_by_key(|pod| pod.creation_timestamp());
        for pod in pods {
            // A namespace that is not known yet was just created. Its pods wait.
            let namespace = pod.namespace().unwrap_or_default();
            let Some(namespace) = namespaces.get(&namespace) else { continue };
            let content = pools_of(pod, namespace, pools, reservations).to_json().to_string();
            if let Some(name) = static_uid(pod).and_then(PodPools::file_name) {
                of_static_pods.entry(name).or_insert_with(|| content.clone());
            }
            wanted.extend(pod.uid().as_deref().and_then(PodPools::file_name).map(|name| (name, content)));
        }
        // A pod can have any annotation: it does not replace what is known about another.
        for (name, content) in of_static_pods {
            wanted.entry(name).or_insert(content);
        }
        let mut written = match self.written.take() {
            Some(written) => written,
            None => self.read()?,
        };
        let mut failed = Ok(());
        for (name, content) in &wanted {
            if written.get(name) == Some(content) {
                continue;
            }
            match statefile::replace(&self.path.join(name), 0o600, content.as_bytes()) {
                Ok(()) => drop(written.insert(name.clone(), content.clone())),
                // The others are written nevertheless.
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        for name in written.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect::<Vec<_>>() {
            match statefile::remove(&self.path.join(&name)) {
                Ok(()) => drop(written.remove(&name)),
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        self.written = Some(written);
        failed
    }

    /// Whether there is a file of the pod with this UID.
    pub(crate) fn has(&self, uid: &str) -> bool {
        let written = self.written.as_ref();
        PodPools::file_name(uid)
            .is_some_and(|name| written.is_some_and(|written| written.contains_key(&name)))
    }

    fn read(&self) -> Result<BTreeMap<String, String>, statefile::Error> {
        let failed = |source| statefile::Error::Io { operation: "list", path: self.path.clone(), source };
        let entries = fs::read_dir(&self.path).map_err(failed)?;
        let content = |entry: fs::DirEntry| {
            (
                entry.file_name().to_string_lossy().into_owned(),
                fs::read_to_string(entry.path()).unwrap_or_default(),
            )
        };
        Ok(entries.filter_map(io::Result::ok).map(content).collect())
    }
}

/// Returns the UID that the kubelet passes to plugins for a static pod: the hash of its file.
fn static_uid(pod: &PartialObjectMeta<Pod>) -> Option<&str> {
    let uid = pod.annotations().get(STATIC_UID)?;
    let is_hash = uid.len() == 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then_some(uid)
}

fn pools_of(
    pod: &PartialObjectMeta<Pod>,
    namespace: &PartialObjectMeta<Namespace>,
    cluster_pools: &PoolFiles,
    reservations: &PodReservations,
) -> PodPools {
    let stable = StableName::of(pod);
    let reserved = stable.as_ref().map(|stable| reservations.of(stable, cluster_pools)).unwrap_or_default();
    let mut pools = PodPools {
        pod: format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any()),
        selected_by: cluster_pools.selectors.selecting(pod.labels(), namespace.labels()),
        is_stable: stable.is_some(),
        reserved: reserved.addresses,
        outdated: reserved.outdated,
        ..PodPools::default()
    };
    if let Err(error) = annotate(&mut pools, pod.annotations(), namespace.annotations()) {
        pools.problem = Some(error.to_string());
    }
    pools
}

fn annotate(
    pools: &mut PodPools,
    pod: &Annotations,
    namespace: &Annotations,
) -> Result<(), InvalidAnnotation> {
    pools.lists = pod_annotations::pool_lists(pod, namespace)?;
    pools.routes = pod_annotations::routes(pod)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(uid: &str, annotations: Value) -> PartialObjectMeta<Pod> {
        let metadata = json!({"uid": uid, "namespace": "ai", "name": "web-0", "annotations": annotations});
        serde_json::from_value(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})).unwrap()
    }

    fn files(path: &std::path::Path) -> BTreeMap<String, PodPools> {
        let entries = fs::read_dir(path).unwrap().map(Result::unwrap);
        let read = |entry: fs::DirEntry| {
            let value = serde_json::from_slice(&fs::read(entry.path()).unwrap()).unwrap();
            (entry.file_name().into_string().unwrap(), PodPools::from_json(&value).unwrap())
        };
        entries.map(read).collect()
    }

    #[test]
    fn a_file_has_what_the_objects_of_its_pod_say() {
        let object =
            |kind: &str, metadata: Value| json!({"apiVersion": "v1", "kind": kind, "metadata": metadata});
        let namespace = |name: &str, annotations: Value| {
            let metadata = json!({"name": name, "labels": {"tenant": name}, "annotations": annotations});
            serde_json::from_value::<PartialObjectMeta<Namespace>>(object("Namespace", metadata)).unwrap()
        };
        let (ai, hpc) = (
            namespace("ai", json!({"ipam.spidernet.io/default-ipv4-ippool": "[\"n\"]"})),
            namespace("hpc", Value::Null),
        );
        let namespaces = BTreeMap::from([("ai".to_owned(), &ai), ("hpc".to_owned(), &hpc)]);
        let pod = |uid: &str, namespace: &str, more: Value| {
            let mut metadata =
                json!({"uid": uid, "namespace": namespace, "name": "web-0", "labels": {"app": "train"}});
            metadata.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
            serde_json::from_value::<PartialObjectMeta<Pod>>(object("Pod", metadata)).unwrap()
        };
        let spec = json!({
            "subnet": "10.0.0.0/24", "podAffinity": {"matchLabels": {"app": "train"}},
            "namespaceAffinity": {"matchLabels": {"tenant": "ai"}},
        });
        let pool = json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "p"}, "spec": spec});
        let pool = serde_json::from_value(pool).unwrap();
        let pools = PoolFiles::of([&pool], [], &Default::default(), "n", &Default::default());
        let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "s", "controller": true}]);
        let routes = json!({"ipam.spidernet.io/routes": "[{\"dst\":\"10.1.0.0/16\",\"gw\":\"10.0.0.1\"}]"});
        let hash = "0123456789abcdef0123456789abcdef";
        let mirror = |created: &str| json!({"annotations": {STATIC_UID: hash}, "creationTimestamp": created});
        let pods = [
            pod("u-1", "ai", json!({"ownerReferences": owner, "annotations": routes})),
            pod("u-2", "hpc", Value::Null),
            pod("u-3", "unknown", Value::Null),
            // The older of two that name a static pod is the one.
            pod("u-4", "hpc", mirror("2026-01-02T00:00:00Z")),
            pod("u-5", "ai", mirror("2026-01-01T00:00:00Z")),
            pod(&hash.replace('0', "1"), "hpc", Value::Null),
            pod("u-6", "ai", json!({"annotations": {STATIC_UID: hash.replace('0', "1")}})),
        ];
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("pods");
        let mut directory = PodDirectory::create(path.clone()).unwrap();
        // A file that cannot be replaced does not prevent the others.
        fs::create_dir(path.join(".u-1.json.new")).unwrap();
        let mut write = || directory.write(&pods, &namespaces, &pools, &PodReservations::default());
        assert!(write().is_err());
        fs::remove_dir(path.join(".u-1.json.new")).unwrap();
        assert!(files(&path).contains_key("u-2.json") && !files(&path).contains_key("u-1.json"));
        write().unwrap();
        let found = files(&path);
        assert_eq!(
            (found.len(), found.contains_key("u-3.json")),
            (7, false),
            "its namespace is not known yet"
        );
        let one = &found["u-1.json"];
        assert!(one.is_stable && one.routes.len() == 1 && one.pod == "ai/web-0");
        assert_eq!((one.selected_by.pod_affinity.len(), one.selected_by.namespace_affinity.len()), (1, 1));
        assert!(matches!(&one.lists, ipam::PodPoolLists::OfPod { pools, .. } if pools.ipv4 == ["n"]));
        let two = &found["u-2.json"];
        assert!(!two.is_stable && two.routes.is_empty() && two.lists == ipam::PodPoolLists::OfNetwork);
        assert_eq!((two.selected_by.pod_affinity.len(), two.selected_by.namespace_affinity.len()), (1, 0));
        assert_eq!(found[&format!("{hash}.json")], found["u-5.json"]);
        assert_eq!(
            found[&format!("{}.json", hash.replace('0', "1"))].pod,
            "hpc/web-0",
            "it has this UID itself"
        );
    }

    #[test]
    fn the_directory_has_the_pods_of_the_node_only() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("pods");
        let namespace: PartialObjectMeta<Namespace> = serde_json::from_value(
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ai"}}),
        )
        .unwrap();
        let namespaces = BTreeMap::from([("ai".to_owned(), &namespace)]);
        let write = |directory: &mut PodDirectory, pods: &[PartialObjectMeta<Pod>]| {
            directory.write(pods, &namespaces, &PoolFiles::default(), &PodReservations::default()).unwrap();
        };
        let mut directory = PodDirectory::create(path.clone()).unwrap();
        let wrong = pod("u-2", json!({"ipam.spidernet.io/ippool": "x"}));
        let hash = "0123456789abcdef0123456789abcdef";
        let mirror = pod("u-3", json!({STATIC_UID: hash}));
        let thief = pod("u-4", json!({STATIC_UID: "u-1"}));
        write(&mut directory, &[pod("u-1", Value::Null), wrong, mirror, thief, pod("../u", Value::Null)]);
        let found = files(&path);
        let names: Vec<_> = found.keys().map(|name| name.trim_end_matches(".json")).collect();
        assert_eq!(names, [hash, "u-1", "u-2", "u-3", "u-4"]);
        assert_eq!(found["u-1.json"], PodPools { pod: "ai/web-0".to_owned(), ..PodPools::default() });
        assert!(found["u-2.json"].problem.as_ref().unwrap().contains("ipam.spidernet.io/ippool of the pod"));
        assert!(directory.has("u-1") && directory.has(hash) && !directory.has("u-9"));
        // Another agent continues with the files of the first.
        let mut other = PodDirectory::create(path.clone()).unwrap();
        assert!(!other.has("u-1"), "it may have changed meanwhile");
        write(&mut other, &[pod("u-1", json!({"ipam.spidernet.io/ippool": "{\"ipv4\":[\"a\"]}"}))]);
        assert_eq!(files(&path).keys().collect::<Vec<_>>(), ["u-1.json"]);
        assert_ne!(files(&path)["u-1.json"], found["u-1.json"]);
        PodDirectory::remove(path.clone()).unwrap();
        PodDirectory::remove(path.clone()).unwrap();
        assert!(!path.exists());
    }
}
