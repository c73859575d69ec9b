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
