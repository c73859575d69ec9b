//! What the annotations and labels of the pod say about its pools, from the file that `silkraild ipam` writes for the pod.

use std::{fs, io, path::Path, time::Duration};

use cni::CallContext;
use ipam::{ListedPools, PodPools, PoolListSource};
use plugin_runtime::{Error, Node};

use crate::{cluster::ClusterPools, error::IpamError};

/// The timeout for the agent to learn of the pod. The kubelet has learned of it from the same API server.
const POD_TIMEOUT: Duration = Duration::from_secs(20);

/// Reads what is known about the pod of a call; `None` if the agent does not watch pods. Waits for the agent if it does not know
/// the pod yet.
///
/// # Errors
/// If the runtime does not pass the pod's UID; if the agent does not know the pod; if it is another pod with this UID.
pub(crate) fn read(
    cluster: &ClusterPools,
    node: &Node,
    common: &CallContext<'_>,
) -> Result<Option<PodPools>, Error> {
    let directory = cluster.pods_dir();
    let uid = match (common.args.get("K8S_POD_UID"), directory.is_dir()) {
        (_, false) => return Ok(None),
        (Some(uid), true) => uid,
        (None, true) => return Err(IpamError::NoPodUid("K8S_POD_UID is not set".to_owned()).into()),
    };
    let Some(name) = PodPools::file_name(uid) else {
        return Err(IpamError::NoPodUid(format!("K8S_POD_UID: expected a UID, found {uid:?}")).into());
    };
    let path = directory.join(name);
    let text = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            cluster.request_pod(node, uid, POD_TIMEOUT)?;
            fs::read(&path)
        }
        read => read,
    };
    let problem = |problem: String| IpamError::PodFile(format!("{}: {problem}", path.display()));
    let text = text.map_err(|error| problem(error.to_string()))?;
    let value = serde_json::from_slice(&text).map_err(|error| problem(error.to_string()))?;
    let pod = PodPools::from_json(&value).map_err(|error| problem(error.to_string()))?;
    check_name(&pod, common, &path)?;
    Ok(Some(pod))
}

/// Returns the lists of pools for an interface: those of annotations, or else those of the network.
///
/// # Errors
/// If an annotation is invalid or lists other interfaces only.
pub(crate) fn listed(
    pod: Option<&PodPools>,
    ifname: &str,
    of_network: ListedPools,
) -> Result<(PoolListSource, ListedPools), Error> {
    let annotated = pod.map_or(Ok(None), |pod| pod.of_interface(ifname)).map_err(IpamError::from)?;
    Ok(match annotated {
        None => (PoolListSource::Network, of_network),
        Some((source, pools)) => {
            // The annotation of interfaces has a key of its own for it.
            let clean_gateway = match source {
                PoolListSource::PodInterfaces => pools.clean_gateway,
                _ => of_network.clean_gateway,
            };
            (source, ListedPools { clean_gateway, ..pools.clone() })
        }
    })
}

/// Checks that the file is of the pod that the runtime names.
fn check_name(pod: &PodPools, common: &CallContext<'_>, path: &Path) -> Result<(), Error> {
    let (Some(namespace), Some(name)) =
        (common.args.get("K8S_POD_NAMESPACE"), common.args.get("K8S_POD_NAME"))
    else {
        return Ok(());
    };
    let expected = format!("{namespace}/{name}");
    if pod.pod == expected {
        return Ok(());
    }
    let text = format!("{}: expected pod {expected} of CNI_ARGS, found {}", path.display(), pod.pod);
    Err(IpamError::PodFile(text).into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ipam::PodPoolLists;
    use serde_json::json;

    use super::*;
    use crate::tests::call;

    #[test]
    fn the_default_route_is_decided_where_the_interface_is() {
        let list = |name: &str, clean_gateway| ListedPools {
            ipv4: vec![name.to_owned()],
            clean_gateway,
            ..ListedPools::default()
        };
        let of = |lists: PodPoolLists, network: bool| {
            let pod = PodPools { lists, ..PodPools::default() };
            let (source, found) = listed(Some(&pod), "net1", list("network", network)).unwrap();
            (source, found.ipv4[0].clone(), found.clean_gateway)
        };
        for network in [false, true] {
            let expected = (PoolListSource::Network, "network".to_owned(), network);
            assert_eq!(of(PodPoolLists::OfNetwork, network), expected);
            for source in [PoolListSource::Pod, PoolListSource::Namespace] {
                let lists = PodPoolLists::OfPod { source, pools: list("pod", !network) };
                assert_eq!(of(lists, network), (source, "pod".to_owned(), network), "as the network says");
            }
            let lists = BTreeMap::from([
                ("net0".to_owned(), list("x", network)),
                ("net1".to_owned(), list("one", !network)),
            ]);
            let expected = (PoolListSource::PodInterfaces, "one".to_owned(), !network);
            assert_eq!(of(PodPoolLists::OfInterfaces(lists), network), expected);
        }
        assert!(listed(None, "net1", list("network", true)).unwrap().1.clean_gateway);
    }

    #[test]
    fn a_file_of_another_pod_is_not_used() {
        let pod = PodPools { pod: "ai/web-0".to_owned(), ..PodPools::default() };
        let check = |args: &str| check_name(&pod, &call(&json!({}), args), Path::new("/p")).is_ok();
        assert!(check("K8S_POD_NAMESPACE=ai;K8S_POD_NAME=web-0") && check("K8S_POD_NAME=x") && check(""));
        assert!(
            !check("K8S_POD_NAMESPACE=ai;K8S_POD_NAME=web-1")
                && !check("K8S_POD_NAMESPACE=b;K8S_POD_NAME=web-0")
        );
    }
}
